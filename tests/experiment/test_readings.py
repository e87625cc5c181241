"""What users hand over is read right, or its outcome is invalid, or it is asked about in the first line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special
from scipy.stats import rankdata
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeRegressor

import audit
import reports
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.preflight import Preflight
from audit.experiment.external.model_answers import read_outputs
from audit.experiment.line.preflight import ReadRecords, look
from audit.stats.sign_test import lower_tail

N = 600
MEMBER = audit.draw_coins(N, 5)
INPUTS = np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)
ORDER = {row.tobytes(): place for place, row in enumerate(INPUTS)}


def model(outputs: Array) -> Callable[[Array], Array]:
    return lambda inputs: outputs[[ORDER[row.tobytes()] for row in inputs]]


def classifier(classes: int, seed: int, gain: float = 2.0) -> tuple[Array, Array]:
    """Logits `(n, classes)` and labels of a model that knows its members better."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, N)
    logits = random.normal(size=(N, classes)) + (1 + gain * MEMBER)[:, None] * np.eye(classes)[labels]
    return logits, labels


def loss_auc(losses: Array) -> float:
    ranks = rankdata(-losses)
    return float((ranks[MEMBER].sum() - MEMBER.sum() * (MEMBER.sum() + 1) / 2) / (MEMBER.sum() * (~MEMBER).sum()))


def check(target: Any, labels: Array, inputs: Array = INPUTS) -> audit.ModelCheck:
    return audit.check(target, (inputs[MEMBER], labels[MEMBER]), (inputs[~MEMBER], labels[~MEMBER]), quiet=True)


def auc(result: audit.ModelCheck) -> float:
    (actual,) = [row.auc for row in result.attacks if row.attack == "loss"]
    assert actual is not None
    return actual


@pytest.mark.slow
def test_a_float_column_of_labels_is_no_regression() -> None:
    logits, labels = classifier(2, 1)
    margin = logits[:, 1:] - logits[:, :1]
    results = [check(model(margin), labels.astype(kind)[:, None]) for kind in (np.float32, np.int64, bool)]
    assert auc(results[0]) > 0.7 and len({auc(result) for result in results}) == 1
    assert len({(result.report.data, result.report.notes, result.report.mechanisms[0].preflight) for result in results}) == 1


@pytest.mark.slow
def test_rows_with_a_single_one_are_classes() -> None:
    logits, labels = classifier(4, 2)
    plain = check(model(logits), labels)
    for kind in (np.float32, np.int64):
        assert auc(check(model(logits), np.eye(4)[labels].astype(kind))) == auc(plain)


@pytest.mark.slow
def test_several_float_labels_are_labels() -> None:
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, (N, 3))
    logits = (2.0 * labels - 1) * (0.3 + MEMBER[:, None]) + random.normal(size=(N, 3))
    expected = loss_auc(np.logaddexp(0, np.where(labels == 1, -logits, logits)).sum(axis=1))
    for kind in (np.float32, np.int64, bool):
        assert auc(check(model(logits), labels.astype(kind))) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("names", [[1, 2, 3], ["a", "b", "c"], [10.0, 20.0, 30.0], [7, 3, 5]])
def test_an_estimator_names_its_columns(names: list[Any]) -> None:
    labels = np.array(names)[np.random.default_rng(4).integers(0, 2, N)]
    labels[MEMBER.argmax()] = names[2]
    forest = RandomForestClassifier(20, random_state=0).fit(INPUTS[MEMBER], labels[MEMBER])
    for target in (forest, forest.predict_proba):
        result = check(target, labels)
        assert auc(result) > 0.9 and result.report.outcome is None


@pytest.mark.slow
def test_labels_of_minus_one_and_one_are_two_classes() -> None:
    logits, labels = classifier(2, 5)
    margin = logits[:, 1] - logits[:, 0]
    assert auc(check(model(margin), 2 * labels - 1)) == auc(check(model(margin), labels))


def test_text_without_names_and_strange_names_are_refused() -> None:
    logits, labels = classifier(2, 5)
    with pytest.raises(audit.DataError, match="does not name the classes"):
        check(model(logits), np.array(["no", "yes"])[labels])
    forest = RandomForestClassifier(5, random_state=0).fit(INPUTS[MEMBER], labels[MEMBER] + 1)
    with pytest.raises(audit.DataError, match="none of the classes that the model names: 1, 2"):
        check(forest, labels)


