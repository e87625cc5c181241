"""References that a user brings: the same attacks, bounds and figures as for models that a run trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from audit.api.attack_comparison import compare_attacks
from audit.api.check import ModelCheck
from audit.checks.membership import dependence_tail
from audit.core.claims import Outcome
from audit.core.errors import ConfigError, DataError
from audit.core.game_results import GameResult
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.inspection import References, Settings, draw_coins, examine_outputs, inspect
from audit.stats.scoring import membership, signals

N, MODELS, CLASSES = 240, 12, 3


def drawn(shift: float = 3.0) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Labels `(n,)`, coins `(1 + k, n)` and logits `(1 + k, n, classes)`: members are fitted better by `shift`."""
    random = np.random.default_rng(5)
    labels = random.integers(0, CLASSES, N)
    included = np.stack([draw_coins(N, 3), *(draw_coins(N, 10 + item) for item in range(MODELS))])
    level = 2 * random.standard_normal((1, N, 1))
    logits = random.standard_normal((1 + MODELS, N, CLASSES)) + level * np.eye(CLASSES)[labels]
    return labels, included, logits + shift * included[..., None] * np.eye(CLASSES)[labels]


def the_game(report: AuditReport) -> GameResult:
    return report.mechanisms[0].games[0]


def inspected(settings: Settings | None = None, **provided: Any) -> AuditReport:
    labels, included, logits = drawn()
    references = References(included=included[1:], **(provided or {"logits": logits[1:]}))
    view = View.of(labels=labels, logits=logits[0])
    return examine_outputs(view, included[0], settings or Settings(certificates=0), references=references).report


@pytest.mark.slow
def test_recorded_references_serve_every_attack_and_describe_all_models() -> None:
    report = inspected()
    game = the_game(report)
    names = {attack.scorer for attack in game.attacks}
    assert {"auto", "lira", "attack_p", "learned_combination"} <= names, names
    assert game.game.references == MODELS and game.models == 1 + MODELS
    evaluation = game.evaluation
    assert evaluation is not None and evaluation.targets == 1 + MODELS and evaluation.fidelity is not None
    assert evaluation.fidelity.matches and evaluation.records and evaluation.thresholds
    assert any(check.code == "references" for check in report.mechanisms[0].checks)


def test_an_attack_with_references_is_the_formula_on_what_was_given() -> None:
    labels, included, logits = drawn()
    lira = next(attack for attack in the_game(inspected()).attacks if attack.scorer == "lira")
    ours, theirs = (signals.scaled_confidence(part, labels) for part in (logits[0], logits[1:]))
    by_hand = membership.likelihood_ratio(ours, theirs, included[1:], variance="shrunk", prior_strength=8.0, shrink_shift=False)
    members, peers = by_hand[included[0]], by_hand[~included[0]]
    pairs = members[:, None] - peers[None, :]
    assert lira.auc == pytest.approx(float(np.mean((pairs > 0) + 0.5 * (pairs == 0))), abs=1e-12)


def test_coins_and_references_prove_an_epsilon() -> None:
    _, included, _ = drawn()
    report = inspected(Settings(coins=included[0], claim_epsilon=0.2, certificates=0))
    bounded = {attack.scorer for attack in the_game(report).attacks if attack.bounds}
    assert bounded == {"auto"} and report.outcome is Outcome.VIOLATED


def forgetful(included: NDArray[Any], seed: int = 1) -> tuple[View, References]:
    """A target that shows nothing of its coins beside references that remember every record."""
    random = np.random.default_rng(seed)
    confidence = 0.3 * random.normal(size=included.shape)
    confidence[1:] += 4 * included[1:]
    logits = np.stack([confidence, np.zeros_like(confidence)], axis=-1)
    view = View.of(labels=np.zeros(included.shape[1], int), logits=logits[0])
    return view, References(included=included[1:], logits=logits[1:])


@pytest.mark.parametrize(
    "design", ["each record in half", "one reference is the complement", "one reference has the same records"]
)
def test_references_that_follow_the_coins_of_the_target_prove_nothing(design: str) -> None:
    random = np.random.default_rng(4)
    included = random.random((8, 400)) < 0.5
    if design == "each record in half":
        included = np.argsort(random.random((8, 400)), axis=0) < 4
    else:
        included[3] = included[0] ^ ("complement" in design)
    view, references = forgetful(included)
    settings = Settings(coins=included[0], certificates=0, proven_by=("lira",), scorers=("lira",), claim_epsilon=0.1)
    report = examine_outputs(view, included[0], settings, index=np.arange(400), references=references).report
    (attack,) = the_game(report).attacks
    assert not attack.bounds and 0 <= attack.auc <= 1
    assert report.outcome is Outcome.INVALID and "follow the target's coins" in report.mechanisms[0].verdicts[0].reason
    assert any("leave them out for an epsilon from the target alone" in note for note in report.notes)


