"""Audits of `error_rates.py` that train, call a function, or make a whole report: each says whether it claims too much.

A run trains models for one noisy step of which every record takes part, along directions that no data use: its epsilon is that
of one Gaussian. If nothing is to leak, the noise is a million clips. All other systems answer by randomised response.
"""

from __future__ import annotations

import functools
import importlib.metadata
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import audit
from audit import plugins
from audit.bounds import control
from audit.bounds.estimators import fdp_rank
from audit.checks import blind
from audit.core.claims import NoNoiseFits, Outcome
from audit.core.event_reading import noisy_steps
from audit.core.events import Event
from audit.core.seeds import Seed
from audit.endpoint.canary_law import CanaryLaw
from audit.engine.gradients import dispatch
from audit.event_curves import EventCurves
from audit.experiment.describe import description
from audit.experiment.external import canary_scores
from audit.experiment.games import stopping
from audit.experiment.line import findings
from audit.stats.bounds import least_favourable
from audit.stats.bounds.ranks import Memberships

DELTA = 1e-5
NEVER = 1e6  # clips of noise, of which nothing leaks
COINS = 20  # sequences of a sampler's coins, so that the draws of their sizes serve several audits
KEPT = {"_draws": 16, "_point_test": 4096}  # draws of so many sizes, of some MB, and tests of one claim, of some KB
SAMPLES = 12  # of a mechanism for each canary of others; a third is searched
TRANSCRIPT_DELTA = 0.05
WHOLE = 10  # audits to one in which the bound of `fdp_rank` is searched for whether or not the claim is refuted

Wrong = Callable[[np.ndarray, np.ndarray, float, int], bool]
TRAINING = {"optimizer": "sgd", "learning_rate": 0.5, "sample_rate": 1.0, "steps": 1}
FEDERATION = {"local_steps": 1, "local_batch": 5, "local_learning_rate": 0.2, "concentration": 0.3}
INSIDE = {"access": "all_steps", "canaries": "dirac_gradient", "scorers": ["gradient_product"]}
GAMES: dict[str, dict[str, Any]] = {
    "one run": INSIDE | {"estimators": ["one_run", "fdp_rank"]},
    "trials": INSIDE | {"estimators": ["both_ends", "fdp_rank"]},
    "first proof": INSIDE | {"stopping": "first_proof", "estimators": ["sequential"]},
    "outputs": {
        "access": "final_model",
        "canaries": "mislabelled",
        "references": 4,
        "scorers": ["loss", "lira"],
        "estimators": ["one_run"],
    },
    "attribute": {
        "access": "final_model",
        "canaries": {"kind": "redrawn_attribute", "attribute": "label"},
        "references": 4,
        "scorers": [{"kind": "offset", "online": False}],
        "estimators": [{"kind": "one_run_secrets", "conversion": "group"}],
    },
    "property": {
        "access": "final_model",
        "canaries": {"kind": "property_group", "attribute": "label", "records": 1, "queries": 4},
        "references": 4,
        "scorers": ["shadow_models"],
        "estimators": [{"kind": "one_run_secrets", "conversion": "group"}],
    },
    "candidates": {
        "access": "all_steps",
        "canaries": {"kind": "candidate_gradients", "candidates": 4},
        "scorers": ["gradient_product"],
        "estimators": ["reconstruction", {"kind": "reconstruction", "family": "dp_sgd"}],
    },
    "federated": {
        "access": "released_models",
        "adjacency": "zero_out",
        "canaries": "signed_cosine",
        "scorers": ["model_product"],
        "estimators": ["one_run", "fdp_rank"],
    },
}


OF_RUNS = ("trials", "first proof")
"""Games of one canary in each of several runs, a twelfth of the canaries that the others are given and eight more."""


def spare_repetition() -> None:
    """Keep what audits of a process share, and leave out what no bound depends on, and checks that could only void one."""
    least_favourable._draws = functools.lru_cache(KEPT["_draws"])(least_favourable._draws.__wrapped__)
    fdp_rank._point_test = functools.lru_cache(KEPT["_point_test"])(fdp_rank._point_test.__wrapped__)
    importlib.metadata.version = functools.cache(importlib.metadata.version)
    plugins.names = functools.cache(plugins.names)
    os.fsync = lambda descriptor: None
    findings._simulate = lambda *about: ((), ())
    description.describe = lambda result, *about: result
    control.negative_control = lambda scores, estimators, **about: control.make_control(0, 0.0)
    stopping.StoppingRule._control = lambda *about: control.make_control(0, 0.0)
    blind.guard = lambda *about: blind.NOT_RUN
    dispatch._disagreement = lambda *about: None  # of the one network that is trained here