@pytest.mark.slow
def test_swapped_sides_are_invalid_and_say_so() -> None:
    logits, labels = classifier(3, 8)
    result = audit.check(model(logits), (INPUTS[~MEMBER], labels[~MEMBER]), (INPUTS[MEMBER], labels[MEMBER]), quiet=True)
    assert result.report.outcome is Outcome.INVALID and "members and nonmembers swapped: AUC 0." in str(result)


@pytest.mark.slow
def test_a_model_of_noise_is_a_question_and_no_error() -> None:
    logits = np.random.default_rng(9).normal(size=(N, 10)) + np.eye(10)[3] * 9
    result = check(model(logits), np.random.default_rng(10).permutation(np.arange(N) % 10))
    assert result.report.outcome is None and "Look first: the model is no better" in str(result)


def test_shuffled_labels_are_asked_about_and_better_answers_are_not() -> None:
    """Three standard deviations: fewer than one of 100 shufflings passes in silence."""
    random = np.random.default_rng(4)
    for classes, share in ((2, 0.5), (2, 0.9), (3, 0.4), (10, 0.1)):
        questions: dict[bool, list[str]] = {True: [], False: []}
        for _ in range(15):
            for is_shuffled, texts in questions.items():
                labels = np.where(random.random(N) < share, 0, random.integers(0, classes, N))
                answers = np.where(random.random(N) < (0.0 if is_shuffled else 0.6), labels, random.permutation(labels))
                logits = np.eye(classes)[answers]
                records = ReadRecords(losses=random.random(N), included=MEMBER, reading="", logits=logits, labels=labels)
                texts.append(look(records, by_coins=False).question)
        assert sum("the model is no better" in question for question in questions[True]) >= 14
        assert not any("shuffled labels" in question for question in questions[False])


def look_at(labels: Array, answers: Array, *, by_coins: bool = False) -> Preflight:
    random = np.random.default_rng(6)
    logits = random.normal(size=(N, 10)) + 9 * np.eye(10)[answers]
    losses = special.logsumexp(logits, axis=1) - logits[np.arange(N), labels]
    return look(ReadRecords(losses=losses, included=MEMBER, reading="", logits=logits, labels=labels), by_coins=by_coins)


def test_y_that_goes_wrong_on_the_nonmembers_alone_is_loud() -> None:
    """Random labels learned by heart are asked about and never refused; a model that learned half by heart is not."""
    random = np.random.default_rng(25)
    ways: dict[str, Callable[[Array], Array]] = {
        "shuffled": random.permutation,
        "reversed": lambda y: y[::-1],
        "moved": lambda y: np.roll(y, 1),
        "renumbered": lambda y: (y + 1) % 10,
    }
    for _ in range(10):
        labels = random.integers(0, 10, N)
        answers = np.where(random.random(N) < np.where(MEMBER, 1.0, 0.5), labels, random.permutation(labels))
        assert not look_at(labels, answers).doubt and not look_at(labels, answers).question
        learned = look_at(labels, np.where(MEMBER, labels, random.permutation(labels)))
        assert not learned.doubt and "no better than shuffled y:" in learned.question
        sure = np.where(random.random(N) < np.where(MEMBER, 1.0, 0.8), labels, random.permutation(labels))
        for way, change in ways.items():
            wrong_labels = labels.copy()
            wrong_labels[~MEMBER] = change(labels[~MEMBER])
            result = look_at(wrong_labels, sure)
            assert bool(result.doubt) == (way != "shuffled"), way
            assert way != "shuffled" or "no better than shuffled y" in result.question
            assert way != "moved" or "y of the nonmembers one record later" in result.doubt
            by_coins = look_at(wrong_labels, sure, by_coins=True)
            assert by_coins.question or way in ("moved", "reversed"), way


def test_y_that_goes_wrong_on_both_sides_is_invalid_for_models_without_memory() -> None:
    """Canaries with wrong labels, records in a telling order, and columns that a model of noise exchanged are asked about."""
    random = np.random.default_rng(27)
    labels = random.integers(0, 10, N)
    answers = np.where(random.random(N) < 0.95, labels, random.permutation(labels))
    assert not look_at(labels, answers).question and not look_at(random.permutation(labels), answers).doubt
    for change, name in ((lambda y: y[::-1], "y in reverse order"), (lambda y: np.roll(y, 1), "y one record later")):
        wrong_labels = labels.copy()
        for side in (MEMBER, ~MEMBER):
            wrong_labels[side] = change(labels[side])
        for by_coins in (True, False):
            assert f"'{name}'" in look_at(wrong_labels, answers, by_coins=by_coins).doubt
    wrong_labels = random.permutation(10)[labels]
    assert "classes in another order' (if labels are wrong on purpose" in look_at(wrong_labels, answers).doubt
    view = look_at(wrong_labels, answers, by_coins=True)
    assert not view.doubt and "'y with classes in another order' fits" in view.question
    moved_first = look_at(np.roll(labels, 1), answers, by_coins=True)  # wrong on purpose before coins draw the members
    assert not moved_first.doubt and moved_first.question
    series = np.sort(random.integers(0, 10, N))  # a model that gives the last value, on a side that changes at every record
    assert not look_at(series, np.roll(series, 1)).doubt


