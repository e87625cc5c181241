"""`audit report --edition external`: computed from turned memberships, attacked before it is written, signed alone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from audit.checks.editions import attack, constraints
from audit.checks.membership import draw_coins
from audit.cli import edition as gate
from audit.cli import report as commands
from audit.cli import report_files
from audit.cli import verify as verification
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError, ConfigError, DataError
from audit.core.results import AuditReport, Check, Status
from audit.core.seeds import SHORTEST_SEED, new_seed
from audit.execution import run_folder
from audit.experiment.external import editions
from audit.experiment.external.inspection import Settings, inspect_scores
from reports.editions.external import external
from reports.formats.json import to_json
from tests.marks import slow
from tests.reports import sample
from tests.reports.scored import KEY, scored_folder, scored_report


def games_of(report: AuditReport, table: pd.DataFrame) -> dict[editions.Place, editions.ScoredGame]:
    columns = {str(name): part.score.to_numpy() for name, part in table.groupby("attack")}
    (result,) = report.mechanisms
    included = table[table.attack == "a"].member.to_numpy()
    return {(result.name, result.games[0].name): editions.ScoredGame(columns=columns, included=included)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shift", slow([0.0, 0.5, 1.5, 4.0], [0.0, 1.5, 4.0]))
def test_the_attacker_recovers_records_from_the_internal_edition_and_none_from_the_external_one(shift: float) -> None:
    report, table = scored_report(shift)
    games = games_of(report, table)
    exact = editions.noisy_report(report, games, KEY)
    (weak,) = editions.leaks([exact], report, games, KEY)
    assert weak.certain_records > 50 and weak.problem, "the attacker is too weak: this test would prove nothing"
    edition = external(editions.noisy_report(report, games, KEY), epsilon=editions.EPSILON)
    (leak,) = editions.leaks([edition, external(exact, "Another title")], report, games, KEY)
    assert leak.certain_records == 0 and leak.problem == "" and leak.together <= leak.alone + 0.01


@pytest.mark.parametrize("shift", slow([0.3, 0.6, 1.0], [0.3]))
def test_the_attacker_ranks_with_an_edition_no_worse_than_without(shift: float) -> None:
    """An attacker that constraints mislead would make the gate's comparison of areas say nothing."""
    report, table = scored_report(shift)
    games = games_of(report, table)
    edition = external(editions.noisy_report(report, games, KEY), epsilon=editions.EPSILON)
    (leak,) = editions.leaks([edition], report, games, KEY)
    assert abs(leak.together - leak.alone) <= 0.01


def test_scores_that_are_always_right_rank_as_well_with_constraints_that_hold_loosely() -> None:
    """Of two constraints on one sum a slack one must not hold back what the other asks for."""
    included = np.arange(550) < 282
    scores = np.where(included, 1 + np.arange(550) % 38, 0.0)
    everyone, above = np.ones(550), included.astype(float)
    rows = [(everyone, 282, 282), (everyone, 0, 524), (everyone, 267, 550), (above, -27, 283), (above, 256, 293)]
    rows.append((constraints.rank(scores), 111_700, 115_761))
    equations = constraints.Constraints.of([(row, float(low), float(high)) for row, low, high in rows], 550)
    recovery = attack.recover(equations, attack.chances(scores, 282))
    assert attack.area(recovery.ranking, included) == 1.0


@pytest.mark.slow
def test_what_the_attacker_calls_certain_is_right() -> None:
    for shift in (0.3, 1.0):
        report, table = scored_report(shift)
        ((_, game),) = games_of(report, table).items()
        figures = report.mechanisms[0].games[0]
        equations = constraints.read(figures, game.columns, int(game.included.sum()), 1e-9)
        recovery = attack.recover(equations.join(constraints.guesses(figures, game.columns)), np.full(len(game.included), 0.5))
        known = recovery.certain >= 0
        assert known.sum() > 50 and (recovery.certain[known] == game.included[known]).all() and not recovery.contradicts


@pytest.mark.slow
def test_the_order_of_records_with_equal_scores_tells_the_attacker_nothing() -> None:
    """Members come first in many files: a game without a leak stays without one, however many scores are equal."""
    included = np.arange(800) < 400
    columns = {"label_only": np.ones(800), "a": (np.arange(800) % 7).astype(float)}
    game = inspect_scores(columns, included, Settings(certificates=0), name="scores").mechanisms[0].games[0]
    recovery = attack.recover(constraints.read(game, columns, 400, 1e-9), attack.chances(columns["label_only"], 400))
    assert (recovery.certain < 0).all() and attack.area(recovery.ranking, included) < 0.53


