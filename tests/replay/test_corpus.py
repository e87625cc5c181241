"""On the corpus: no right program is refuted, nearly all are proved; wrong ones are refuted, and none is proved."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

from audit.core.adjacency import Adjacency
from audit.replays import check, claims, neighbours, run, search
from audit.replays.check import ReplayVerdict
from tests.replay import (
    fresh_programs,
    right_programs_learning,
    right_programs_releases,
    right_programs_selections,
    torch_programs,
    wrong_programs,
)
from tests.replay.corpus import FOUND, MAKERS, PROVED, REFUTED, UNREFUTED, Program, make_pairs

RIGHT_MODULES = (right_programs_learning, right_programs_releases, right_programs_selections)
MODULES = (*RIGHT_MODULES, torch_programs, wrong_programs)
EVERY = [*fresh_programs.RIGHT, *(program for module in MODULES for program in module.PROGRAMS)]
QUICK = {program.name for program in EVERY if program.expect == PROVED and program.name.startswith(("tree", "noisy max"))}
MOST_PAIRS = {PROVED: 4, UNREFUTED: 2, REFUTED: 60, FOUND: 60}

HIDDEN = "standardised by the data"  # its loss exceeds the claim at data sets only that the search makes


def verdicts(program: Program) -> list[ReplayVerdict]:
    """Return the verdicts of a program's pairs, up to the first refutation."""
    claim = claims.ReplayClaim(epsilon=program.epsilon or 1.0, delta=program.delta, mu=program.mu)
    pairs = make_pairs(program, sets=2)
    random.Random(0).shuffle(pairs)
    replayed, results = run.Program(program.run), []
    for pair in pairs[: MOST_PAIRS[program.expect]]:
        results.append(check.check_pair(replayed, pair, claim).verdict)
        if results[-1] is ReplayVerdict.REFUTED:
            break
    return results


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "program",
    [program if program.name in QUICK else pytest.param(program, marks=pytest.mark.slow) for program in EVERY],
    ids=lambda program: program.name,
)
def test_the_verdict_is_the_one_that_the_program_deserves(program: Program) -> None:
    results = verdicts(program)
    if program.expect == PROVED:
        assert set(results) == {ReplayVerdict.PROVED}
    elif program.expect == UNREFUTED:
        assert ReplayVerdict.REFUTED not in results
    elif program.name != HIDDEN:  # refuted, or left open for sampling
        assert set(results) != {ReplayVerdict.PROVED}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", fresh_programs.WRONG, ids=lambda program: program.name)
def test_the_pairs_that_a_replay_makes_prove_no_wrong_program(program: Program) -> None:
    stream, kind = np.random.default_rng(5), program.data
    data = next(data for data in (MAKERS[kind][0](stream) for _ in range(99)) if len(data) > 4)
    low, high = {"numbers": (0.0, 10.0), "bits": (0.0, 1.0)}.get(kind, (None, None))
    pairs = neighbours.make_pairs(data, Adjacency.by_name(program.adjacency), low=low, high=high)
    claim = claims.ReplayClaim(epsilon=program.epsilon or 1.0, delta=program.delta, mu=program.mu)
    replayed = run.Program(program.run)
    assert any(
        check.check_pair(replayed, (first, second), claim).verdict is not ReplayVerdict.PROVED for _, first, second in pairs
    )


@pytest.mark.slow
def test_data_sets_are_varied_towards_a_larger_loss() -> None:
    program = next(program for program in EVERY if program.name == HIDDEN)
    data = np.round(np.random.default_rng(0).uniform(0, 10, 6), 1)
    pairs = neighbours.make_pairs(data, Adjacency.ADD_REMOVE, low=0, high=10)
    pool = functools.partial(neighbours.PairPool, data, Adjacency.ADD_REMOVE, (0, 10))
    *before, last = search.search(program.run, pairs, claims.ReplayClaim(epsilon=1.0), pool=pool)
    assert {result.verdict for result in before} == {ReplayVerdict.PROVED}
    assert last.verdict is ReplayVerdict.REFUTED
    assert abs(len(last.data) - len(last.neighbour)) == 1


def test_the_corpus_is_large() -> None:
    expected = [program.expect for program in EVERY]
    assert expected.count(PROVED) + expected.count(UNREFUTED) >= 200
    assert expected.count(PROVED) >= 150
    assert expected.count(REFUTED) + expected.count(FOUND) >= 60