def test_answers_opposed_to_y_of_few_records_are_invalid_without_coins() -> None:
    """Labels that coins planted wrong look the same, and so may a model of noise that tells classes apart in part."""
    labels = np.arange(140) % 2
    for right, by_coins, is_invalid in ((0.986, False, True), (0.986, True, False), (0.75, False, False)):
        answers = np.where(np.arange(140) < right * 140, 1 - labels, labels)[np.random.default_rng(3).permutation(140)]
        labels_given = labels[np.random.default_rng(3).permutation(140)]
        logits = 4.0 * np.eye(2)[answers] + np.random.default_rng(4).random((140, 2))
        losses = special.logsumexp(logits, axis=1) - logits[np.arange(140), labels_given]
        sides = np.arange(140) < 70
        records = ReadRecords(losses=losses, included=sides, reading="", logits=logits, labels=labels_given)
        view = look(records, by_coins=by_coins)
        assert ("another reading fits far better" in view.doubt) == is_invalid and bool(view.question) != is_invalid


def test_y_that_goes_wrong_for_some_classes_or_from_some_record_on_is_loud() -> None:
    """As folders in another sorting order, or a row that one of two files lacks; a model of noise is never asked so."""
    random = np.random.default_rng(29)
    labels = random.integers(0, 10, N)
    answers = np.where(random.random(N) < np.where(MEMBER, 0.95, 0.8), labels, random.permutation(labels))
    exchanged = np.array([0, 1, 2, 3, 4, 5, 6, 8, 7, 9])
    nonmembers = np.flatnonzero(~MEMBER)
    for sides, side in ((MEMBER | ~MEMBER, "y"), (~MEMBER, "y of the nonmembers")):
        view = look_at(np.where(sides, exchanged[labels], labels), answers)
        assert f"'{side} with classes 7, 8 in another order'" in view.question and not view.doubt
    late = labels.copy()
    late[nonmembers[120:-1]] = labels[nonmembers[121:]]  # after 120 of some 300
    late_view = look_at(late, answers)
    assert re.search(r"'y of the nonmembers one record earlier from record 1\d\d on'", late_view.doubt or late_view.question)
    for seed in range(200):
        noise = np.random.default_rng(seed)
        shares = noise.dirichlet(np.full(4, 0.5), size=2)
        labels, answers = (noise.choice(4, N, p=row) for row in shares)
        result = look_at(labels, answers)
        assert "in another order" not in result.question and " from record " not in result.question + result.doubt


def test_numbers_and_several_labels_beside_other_records_are_invalid() -> None:
    random = np.random.default_rng(28)
    truths = random.normal(size=(N, 2))
    yes = (truths > 0).astype(np.int64)
    for outputs, y in ((truths + 0.2 * random.normal(size=(N, 2)), truths), (2.0 * yes - 1, yes)):
        moved = y.copy()
        for side in (MEMBER, ~MEMBER):
            moved[side] = np.roll(y[side], -1, axis=0)
        result = check(model(outputs), moved)
        assert result.report.outcome is Outcome.INVALID and "'y one record earlier'" in str(result)


def test_columns_of_several_labels_in_another_order_are_asked_about() -> None:
    random = np.random.default_rng(30)
    yes = (random.normal(size=(N, 3)) + random.normal(size=(N, 1)) > 0).astype(np.int64)
    outputs = 2.0 * yes - 1 + 0.5 * random.normal(size=(N, 3))
    assert "'y with its columns in another order' fits" in str(check(model(outputs), yes[:, [1, 0, 2]]))
    assert "Look first" not in str(check(model(outputs), yes))


