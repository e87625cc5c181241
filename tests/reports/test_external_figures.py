"""A reader who can score every record tries to learn memberships from the figures of the external edition alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attacks.signals.logits import Logits
from audit.core.claims import Claim, Outcome
from audit.core.evaluation import Calibrated, Fidelity
from audit.core.game_results import AttackResult, GroupResult, GuessResult, Histogram
from audit.core.lower_bounds import read_ceiling, read_epsilon, replace_figures
from audit.core.results import GateResult
from audit.experiment.external import accuracy_remarks
from reports.editions import digits, thresholds
from reports.editions.external import external
from reports.formats.json import to_json
from tests.reports import sample, test_evaluation_tables
from tests.reports.test_external import small_attack


def told_cuts(attack: AttackResult) -> list[tuple[int, int]]:
    """Members and nonmembers above each threshold of which a reader knows both, from whichever table."""
    curve, bins = attack.roc, attack.histogram
    points = {
        (round(tpr * curve.members), round(fpr * curve.nonmembers)) for tpr, fpr in zip(curve.tpr, curve.fpr, strict=True)
    }
    above = zip(np.cumsum(bins.members[::-1]).tolist(), np.cumsum(bins.nonmembers[::-1]).tolist(), strict=True)
    rates = {(rate.true_positives or 0, rate.false_positives or 0) for rate in attack.tpr_at}
    return sorted({(0, 0), *points, *above, *rates})


def one_sided(attack: AttackResult) -> int:
    """How many records lie between thresholds that tell the side of all but one of them."""
    steps = ((high[0] - low[0], high[1] - low[1]) for low, high in pairwise(told_cuts(attack)))
    return sum(members + nonmembers for members, nonmembers in steps if min(members, nonmembers) < 2)


def test_no_two_thresholds_tell_the_side_of_all_records_between_them() -> None:
    attacks = [small_attack(draw) for draw in range(60)]
    assert sum(one_sided(attack) for attack in attacks) > 1000, "the reader is too weak"
    assert [one_sided(thresholds.coarse(attack)) for attack in attacks] == [0] * len(attacks)


def test_guesses_of_a_bound_are_thresholds_and_are_not_told() -> None:
    """Half of the guesses lie at either end: with a threshold three records further the sides of three would follow."""
    attack = small_attack(3)
    size = attack.roc.members
    bound = replace(sample.bound(1.5), selected="1,000 of 1,234 guesses right; 3 records, converted by group privacy")
    counts = [round(tpr * size) + round(fpr * size) for tpr, fpr in zip(attack.roc.tpr, attack.roc.fpr, strict=True)]
    place = counts[len(counts) // 2]
    near = replace(attack, bounds=(replace(bound, selected=f"5 of {2 * (place + 3)} guesses right"),))
    told = {sum(cut) for cut in told_cuts(thresholds.coarse(near))}
    assert any(abs(count - place - 3) < 10 for count in counts)
    for threshold in (place + 3, 2 * size - place - 3):
        assert all(count == threshold or abs(count - threshold) >= 10 for count in told - {0, 2 * size})
    assert thresholds.without_counts(bound, "withheld").selected == "withheld; 3 records, converted by group privacy"
    assert "guesses right" not in to_json(external(sample.run())).decode()


def test_a_figure_has_no_digits_from_which_members_follow() -> None:
    """Of 14 records with known scores, all digits of the members' mean leave one choice of members; those told leave many."""
    generator = np.random.default_rng(4)
    scores = generator.normal(size=14)
    members = (1, 4, 5, 8, 9, 12, 13)
    mean = scores[list(members)].mean()

    def choices(rounded: float, error: float) -> int:
        return sum(abs(scores[list(rows)].mean() - rounded) <= error for rows in combinations(range(14), 7))

    assert choices(mean, 1e-12) == 1 and choices(round(mean, 2), 5e-3) > 10
    report = external(sample.run())
    for mechanism in report.mechanisms:
        for game in mechanism.games:
            for attack in game.attacks:
                areas = (attack.auc, attack.auc_lower, attack.auc_upper)
                assert all(round(value, 3) == value for value in areas)
                assert all(round(row.epsilon, 2) == row.epsilon for row in attack.estimates)
                assert all(row.parameter is None and read_epsilon(row) <= read_ceiling(row) for row in attack.bounds)