def naive(equations: constraints.Constraints) -> Array:
    """Coins that all solutions share, by trying all assignments."""
    count = equations.weights.shape[1]
    rows = np.array([[number >> place & 1 for place in range(count)] for number in range(2**count)])
    sums = rows @ equations.weights.T
    rows = rows[((sums >= equations.low - 1e-6) & (sums <= equations.high + 1e-6)).all(axis=1)]
    shared = (rows == rows[0]).all(axis=0)
    return np.where(shared, rows[0], -1)


def test_no_membership_is_called_certain_that_another_solution_contradicts() -> None:
    stream = np.random.default_rng(1)
    hits = 0
    for _ in range(60):
        coins = stream.random(9) < 0.5
        weights = stream.integers(-1, 2, (4, 9)).astype(float)
        low, high = weights @ coins, weights @ coins + stream.integers(0, 2, 4)
        equations = constraints.Constraints(weights=weights, low=low, high=high)
        certain, contradicts = attack.propagate(equations)
        truth = naive(equations)
        assert not contradicts and ((certain < 0) | (certain == truth)).all()
        hits += int((certain >= 0).sum())
    assert hits > 20


def test_each_membership_turns_over_with_the_chance_that_is_stated_and_in_all_editions_alike() -> None:
    included = np.zeros(400_000, dtype=bool)
    noisy = editions.flip_memberships(included, KEY, ("a", "b"))
    spread = np.sqrt(editions.FLIP_RATE * (1 - editions.FLIP_RATE) / len(included))
    assert abs(noisy.mean() - editions.FLIP_RATE) < 4 * spread
    assert np.isclose(np.log((1 - editions.FLIP_RATE) / editions.FLIP_RATE), editions.EPSILON)
    assert np.array_equal(noisy, editions.flip_memberships(included, KEY, ("a", "b")))
    assert not np.array_equal(noisy, editions.flip_memberships(included, KEY, ("a", "c")))
    assert not np.array_equal(noisy, editions.flip_memberships(included, KEY[::-1], ("a", "b")))


@pytest.mark.slow
def test_the_command_writes_an_edition_that_states_its_own_epsilon(tmp_path: Path) -> None:
    folder = scored_folder(tmp_path / "run")
    assert commands.report(folder, edition="external") == 0
    edition = report_files.load(folder / "report-external.json")
    assert edition.notes[0].startswith("Epsilon of this edition: 6.")
    assert verification.verify(folder / "report-external.json") == verification.verify(folder / "report-external.pdf") == 0
    first = (folder / "report-external.json").read_bytes()
    assert commands.report(folder, edition="external") == 0 and (folder / "report-external.json").read_bytes() == first
    assert verification.check_numbers(folder).problems == []
    (attack_row,) = edition.mechanisms[0].games[0].attacks
    game = replace(edition.mechanisms[0].games[0], attacks=(replace(attack_row, auc=0.5),))
    better = replace(edition, id="", mechanisms=(replace(edition.mechanisms[0], games=(game,)),))
    better = replace(better, id=f"PX-{hashlib.sha256(to_json(better)).hexdigest()[:8].upper()}")
    (folder / "report-external.json").write_bytes(to_json(better))
    (problem,) = verification.check_numbers(folder).problems
    assert problem.startswith("report-external.json")


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["scores.parquet", "private/record-key"])
def test_without_scores_or_secret_there_is_no_edition(tmp_path: Path, missing: str) -> None:
    folder = scored_folder(tmp_path / "run")
    (folder / missing).unlink()
    with pytest.raises(DataError, match=Path(missing).name):
        commands.report(folder, edition="external")
    assert not (folder / "report-external.json").exists()


@pytest.mark.slow
def test_scores_of_another_report_are_refused(tmp_path: Path) -> None:
    folder = scored_folder(tmp_path / "run")
    table = pd.read_parquet(folder / "scores.parquet")
    table.assign(attack=table.attack.replace("a", "z")).to_parquet(folder / "scores.parquet")
    with pytest.raises(DataError, match="not of this report"):
        commands.report(folder, edition="external")