def test_one_of_several_labels_that_answers_do_not_fit_is_asked_about() -> None:
    random = np.random.default_rng(31)
    yes = (random.normal(size=(N, 5)) > [0, 0, 0, 0, 2.5]).astype(np.int64)
    outputs = 2.0 * yes - 1 + 0.8 * random.normal(size=(N, 5))
    outputs[:, 4] = -3 + random.normal(size=N)  # of a rare label the model nearly always says no
    truths = {"exchanged": 1 - yes[:, 2], "shuffled": random.permutation(yes[:, 2]), "zeros": 0 * yes[:, 2]}
    assert "Look first" not in str(check(model(outputs), yes))
    for wrong_truths in truths.values():
        given = np.column_stack([yes[:, :2], wrong_truths, yes[:, 3:]])
        assert "fit y of most labels, but y of label 3 (counted from 1)" in str(check(model(outputs), given))


@pytest.mark.parametrize("way", ["numbers", "several labels"])
def test_shuffled_nonmembers_of_other_models_are_asked_about(way: str) -> None:
    random = np.random.default_rng(26)
    truths = random.normal(size=(N, 3)) if way == "numbers" else random.integers(0, 2, (N, 3))
    noise = random.normal(size=(N, 3)) * np.where(MEMBER, 0.1, 0.8)[:, None]
    outputs = truths + noise if way == "numbers" else 2.0 * truths - 1 + noise
    wrong_truths = truths.copy()
    wrong_truths[~MEMBER] = random.permutation(truths[~MEMBER])
    assert "no better than shuffled y" in str(check(model(outputs), wrong_truths))
    assert "Look first" not in str(check(model(outputs), truths))


@pytest.mark.slow
def test_models_without_memory_are_never_invalid() -> None:
    """Columns at random, as of a strongly private model: no reading is refused, whatever its right answers."""
    for seed in range(20):
        logits, labels = classifier(2, seed, gain=0.0)
        logits = logits[:, np.random.default_rng(seed).permutation(2)]
        assert check(model(3 * logits), labels).report.outcome is None


@pytest.mark.slow
def test_no_verdict_stands_over_an_area_below_chance() -> None:
    for seed in range(12):
        random = np.random.default_rng(seed)
        logits, labels = classifier(3, seed, gain=random.uniform(-3, 3))
        sides = [(INPUTS[side], labels[side]) for side in (MEMBER, ~MEMBER)]
        result = audit.check(model(logits), *sides, coins=MEMBER, claim_epsilon=0.5, quiet=True)
        if auc(result) < 0.5 - 6 / np.sqrt(6 * N):
            assert result.report.outcome is Outcome.INVALID, seed


@pytest.mark.slow
@pytest.mark.parametrize("scale", [lambda p: np.round(p, 2), lambda p: 100 * p, lambda p: np.round(100 * p), lambda p: 7 * p])
def test_shares_of_any_whole_are_probabilities(scale: Callable[[Array], Array]) -> None:
    logits, labels = classifier(4, 11)
    outputs = scale(special.softmax(logits, axis=1))
    result = check(model(outputs), labels)
    shares = np.maximum(outputs / outputs.sum(axis=1, keepdims=True), 1e-30)
    assert auc(result) == pytest.approx(loss_auc(-np.log(shares[np.arange(N), labels])), abs=1e-3)
    assert "probabilities of 4 classes" in str(result)


def test_estimators_that_learned_without_y_are_refused() -> None:
    labels = (INPUTS[:, 0] > 0).astype(int)
    for estimator in (IsolationForest(n_estimators=5, random_state=0), GaussianMixture(2, random_state=0)):
        with pytest.raises(audit.DataError, match=r"learned without y, .*score_samples"):
            check(estimator.fit(INPUTS[MEMBER]), labels)


@pytest.mark.slow
def test_columns_of_pairs_of_classes_are_refused() -> None:
    labels = np.abs(2 * INPUTS[:, 0]).astype(int) % 3
    for shape in ("ovo", "ovr"):
        machine = SVC(decision_function_shape=shape).fit(INPUTS[MEMBER], labels[MEMBER])
        if shape == "ovr":
            assert auc(check(machine, labels)) > 0.5
        else:
            with pytest.raises(audit.DataError, match="columns are not classes; an SVC gives"):
                check(machine, labels)


@pytest.mark.slow
def test_whole_numbers_beside_one_prediction_are_a_regression_of_any_type() -> None:
    counts = np.random.default_rng(12).poisson(5, N)
    errors = np.random.default_rng(13).normal(size=N) * np.where(MEMBER, 0.3, 1.0)
    for kind in (np.int64, np.float32, np.uint8):
        result = check(model(counts + errors), counts.astype(kind))
        assert auc(result) == pytest.approx(loss_auc(np.abs(errors)), abs=1e-9)