def test_exposures_and_rates_of_calibrated_thresholds_have_no_more_digits_than_pages_print() -> None:
    guesses = GuessResult(secrets=40, right=20, lower=0.3, upper=0.7, baseline=0.1, imputed=15, exposure=1.2345678)
    assert digits.attack(replace(small_attack(0), guesses=guesses), []).guesses == replace(guesses, exposure=1.23)
    row = Calibrated(nominal_fpr=0.01, realised_fpr=0.0123456, tpr=0.1234567, precision=0.0912345, prior=0.01)
    found = digits.evaluation(replace(test_evaluation_tables.evaluation(), thresholds=(row, replace(row, precision=None))))
    told = replace(row, realised_fpr=0.012, tpr=0.123, precision=0.091)
    assert found.thresholds == (told, replace(told, precision=None))


def test_bounds_keep_their_side_of_every_claim_and_never_grow() -> None:
    claim = Claim(epsilon=2.05, delta=1e-5, adjacency=sample.dp_sgd().claims[0].adjacency, source="x", unit="example")
    generator = np.random.default_rng(0)
    for value in [*generator.uniform(0, 4, 300).tolist(), 2.05, 2.0500001, 2.0561, 0.29, math.inf]:
        lower = sample.bound(float(value))
        rounded = digits.bound(replace_figures(lower, read_epsilon(lower), max(read_ceiling(lower), float(value))), [claim])
        assert read_epsilon(rounded) <= value and (read_epsilon(rounded) > claim.epsilon) is (value > claim.epsilon)
        assert read_epsilon(rounded) <= read_ceiling(rounded)
    assert digits.epsilon(2.05) == 2.05 and digits.epsilon(0.29) == 0.29


def test_every_verdict_of_the_edition_names_a_bound_that_stands_in_it() -> None:
    for outcome in Outcome:
        for mechanism in external(sample.run(outcome)).mechanisms:
            for verdict in mechanism.verdicts:
                assert verdict.bound is None or verdict.bound in mechanism.all_bounds


@pytest.mark.parametrize(("auc", "told"), [(1.0, None), (0.95, None), (0.8, 0.8), (0.05, None), (0.123456, 0.123)])
def test_a_group_in_the_right_order_has_no_area(auc: float, told: float | None) -> None:
    """Of ten members and ten nonmembers all are known where their order is known and perfect."""
    row = digits.group(GroupResult(group="0", members=10, nonmembers=10, auc=auc, accuracy=0.5, auc_lower=auc, auc_upper=auc))
    assert (row.auc, row.auc_lower is None) == (told, told is None)


def test_no_remark_tells_on_how_many_of_one_side_the_model_is_right() -> None:
    """Right on all members and on all nonmembers but one: whoever asks the model knows which record is no member."""
    models = _answers(wrong=7)
    (remark,) = accuracy_remarks.like_sides(models)
    assert "100.0% of the members and 99.0% of the nonmembers" in remark
    (note,) = external(replace(sample.model(), notes=(remark,))).notes
    assert "%" not in note and note.endswith(remark.partition(": ")[2])


def _answers(wrong: int) -> Any:
    """A model that answers 200 records right, half of them members, but for one nonmember."""
    logits, labels = np.zeros((1, 200, 2)), np.arange(200) % 2
    logits[0, np.arange(200), labels] = 1.0
    logits[0, 100 + wrong] *= -1
    logits[0, 100 + wrong, 1 - labels[100 + wrong]] = 1.0
    assignment = SimpleNamespace(included=(np.arange(200) < 100)[None])
    observed = SimpleNamespace(signals={Logits.key: logits})
    return SimpleNamespace(observed=observed, labels=labels, prepared_game=SimpleNamespace(assignment=assignment))