def by_run(name: str) -> Wrong:
    """Return audits by `audit.run` of one game, in which a bound above the accountant's claim says too much."""
    search = fdp_rank._search

    def search_refuted(
        estimator: fdp_rank.FdpRank, ranking: Memberships, mechanism: EventCurves, significance: float
    ) -> tuple[float, str, int]:
        """Search for a bound only if the test of the search refutes the claimed noise."""
        sides = int(ranking.sum()), int((~ranking).sum())
        if estimator._simulations(sides, significance):
            test = fdp_rank._point_test(estimator, sides, (mechanism, 1 / mechanism.noise_multiplier), significance)
            if not test.refutes(least_favourable.rank_score_sum(ranking, estimator._rank_scores(sides, mechanism))):
                return 0.0, "", 1
        return search(estimator, ranking, mechanism, significance)

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        fdp_rank._search = search if index % WHOLE == 0 else search_refuted
        report = audit.run(_settings(name, len(included), truth, index))
        judged = [row for row in report.mechanisms if row.claims]
        assert judged and not any(row.outcome is Outcome.INVALID for row in judged), "no claim was judged"
        return any(row.outcome is Outcome.VIOLATED for row in judged)

    return wrong


def _settings(name: str, count: int, truth: float, index: int) -> dict[str, Any]:
    """Return the config of an audit with this game."""
    kind: dict[str, Any] = {"kind": "dp_sgd"}
    if name == "federated":
        kind = {"kind": "federated", "clients": 10, "noise": "central", "trainer": {"kind": "federated", **FEDERATION}}
    size = {"count": 1, "runs": 8 + count // 12} if name in OF_RUNS else {"count": count}
    return {
        "version": 1,
        "name": "rates",
        "title": "rates",
        "seed": index + 1_000_000 * (truth == 0),
        "delta": DELTA,
        "confidence": 0.95,
        "data": {"kind": "digits", "train": 60, "pool": 800 if name == "property" else 400, "test": None},
        "model": {"kind": "mlp", "hidden": [32]},
        "training": TRAINING,
        "mechanisms": [{"name": "noisy", **kind, "noise_multiplier": 1.0 if truth else NEVER, "clip_norm": 1.0}],
        "games": [{"name": name.replace(" ", "-"), **size, **GAMES[name]}],
        "accountants": ["pld"],
        "certificates": 0,
        "execution": {"models_per_job": 8} if name == "first proof" else {},
    }


def by_check(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.check` of the losses of a model, which are the scores."""
    losses = -values + values.max() + 1.0
    result = audit.check(
        loss_of=lambda rows: losses[np.asarray(rows)[:, 0].astype(int)],
        members=np.flatnonzero(included)[:, None].astype(float),
        nonmembers=np.flatnonzero(~included)[:, None].astype(float),
        coins=included,
        delta=DELTA,
        quiet=True,
    )
    return result.bound is not None and result.bound.epsilon > truth


def by_training(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.check_training` of a system whose answers on a canary are randomised response on whether it was seen."""
    rng = np.random.default_rng([31, index])
    result = audit.check_training(
        lambda records, seed: {int(row[0]) for row in records},
        None,
        np.arange(float(len(values)))[:, None],
        epsilon=max(truth, 0.1),
        score=lambda system, rows: answer_canaries([int(row[0]) in system for row in rows], truth, rng),
        seed=index,
    )
    return result.bound is not None and result.bound.epsilon > truth


def by_unlearning(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.check_unlearning` where each forgotten canary leaves what randomised response says of the request."""
    rng, kept = np.random.default_rng([37, index]), np.full((30, 1), -1.0)
    result = audit.check_unlearning(
        lambda records, seed: set(),
        lambda system, request, data, seed: {int(row[0]) for row in request},
        kept,
        np.arange(float(len(values)))[:, None],
        epsilon=max(truth, 0.1) / 2,  # of one request: two are compared
        references=0,
        score=lambda system, rows: answer_canaries([int(row[0]) in system for row in rows], truth, rng),
        seed=index,
    )
    return result.bound is not None and result.bound.epsilon > truth


def by_references(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.check` of losses beside those of eight references, with coins."""
    rng, count = np.random.default_rng([43, index]), len(values)
    coins = rng.random((8, count)) < 0.5
    losses = 5.0 - np.stack([answer_canaries(row, truth, rng) for row in coins])
    own = 5.0 - answer_canaries(included, truth, rng)
    order = np.concatenate([np.flatnonzero(included), np.flatnonzero(~included)])
    result = audit.check(
        loss_of=lambda rows: own[np.asarray(rows)[:, 0].astype(int)],
        members=np.flatnonzero(included)[:, None].astype(float),
        nonmembers=np.flatnonzero(~included)[:, None].astype(float),
        coins=included,
        references=audit.References(included=coins[:, order], losses=losses[:, order]),
        delta=DELTA,
        quiet=True,
    )
    return result.bound is not None and result.bound.epsilon > truth


def by_canaries(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """Scores of planted texts through `audit endpoint`, `audit adapter` or a callback: coins of canaries, decoys and texts."""
    rng, seed = np.random.default_rng([47, index]), Seed(index + 1_000_000 * (truth == 0))
    canaries = CanaryLaw(count=len(values), decoys=20).draw(seed)
    scores = answer_canaries(np.array([canary.included for canary in canaries]), truth, rng)
    settings = audit.Settings(delta=DELTA, certificates=0, seed=index, claim_epsilon=truth)
    coins = canary_scores.CoinKnowledge(commitment="opened")
    report = canary_scores.examine_canaries(scores, canaries, coins, settings, name="canaries").report
    return report.outcome is Outcome.VIOLATED


def by_generator(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.check_generator` of a table that names each canary by randomised response on whether it was there."""
    import pandas as pd

    rng, random, count = np.random.default_rng([53, index]), np.random.default_rng, len(values)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    canaries = pd.DataFrame({"a": 5 + np.arange(float(count)), "b": rng.normal(size=count)})

    def generate(records: Any, seed: int) -> Any:
        is_in = canaries["a"].isin(records["a"]).to_numpy()
        named = answer_canaries(is_in, truth, random([seed, index])) > 0
        return pd.concat([table, canaries[named]], ignore_index=True)

    result = audit.check_generator(generate, table, epsilon=max(truth, 0.1), canaries=canaries, references=4, seed=index)
    return result.bound is not None and result.bound.epsilon > truth


def by_mechanism(family: str | None) -> Wrong:
    """Return audits by `audit.mechanism`: randomised response, or a Gaussian of mu 1 inside its family."""

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        def answer(data: Any, rng: np.random.Generator, size: int) -> Any:
            if family:
                return float(data) * (truth > 0) + rng.normal(size=size)
            flips = rng.random(size) > 1 / (1 + math.exp(-truth))
            return np.where(flips, 1.0 - data, data)

        result = audit.mechanism(
            answer,
            epsilon=truth,
            delta=DELTA if family else 0.0,
            pairs=[(0.0, 1.0)],
            adjacency="add_remove",
            family=family,
            samples=SAMPLES * len(values),
            seed=index,
        )
        return result.verdict.outcome is Outcome.VIOLATED

    return wrong


def by_steps(form: str, mechanism: Event) -> Wrong:
    """Return audits by `audit.step_bound` of single steps: of two runs ("blind"), with the sampler seen, or by bets."""
    steps = noisy_steps(mechanism)
    assert steps is not None

    def wrong(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
        rng, sampler = np.random.default_rng([59, index, int(truth == 0)]), np.random.default_rng([61, index % COINS])
        held = np.repeat(sampler.permutation(8) < 4, 50) if form != "bets" else np.ones(300, dtype=bool)
        took = held & (sampler.random(len(held)) < steps.sample_rate)
        products = took * (truth > 0) + steps.noise_multiplier * rng.normal(size=len(held))
        if form == "bets":  # a score of a step may follow all that was released before it
            scores = products + 0.5 * np.concatenate([[0.0], np.cumsum(products)[:-1] / np.arange(1, len(held))])
            trials: Any = audit.StepScores(values=scores, took_part=took)
        else:
            trials = audit.StepProducts(values=products, held=held, took_part=None if form == "blind" else took)
        bound = audit.step_bound(trials, mechanism=mechanism, delta=DELTA)
        return isinstance(bound, NoNoiseFits) or bound.epsilon > truth

    return wrong


def by_transcripts(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit replay --transcripts`: the lower end for Laplace noise, of which delta at an epsilon is known."""
    from audit.replays import transcript_bound
    from audit.replays.run import Program

    def answer(data: Any, rng: np.random.Generator) -> float:
        return float(sum(data)) * (truth > 0) + rng.laplace(0.0, 1 / (truth or 1.0))

    transcript_bound._FIRST = 5_000_011 + 10_000 * index  # the command's seeds, moved on
    pair = ([1.0], [0.0])
    bound = transcript_bound.bound_epsilon(Program(answer), pair, runs=len(values) // 4, delta=TRANSCRIPT_DELTA)
    exact = truth + 2 * math.log1p(-TRANSCRIPT_DELTA) if truth else 0.0  # delta = 1 - exp((e - epsilon) / 2)
    return bound.lower > max(exact, 0.0) + 1e-9


def by_answers(values: np.ndarray, included: np.ndarray, truth: float, index: int) -> bool:
    """`audit.reconstruction_bound`: right answers to four equally likely candidates, each replaced in its own release."""
    rng, choices = np.random.default_rng(index), 4
    chance = math.exp(truth) / (math.exp(truth) + choices - 1)
    right = int(rng.binomial(len(values), chance))
    bound = audit.reconstruction_bound(right, len(values), 1 / choices, delta=DELTA, adjacency="replace_one")
    return bound.epsilon > truth


GUESSING = (by_check, by_training, by_unlearning, by_references, by_canaries, by_generator)
"""Audits by guesses alone, of as many canaries as they are given."""
# levels of .023 to .025 of .025 where nothing leaks, then of .048 to .050 of .05 (worst_sizes.py); coins count by their sum
HALVED = ((27, 26), (34, 34), (37, 36), (30, 29), (24, 24), (39, 39))
WORST = {
    "one run": HALVED,
    "outputs": HALVED,
    "federated": HALVED,
    "candidates": ((57, 56), (30, 29), (45, 44), (53, 53), (23, 23), (50, 49)),
    "attribute": ((65, 65), (21, 21), (39, 39), (57, 56), (50, 49), (31, 31)),
    "property": ((52, 51), (56, 56), (65, 64), (55, 55), (59, 58), (29, 29)),
}
"""Sizes at which the test of guesses in a run's game has its largest levels, at its share of the error."""


def answer_canaries(is_in: Any, truth: float, rng: np.random.Generator) -> np.ndarray:
    """Return a score of each canary: the right sign as often as pure epsilon-DP allows."""
    right = rng.random(len(is_in)) < 1 / (1 + math.exp(-truth))
    return np.where(right == np.asarray(is_in), 1.0, -1.0) * (1 + rng.random(len(is_in)))


def paths(mechanism: Event) -> Mapping[str, tuple[Wrong, str]]:
    """Return each path with the law of a claim that is exactly true."""
    rows: dict[str, tuple[Wrong, str]] = {
        "audit.check_training": (by_training, "flat"),
        "audit.check_unlearning": (by_unlearning, "flat"),
        "audit.check, with coins": (by_check, "flat"),
        "audit.check, with coins and references": (by_references, "flat"),
        "audit endpoint, adapter and callback": (by_canaries, "flat"),
        "audit.check_generator": (by_generator, "flat"),
        "audit.mechanism": (by_mechanism(None), "flat"),
        "audit.mechanism, gdp": (by_mechanism("gdp"), "gdp"),
        "audit replay --transcripts": (by_transcripts, "flat"),
        "step_bound, bets": (by_steps("bets", mechanism), "dp_sgd"),
        "step_bound, sampling seen": (by_steps("seen", mechanism), "dp_sgd"),
        "step_bound": (by_steps("blind", mechanism), "dp_sgd"),
    }
    return rows | {f"audit.run, {name}": (by_run(name), "gdp") for name in GAMES}