def test_predictions_that_are_all_classes_are_refused_and_those_of_a_regressor_are_not() -> None:
    classes = np.random.default_rng(23).integers(0, 4, N)
    with pytest.raises(audit.DataError, match=r"classes of y alone, float32 .*expected logits or probabilities, \(600, 4\)"):
        read_outputs(np.roll(classes, 1).astype(np.float32), classes)
    tree = DecisionTreeRegressor(random_state=0).fit(INPUTS[MEMBER], classes[MEMBER])
    assert auc(check(tree, classes)) == pytest.approx(loss_auc(np.abs(tree.predict(INPUTS) - classes)), abs=1e-9)


def test_masked_values_are_refused() -> None:
    logits, labels = classifier(3, 24)
    for outputs, y in ((logits, np.ma.masked_array(labels, labels == 2)), (np.ma.masked_array(logits, logits > 5), labels)):
        with pytest.raises(audit.DataError, match="masked values"):
            check(model(outputs), y)


@pytest.mark.slow
def test_another_unit_or_order_of_numbers_is_invalid() -> None:
    random = np.random.default_rng(14)
    truths = random.normal(size=(N, 3))
    predictions = truths + random.normal(size=(N, 3)) * np.where(MEMBER, 0.1, 0.8)[:, None]
    for provided, reading in ((predictions[:, [1, 2, 0]], "columns of y in another order"), (60 * predictions, "another unit")):
        result = check(model(provided), truths)
        assert result.report.outcome is Outcome.INVALID and reading in str(result)


def read_fields(result: audit.ModelCheck) -> dict[str, Any]:
    """The report as JSON without the moment and the keyed names, which are drawn for each report."""
    fields = json.loads(reports.render(result.report, ["json"])["report.json"])
    fields.pop("created")
    for game in fields["mechanisms"][0]["games"]:
        for record in game["records"]:
            record.pop("record")
    return dict(fields)


def test_labels_of_any_type_give_the_same_report() -> None:
    logits, labels = classifier(2, 1)
    margin = logits[:, 1:] - logits[:, :1]
    first, *remainder = (
        read_fields(check(model(margin), labels.astype(kind)[:, None])) for kind in (np.int64, np.float32, bool)
    )
    assert all(fields == first for fields in remainder)


def test_other_forms_of_probabilities_and_axes_of_one_are_read() -> None:
    logits, labels = classifier(4, 15)
    shares = special.softmax(logits, axis=1)
    certain = np.where(shares == shares.max(axis=1, keepdims=True), 1.0, 0.0)
    with np.errstate(divide="ignore"):
        forms = [shares / (1 - shares), shares[..., None, None], shares[:, None], np.log2(shares), np.log(certain)]
    for outputs, expected in zip(forms, [shares, shares, shares, shares, certain], strict=True):
        for y in (labels, np.eye(4)[labels][..., None], labels.astype(object)):
            answers = read_outputs(outputs, y)
            np.testing.assert_allclose(special.softmax(answers.logits, axis=1), expected, atol=1e-9)
            np.testing.assert_array_equal(answers.labels, labels)


def test_logarithms_of_any_base_give_the_loss_of_the_probabilities() -> None:
    logits, labels = classifier(4, 16)
    shares = special.softmax(logits, axis=1)
    for outputs in (np.log2(shares), np.log10(shares).astype(np.float32), np.log2(shares).round(2), np.log(shares)):
        assert loss_auc(
            -special.log_softmax(read_outputs(outputs, labels).logits, axis=1)[np.arange(N), labels]
        ) == pytest.approx(loss_auc(-np.log(shares[np.arange(N), labels])), abs=1e-3)
    yes = (labels == 1).astype(np.int64)
    for outputs, y in ((np.log(shares[:, 1]), yes), (np.log(shares), np.eye(4)[labels] + np.eye(4)[0] > 0)):
        assert any("never positive" in remark for remark in read_outputs(outputs, y).remarks)