def test_answers_on_the_members_of_one_model_are_left_out() -> None:
    """Own label given to 2 of 56 members and no nonmember: whoever asks the model knows which two those are."""
    report = test_evaluation_tables.report(replace(test_evaluation_tables.evaluation(), fidelity=FIDELITY))
    evaluations = [game.evaluation for result in external(report).mechanisms for game in result.games if game.evaluation]
    assert evaluations and all(evaluation.fidelity is None for evaluation in evaluations)
    assert "0.036 and 0.000" not in to_json(external(report)).decode()


FIDELITY = Fidelity(
    target_accuracy=(2 / 56, 0.0),
    reference_accuracy=(0.02, 0.01),
    distance=0.24,
    typical=0.29,
    matches=True,
    sentence="references resemble the target; own label given to members and nonmembers 0.036 and 0.000",
)


@pytest.mark.parametrize(
    ("selected", "told"),
    [
        ("5 of 40 members above nonmember 1 from the top", "withheld"),
        ("threshold 3.1415 from the other half", "withheld"),
        ("AUC over all pairs; composed over 250 steps", "AUC over all pairs; composed over 250 steps"),
        ("", ""),
    ],
)
def test_what_a_bound_ended_on_is_told_without_its_numbers(selected: str, told: str) -> None:
    assert thresholds.without_counts(replace(sample.bound(1.0), selected=selected), "withheld").selected == told


def test_a_rank_that_a_bound_ended_on_is_a_threshold() -> None:
    attack = small_attack(3)
    records = 2 * attack.roc.members
    bound = replace(sample.bound(1.5), selected="12 of 40 members above nonmember 3 from the top")
    low = replace(bound, selected="12 of 40 nonmembers below member 3 from the bottom")
    assert thresholds._guess_counts(replace(attack, bounds=(bound, low))) == [15, records - 15]


@pytest.mark.parametrize("name", ["tpr@1%", "max_tpr_at_1_percent_fpr"])
def test_a_gate_tells_the_rate_of_its_own_attack_and_target_and_no_other_that_is_equal(name: str) -> None:
    """Rates of different targets may be equal; the figure of a gate is told where its attack tells it at its target."""
    report = sample.run()
    claimed = next(result for result in report.mechanisms if result.claims)
    attack = claimed.games[0].attacks[0]
    members = attack.roc.members
    told = next(row for row in attack.tpr_at if row.target_fpr == 0.01)
    few = replace(told, target_fpr=0.001, true_positives=3, false_positives=1, tpr=told.tpr)
    assert told.tpr is not None and members > 10

    def found(*rows: Any) -> float | None:
        games = (replace(claimed.games[0], attacks=(replace(attack, tpr_at=rows),)),)
        gate = GateResult(gate=name, limit=0.5, found=told.tpr, met=True)
        others = tuple(result for result in report.mechanisms if not result.claims)
        changed = replace(report, mechanisms=(*others, replace(claimed, games=games)), policy=(gate,))
        return external(changed).policy[0].found

    assert found(told, few) == found(few, told) == told.tpr
    assert found(few, replace(told, true_positives=3, false_positives=1)) is None


def test_a_gate_that_nobody_knows_tells_nothing() -> None:
    gate = GateResult(gate="own_gate", limit=0.5, found=0.123456789, met=True)
    (area,) = external(replace(sample.run(), policy=(replace(gate, gate="max_auc"),))).policy
    assert external(replace(sample.run(), policy=(gate,))).policy == (replace(gate, found=None),)
    assert area.found == 0.123


def test_bins_of_one_side_are_merged() -> None:
    bins = Histogram(edges=(0.0, 1.0, 2.0, 3.0, 4.0), members=(0, 5, 30, 40), nonmembers=(40, 30, 5, 0))
    merged = thresholds._histogram(bins)
    assert merged.members == (5, 70) or all(min(pair) >= 2 for pair in zip(merged.members, merged.nonmembers, strict=True))
    assert sum(merged.members) == 75 and len(merged.members) > 1