def test_references_with_coins_of_their_own_are_believed() -> None:
    random = np.random.default_rng(6)
    tails = [dependence_tail(random.random(100) < 0.5, random.random((5, 100)) < 0.5) for _ in range(300)]
    assert min(tails) > 1e-4 and np.mean(np.array(tails) < 0.5) <= 0.5
    assert dependence_tail(random.random(100) < 0.5, np.ones((5, 100), bool)) == 1.0
    included = random.random((8, 400)) < 0.5
    view, references = forgetful(included)
    settings = Settings(coins=included[0], certificates=0, proven_by=("lira",), scorers=("lira",))
    report = examine_outputs(view, included[0], settings, index=np.arange(400), references=references).report
    assert the_game(report).attacks[0].bounds[0].epsilon == 0
    assert "do not follow" in next(check.value for check in report.mechanisms[0].checks if check.code == "references")


@pytest.mark.slow
def test_losses_alone_serve_what_losses_can() -> None:
    labels, included, logits = drawn()
    losses = signals.cross_entropy(logits, labels)
    references = References(included=included[1:], losses=losses[1:])
    report = examine_outputs(View.of(losses=losses[0]), included[0], Settings(certificates=0), references=references).report
    names = {attack.scorer for attack in the_game(report).attacks}
    assert {"lira", "auto"} <= names and not {"entropy", "shadow_classifier"} & names