def test_outputs_that_hide_differences_are_remarked_on() -> None:
    logits, labels = classifier(4, 16)
    sharp = 20 * logits
    for outputs, words in (
        (special.softmax(special.softmax(sharp, axis=1), axis=1), "softmax taken twice"),
        (np.clip(logits, -2, 2), "they were cut off there"),
        (1e4 * logits, "double precision"),
        (special.softmax(sharp, axis=1) - 0.5, "probabilities if 0.5 were added to each"),
        (special.softmax(sharp, axis=1) - 0.25, "probabilities if 0.25 were added to each"),
        (logits.argsort(axis=1).argsort(axis=1), "as ranks do"),
        (-logits.argsort(axis=1).argsort(axis=1).astype(np.float32), "as ranks do"),
    ):
        assert words in " ".join(read_outputs(outputs, labels).remarks)
        for honest in (logits, logits - logits.mean(axis=1, keepdims=True), special.log_softmax(logits, axis=1)):
            assert words not in " ".join(read_outputs(honest, labels).remarks)
    gap = sharp[:, 1] - sharp[:, 0]
    yes = (labels == 1).astype(np.int64)
    assert "if 0.5 were added" in " ".join(read_outputs(special.expit(gap) - 0.5, yes).remarks)
    assert "added" not in " ".join(read_outputs(gap, yes).remarks + read_outputs(gap / np.abs(gap).max(), yes).remarks)


@pytest.mark.slow
def test_predictions_of_zero_and_one_are_no_logits() -> None:
    labels = np.random.default_rng(17).integers(0, 2, N)
    predictions = labels + np.random.default_rng(18).normal(size=N) * np.where(MEMBER, 0.2, 0.6)
    result = check(model(predictions), labels)
    assert result.report.outcome is Outcome.INVALID and "y as the numbers 0 and 1" in str(result)


def test_predictions_that_are_not_finite_are_refused() -> None:
    with pytest.raises(audit.AuditError, match=r"prediction for record 3 .* is nan"):
        read_outputs(np.where(np.arange(N) == 2, np.nan, 0.5), np.linspace(0, 1.5, N))


@pytest.mark.slow
def test_a_regressor_of_scikit_learn_predicts_numbers() -> None:
    labels = (INPUTS[:, 0] > 0).astype(int)
    line = LinearRegression().fit(INPUTS[MEMBER], labels[MEMBER])
    for target in (line, line.predict):
        assert auc(check(target, labels)) == pytest.approx(loss_auc(np.abs(line.predict(INPUTS) - labels)), abs=1e-6)


def test_several_answers_of_several_classes_are_audited_one_at_a_time() -> None:
    labels = np.random.default_rng(19).integers(0, 3, (N, 2))
    forest = RandomForestClassifier(5, random_state=0).fit(INPUTS[MEMBER], labels[MEMBER])
    with pytest.raises(audit.DataError, match=r"3 and 3 classes of 2 answers; .*one answer at a time"):
        check(forest, labels)


@pytest.mark.slow
def test_classes_that_y_never_holds_are_asked_about() -> None:
    logits, labels = classifier(3, 20)
    result = check(model(logits), np.minimum(labels, 1))
    assert re.search(r"Look first: the model names classes that y never holds for \d\d% of the members", str(result))


def test_yes_and_no_exchanged_is_invalid() -> None:
    labels = np.random.default_rng(21).integers(0, 2, (N, 3))
    result = check(model(4.0 * labels - 2 + np.random.default_rng(22).normal(size=(N, 3))), 1 - labels)
    assert result.report.outcome is Outcome.INVALID and "yes and no exchanged" in str(result)


@pytest.mark.slow
def test_no_verdict_rests_on_scores_below_chance() -> None:
    """Random readings of random models: wherever a claim is, no score that bounds rest on is inverted beyond chance."""
    verdicts = inverted = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        classes = int(random.integers(2, 7))
        logits, labels = classifier(classes, seed, gain=random.uniform(-1, 3))
        way = seed % 5
        labels = [labels, (labels + 1) % classes, random.permutation(labels), labels, labels][way]
        logits = [logits, logits, logits, logits[:, random.permutation(classes)], -logits][way]
        coins = MEMBER if random.random() < 0.7 else ~MEMBER
        sides = [(INPUTS[side], labels[side]) for side in (coins, ~coins)]
        result = audit.check(model(logits), *sides, coins=coins, claim_epsilon=0.5, quiet=True)
        tails = [lower_tail(values, result.inspection.included) for values in result.inspection.scores.values()]
        loss = lower_tail(result.inspection.scores["loss"], result.inspection.included)
        inverted += loss < 1e-5
        if result.report.outcome is not Outcome.INVALID:
            verdicts += 1
            assert loss >= 1e-5, seed
            assert loss >= 0.01 or "members do worse" in str(result) or min(tails) >= 1e-5, seed
    assert verdicts > 10 and inverted > 10