@pytest.mark.slow
def test_a_short_seed_and_guessed_coins_have_no_edition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = sample.run()
    assert (short.provenance.seed or 0) < SHORTEST_SEED
    (tmp_path / "report.json").write_bytes(to_json(short))
    with pytest.raises(ConfigError, match="can be guessed"):
        commands.report(tmp_path, edition="external")
    for seed in (7, 20_260_101):
        assert attack.guessed_seed(draw_coins(500, seed)) == seed
    assert attack.guessed_seed(draw_coins(500, 2**90 + 5)) is None


@pytest.mark.slow
def test_no_edition_is_written_if_a_record_is_recovered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = scored_folder(tmp_path / "run")
    monkeypatch.setattr("reports.editions.external.external", lambda report, *_: report)
    with pytest.raises(ConfigError, match=r"\d+ of 700 memberships follow with certainty"):
        commands.report(folder, edition="external", formats=["json"])
    assert not (folder / "report-external.json").exists()


@pytest.mark.slow
def test_a_verdict_that_turned_memberships_do_not_show_is_not_given_away() -> None:
    report, table = scored_report(4.0, claim=0.5)
    games = games_of(report, table)
    assert editions.noisy_report(report, games, KEY).outcome is not None
    (result,) = report.mechanisms
    weak = {
        place: replace(game, columns=dict.fromkeys(game.columns, np.zeros(len(game.included)))) for place, game in games.items()
    }
    with pytest.raises(AuditError, match=f"'{result.name}'"):
        editions.noisy_report(report, weak, KEY)


@pytest.mark.parametrize("code", ["blind", "order", "decoys", "twin", "references", "clip"])
def test_a_failed_check_of_memberships_has_no_edition(code: str) -> None:
    """One membership can decide whether such a check fails; what a check of code says is the same for all memberships."""
    report, table = scored_report(claim=None)
    (result,) = report.mechanisms
    failing = replace(result, checks=(Check(code=code, item="Some check", value="found", status=Status.FAILED),))
    changed = replace(report, mechanisms=(failing,))
    with nullcontext() if code == "clip" else pytest.raises(AuditError, match="Some check"):
        assert editions.noisy_report(changed, games_of(report, table), KEY).mechanisms


def test_a_void_audit_without_a_claim_stays_void_in_its_edition() -> None:
    report, table = scored_report(claim=None)
    (result,) = report.mechanisms
    games = tuple(game.type_bounds(void=True) for game in result.games)
    void = replace(report, mechanisms=(replace(result, outcome=Outcome.INVALID, games=games),))
    edition = external(editions.noisy_report(void, games_of(report, table), KEY), epsilon=editions.EPSILON)
    assert edition.mechanisms[0].is_void and edition.mechanisms[0].all_bounds and not edition.mechanisms[0].bounds


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signatures need ssh-keygen of OpenSSH")
def test_a_signature_of_an_edition_is_of_that_edition_alone(tmp_path: Path) -> None:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "own")], check=True, stdin=subprocess.DEVNULL
    )
    folder = scored_folder(tmp_path / "run")
    commands.report(folder, formats=["json"], key=tmp_path / "own")
    full = (folder / run_folder.SUMS).read_bytes(), (folder / run_folder.SIGNATURE).read_bytes()
    commands.report(folder, edition="external", key=tmp_path / "own")
    assert ((folder / run_folder.SUMS).read_bytes(), (folder / run_folder.SIGNATURE).read_bytes()) == full
    assert set(run_folder.read_sums(folder, run_folder.EXTERNAL_SUMS)) == {"report-external.json", "report-external.pdf"}
    public = tmp_path / "own.pub"
    assert verification.verify(folder / "report-external.pdf", key=public) == 0
    shutil.copytree(folder, tmp_path / "out", ignore=lambda path, names: [name for name in names if "external" not in name])
    assert verification.verify(tmp_path / "out" / "report-external.json", key=public) == 0
    assert gate.SCORES not in (folder / run_folder.EXTERNAL_SUMS).read_text()


def test_coins_without_a_seed_are_drawn_anew_from_128_bits() -> None:
    assert not np.array_equal(draw_coins(200), draw_coins(200))
    seeds = {new_seed() for _ in range(50)}
    assert len(seeds) == 50 and all(2**127 <= seed < 2**128 for seed in seeds)