@pytest.mark.slow
def test_models_in_memory_and_their_recorded_outputs_say_the_same() -> None:
    random = np.random.default_rng(2)
    inputs, labels = random.standard_normal((N, 5)).astype(np.float32), random.integers(0, CLASSES, N)
    coins = draw_coins(N, 3)
    order = np.concatenate([np.flatnonzero(coins), np.flatnonzero(~coins)])
    modules = [torch.nn.Linear(5, CLASSES) for _ in range(5)]
    for number, module in enumerate(modules):
        stream = Seed(number).numpy()
        for weight in module.parameters():
            weight.data = torch.from_numpy(stream.standard_normal(tuple(weight.shape)).astype(np.float32))
    included = np.stack([draw_coins(N, 20 + item) for item in range(4)])
    sides = (inputs[coins], labels[coins]), (inputs[~coins], labels[~coins])
    with torch.no_grad():
        recorded = np.stack([module(torch.from_numpy(inputs[order])).numpy() for module in modules[1:]])
    settings = Settings(created="2026-01-01T00:00:00Z", certificates=0)
    first = inspect(modules[0], *sides, settings, References(included=included, models=modules[1:]))
    second = inspect(modules[0], *sides, settings, References(included=included, logits=recorded))
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, ConfigError, "given in 0 forms"),
        ({"logits": np.zeros((2, N, 3)), "losses": np.zeros((2, N))}, ConfigError, "given in 2 forms"),
        ({"logits": np.zeros((3, N, 3))}, DataError, r"expected \(k, n, classes\)"),
        ({"losses": np.zeros((2, N - 1))}, DataError, r"expected \(k, n\)"),
        ({"models": [len]}, DataError, "1 reference models but memberships of 2"),
    ],
)
def test_references_that_cannot_be_used(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        References(included=np.ones((2, N), bool), **arguments)


def test_references_of_other_records_or_outputs_are_refused() -> None:
    labels, included, logits = drawn()
    view = View.of(labels=labels, logits=logits[0])
    with pytest.raises(DataError, match=f"a column for {N - 1} records but {N}"):
        examine_outputs(view, included[0], references=References(included=included[1:, 1:], logits=logits[1:, 1:]))
    with pytest.raises(DataError, match="expected the same of both"):
        examine_outputs(view, included[0], references=References(included=included[1:], logits=logits[1:, :, :2]))
    with pytest.raises(DataError, match="expected true or false"):
        References(included=np.full((2, N), 0.5), losses=np.zeros((2, N)))


@pytest.mark.slow
def test_confidences_are_computed_once_for_all_attacks_and_change_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, included, logits = drawn()
    references = References(included=included[1:], logits=logits[1:])
    view = View.of(labels=labels, logits=logits[0])
    settings = Settings(certificates=0, scorers=("loss", "lira", "offset", "attack_p"), proven_by=("lira",))
    shared = examine_outputs(view, included[0], settings, references=references).scores
    monkeypatch.setattr("audit.experiment.games.attack.with_confidences", lambda models: models)
    alone = examine_outputs(view, included[0], settings, references=references).scores
    assert all(np.array_equal(shared[name], alone[name]) for name in settings.scorers or ())
    constant = View.of(labels=labels, logits=np.broadcast_to(np.arange(3.0), logits[0].shape))
    assert not any(
        scores.any() for scores in examine_outputs(constant, included[0], settings, references=references).scores.values()
    )


def test_a_shared_confidence_does_not_make_a_constant_target_speak() -> None:
    labels, included, logits = drawn()
    logits[0] = [0.0, 1.0, 2.0]
    models = {"included": included, "logits": logits, "labels": labels}
    rows = compare_attacks(models, ["loss", "lira"], battery=False, targets=1).rows
    assert {row.mean for row in rows if row.figure == "auc"} == {0.5}


def members_first() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Labels, coins, logits of all models with members of the target first, and the index of each record."""
    labels, included, logits = drawn()
    order = np.argsort(~included[0], kind="stable")
    return labels[order], included[:, order], logits[:, order], order


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["logits", "losses", "models"])
def test_references_with_members_first_beside_an_index_are_refused_and_in_its_order_they_serve(form: str) -> None:
    labels, included, logits, index = members_first()
    losses = signals.cross_entropy(logits, labels)
    back = np.argsort(index)
    view = View.of(labels=labels, logits=logits[0]) if form != "losses" else View.of(losses=losses[0])
    inputs = np.arange(N, dtype=np.float32)[:, None]

    def ordered(order: NDArray[Any]) -> References:
        if form == "models":  # a model answers for the records that it is asked about
            models = [lambda x, row=row: row[x[:, 0].astype(int)] for row in logits[1:]]
            return References(included=included[1:, order], models=models)
        values: dict[str, Any] = {form: (logits if form == "logits" else losses)[1:, order]}
        return References(included=included[1:, order], **values)

    settings = Settings(certificates=0, scorers=("lira",), proven_by=("lira",), coins=included[0][back])
    with pytest.raises(DataError, match="in the order members first"):
        examine_outputs(view, included[0], settings, inputs=inputs, index=index, references=ordered(np.arange(N)))
    game = the_game(examine_outputs(view, included[0], settings, inputs=inputs, index=index, references=ordered(back)).report)
    assert game.attacks[0].auc > 0.85


def test_an_index_that_is_no_column_of_the_references_is_refused() -> None:
    labels, included, logits, index = members_first()
    references = References(included=included[1:], logits=logits[1:])
    view = View.of(labels=labels, logits=logits[0])
    with pytest.raises(DataError, match=r"goes from 1000 to 1239.*240 columns"):
        examine_outputs(view, included[0], Settings(certificates=0), index=index + 1000, references=references)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("form", "runs"), [("losses", True), ("logits", True), ("models", False)])
def test_references_in_the_right_order_are_served_where_the_other_order_looks_alike(form: str, runs: bool) -> None:
    """The first half of the records in each reference beside a strong leak, and models on sorted records."""
    random = np.random.default_rng(4)
    size, classes = 900, 3
    labels = random.choice(classes, size, p=(0.8, 0.1, 0.1))
    included = np.stack([draw_coins(size, 3), *([np.arange(size) < size // 2] * 4)])
    hardness = np.zeros(size) if runs else np.sort(random.standard_normal(size))
    leak = 4.0 if runs else 0.2
    fit = 1.0 + hardness + 0.7 * random.standard_normal((5, size)) + leak * included - 1.5 * (labels > 0) * runs
    logits = fit[..., None] * np.eye(classes)[labels] + np.eye(classes)[0] * runs
    index = np.argsort(~included[0], kind="stable")
    losses = signals.cross_entropy(logits, labels)
    view = View.of(labels=labels[index], logits=logits[0, index]) if form != "losses" else View.of(losses=losses[0, index])
    values: dict[str, Any] = {"logits": logits[1:], "losses": losses[1:]}
    if form == "models":
        values["models"] = [lambda x, row=row: row[x[:, 0].astype(int)] for row in logits[1:]]
    references = References(included=included[1:], **{form: values[form]})
    settings = Settings(certificates=0, scorers=("loss",))
    inputs = index.astype(np.float32)[:, None]
    assert examine_outputs(view, included[0][index], settings, inputs=inputs, index=index, references=references).report


@pytest.mark.slow
def test_references_that_tell_nothing_in_either_order_are_not_refused() -> None:
    _, included, _ = drawn()
    index = np.argsort(~included[0], kind="stable")
    noise = np.random.default_rng(9).standard_exponential((1 + MODELS, N))
    references = References(included=included[1:], losses=noise[1:])
    view = View.of(losses=noise[0])
    report = examine_outputs(view, included[0][index], Settings(certificates=0), index=index, references=references).report
    assert the_game(report).attacks


def test_an_attack_that_no_brought_model_can_serve_is_not_helped_by_references() -> None:
    with pytest.raises(ConfigError, match=r"reads noisy_labels_16 and so needs label_queries.*references do not change that"):
        inspected(Settings(scorers=("loss", "noise_robustness"), certificates=0))
    labels, included, logits = drawn()
    with pytest.raises(ConfigError, match=r"needs \d reference models and 0 were given; give \d references or more"):
        settings = Settings(scorers=("loss", "learned_combination"), certificates=0)
        examine_outputs(View.of(labels=labels, logits=logits[0]), included[0], settings)


def test_an_attack_that_ranks_as_another_names_that() -> None:
    labels, included, logits = drawn()
    result = examine_outputs(View.of(labels=labels, logits=logits[0]), included[0], Settings(certificates=0))
    assert result.repeats and set(result.repeats.values()) <= {attack.scorer for attack in the_game(result.report).attacks}
    assert not set(result.repeats) & {attack.scorer for attack in the_game(result.report).attacks}
    name, shown = next(iter(result.repeats.items()))
    assert result.not_run[name] == f"ranks the records as {shown} does"
    assert f"{name} ranks these records as {shown} does" in str(ModelCheck(inspection=result))
