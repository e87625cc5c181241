"""What the trained models say: on the page with its warning, in no external edition, and what each adversary proves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.core.access import Access
from audit.core.evaluation import (
    Calibrated,
    Evaluation,
    Fidelity,
    GroupSpread,
    RecordSpread,
    ScorerSpread,
    Spread,
    UnitSpread,
    Usage,
    UsageSpread,
)
from audit.core.game_results import GameResult
from audit.core.results import AuditReport, MechanismResult
from audit.experiment.line.report import _weak
from reports import headline
from reports.editions.external import external
from reports.figures import _bounds as bounds
from reports.formats import figures
from reports.formats.json import from_json, to_json
from reports.pages.blocks import Paragraph, Table
from reports.tables import leave_one_out
from tests.reports import sample


def evaluation(matches: bool = True, records: int = 3) -> Evaluation:
    spread = Spread(figure="auc", mean=0.71, std=0.02, lowest=0.68, highest=0.74, targets=17)
    rate = replace(spread, figure="tpr at fpr 0.01", mean=0.123)
    fidelity = Fidelity(
        target_accuracy=(0.9, 0.8),
        reference_accuracy=(0.91, 0.81),
        distance=0.05,
        typical=0.06,
        matches=matches,
        sentence="references resemble the target; accuracy" if matches else "references do not resemble the target; accuracy",
    )
    return Evaluation(
        targets=17,
        scorers=(ScorerSpread(scorer="lira", figures=(spread, rate)), ScorerSpread(scorer="loss", figures=(spread,))),
        leading="lira",
        at_fpr=0.01,
        reproducibility=0.41,
        chance=0.03,
        records=tuple(RecordSpread(record=f"hash{i}", label="3", fpr=0.001, found=0.9, targets=8) for i in range(records)),
        thresholds=(Calibrated(nominal_fpr=0.01, realised_fpr=0.012, tpr=0.12, precision=0.09, prior=0.01),),
        groups=tuple(
            GroupSpread(column="class", group=name, canaries=count, auc=spread) for name, count in (("a", 60), ("b", 8))
        ),
        fidelity=fidelity,
    )


def report(fresh: Evaluation) -> AuditReport:
    full = sample.run()

    def with_evaluation(mechanism: MechanismResult) -> MechanismResult:
        games: list[GameResult] = [replace(game, evaluation=fresh) for game in mechanism.games]
        return replace(mechanism, games=tuple(games))

    return replace(full, mechanisms=tuple(with_evaluation(item) for item in full.mechanisms))


def words(fresh: Evaluation) -> str:
    def cell(text: object) -> str:
        return " ".join(map(cell, text)) if isinstance(text, tuple) else str(getattr(text, "text", text))

    message = []
    for block in leave_one_out.blocks(replace(sample.black_box(1, 1.0, 2.5, 1.5), groups=(), evaluation=fresh)):
        if isinstance(block, Table):
            message += [block.caption, *(cell(row) for row in block.rows)]
        elif isinstance(block, Paragraph):
            message.append(cell(block.text))
    return " ".join(message)


def test_the_page_says_that_it_proves_nothing_and_what_was_found() -> None:
    message = words(evaluation())
    for part in (
        "prove no ε",
        "0.710 ± 0.020 [0.680, 0.740]",
        "not resolved",
        "1.2",
        "9.0",
        "41.0",
        "hash0",
        "resemble the target",
    ):
        assert part in message, part
    assert "Weak attack" not in message
    assert "Weak attack" in words(evaluation(matches=False))
    assert "No record was found" in words(replace(evaluation(), reproducibility=None, chance=None))


def test_units_and_spared_models_are_on_the_page() -> None:
    result = evaluation()
    assert "Each of 17 trained models once the target" in words(result)
    unit = UnitSpread(column="customer", units=120, records=4.5, figures=result.scorers[0].figures)
    message = words(replace(result, units=(unit,), spared=240))
    for part in (
        "customer 120 4.5 0.710",
        "nothing of a guarantee for units",
        "Each of 17 of 257 trained models, evenly spread,",
    ):
        assert part in message, part


def test_references_of_another_kind_are_a_note_on_the_cover() -> None:
    (game,) = {id(game): game for game in report(evaluation(matches=False)).mechanisms[0].games[:1]}.values()
    assert "the attack is weak" in _weak("dp-sgd", game)[0]
    assert _weak("dp-sgd", replace(game, evaluation=evaluation())) == []


def test_it_survives_json_and_does_not_leave_the_house() -> None:
    full = report(evaluation())
    assert from_json(to_json(full)) == full
    for mechanism in external(full).mechanisms:
        for game in mechanism.games:
            assert game.evaluation is None and game.records == game.groups == ()


@pytest.mark.slow
def test_each_adversary_has_a_bar() -> None:
    mechanism = next(item for item in sample.run().mechanisms if item.claims)
    assert list(headline.levels(mechanism)) == [Access.FINAL_MODEL, Access.ALL_STEPS]
    plan = bounds.access(mechanism)
    assert "model outputs: proven epsilon" in plan.alt and "every noisy step: proven epsilon" in plan.alt
    assert "of the claim" in plan.alt
    first = mechanism.games[0]
    labels = replace(first, attacks=(replace(first.attacks[0], access=Access.LABEL_ONLY), *first.attacks[1:]))
    shown = headline.levels(replace(mechanism, games=(labels, *mechanism.games[1:])))
    assert list(shown) == [Access.LABEL_ONLY, Access.FINAL_MODEL, Access.ALL_STEPS]
    assert f"access.{mechanism.name}" in figures.drawings(sample.run())


def test_no_share_of_nonmembers_is_printed_as_zero() -> None:
    result = evaluation()
    never = replace(result.records[0], fpr=0.0)
    cells = [row[2] for row in leave_one_out.records(result, (never, result.records[1]), "").rows]
    assert cells == ["below 1.0\N{NO-BREAK SPACE}%", "0.1\N{NO-BREAK SPACE}%"]


def test_the_share_that_was_used_stands_beside_the_truth() -> None:
    target = Usage(share=0.48, lower=0.412, upper=0.561, confidence=0.95, references=16)
    spread = UsageSpread(scorer="lira", target=target, truth=0.5, error=0.031, covered=0.94, targets=17)
    message = words(replace(evaluation(), usage=spread))
    for part in ("48.0", "41.2", "56.1", "in truth on 50.0", "off by 3.1", "one observation"):
        assert part in message, part
    untold = replace(spread, target=replace(target, share=None, lower=0.0, upper=1.0), error=None)
    assert "does not tell" in words(replace(evaluation(), usage=untold))
