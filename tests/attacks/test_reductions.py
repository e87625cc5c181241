"""Scores from what is kept of outputs are those from all of them, to the last bit, whatever parts models were observed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast

import numpy as np
import pytest

from attacks.signals import _reading as reading
from attacks.signals._reductions import confidences_key
from attacks.signals.logits import Confidences, Logits, Losses
from audit import plugins
from audit.core.data import Array, Records
from audit.core.errors import ConfigError, ObservationError
from audit.core.models import Reduction
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.engine.read.observe import EnsembleReader
from audit.experiment.games.attack import canary_scores
from audit.experiment.games.spec import OF_FIGURES, kept_signals
from audit.models.build import initialise_model

RANDOM = np.random.default_rng(3)
K, M, CLASSES = 13, 301, 10
LABELS = RANDOM.integers(0, CLASSES, M)
INCLUDED = RANDOM.random((K, M)) < 0.5
LOGITS = (3 * RANDOM.standard_normal((K + 1, M, CLASSES)) + 2 * np.eye(CLASSES)[LABELS]).astype(np.float32)


def attacks() -> dict[str, Attack]:
    """Every attack of the folder that names the reductions of outputs that it reads, in its forms."""
    forms: list[dict[str, Any]] = [{"kind": name} for name in plugins.names("attacks.scorers")]
    forms += [{"kind": kind, "online": False} for kind in ("lira", "offset", "rmia")]
    forms += [{"kind": "rmia", "temperature": degree} for degree in (1, 2, 0.7)] + [{"kind": "rmia", "population": True}]
    built = {str(form): plugins.build("attacks.scorers", form) for form in forms}
    return {
        name: attack for name, attack in built.items() if attack.needs.reductions and name != "{'kind': 'white_box_classifier'}"
    }


def view_of(attack: Attack, logits: Array, *, as_logits: bool, **more: Any) -> View:
    """The view of models that the attack gets: their outputs, or only the reductions that it names."""
    reductions = OF_FIGURES | attack.needs.reductions
    values = {reduction.key: reduction.reduce(logits, logits[:, 0], LABELS) for reduction in reductions}
    signals: Mapping[str, Array] = {Logits.key: logits} if as_logits else values
    return View(signals={key: array for key, array in signals.items() if key in reading.view_keys(attack.needs)}, **more)


def scores(attack: Attack, logits: Array, *, as_logits: bool) -> Array:
    target = view_of(attack, logits[:1], as_logits=as_logits)
    target = replace(target, signals={key: array[0] for key, array in target.signals.items()}, labels=LABELS)
    return canary_scores(attack, target, view_of(attack, logits[1:], as_logits=as_logits, included=INCLUDED), Seed(0))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", attacks())
def test_scores_are_those_of_all_outputs(name: str) -> None:
    attack = attacks()[name]
    values = scores(attack, LOGITS, as_logits=False)
    assert values.tobytes() == scores(attack, LOGITS, as_logits=True).tobytes()
    assert len(np.unique(values)) > M // 2
    silent = LOGITS.copy()
    silent[0] = LOGITS[0, 0]  # the same of every record, though the confidence in its label is not
    assert not scores(attack, silent, as_logits=False).any() and not scores(attack, silent, as_logits=True).any()


def test_all_attacks_that_read_one_number_say_so() -> None:
    assert {name.split("'")[3] for name in attacks()} >= {
        *("loss", "lira", "rmia", "offset", "attack_p", "attack_r", "reference_quantile", "learned_combination"),
        *("entropy", "modified_entropy", "confidence", "output_gradient"),
    }


@cache
def models() -> tuple[dict[str, Array], Records]:
    """Weights of three models, and records that they were not trained on."""
    inputs = RANDOM.standard_normal((M, 6)).astype(np.float32)
    states = [initialise_model({"kind": "mlp", "hidden": [8]}, (6,), CLASSES, Seed(number)).state_dict() for number in range(3)]
    weights = {name: np.stack([state[name].numpy() for state in states]) for name in states[0]}
    return weights, Records(inputs=inputs, labels=LABELS)


@pytest.mark.parametrize("batch", [1, 2, 7, 300, 1000])
def test_models_are_observed_in_parts_as_whole(batch: int) -> None:
    weights, records = models()
    reader = EnsembleReader({"kind": "mlp", "hidden": [8]}, weights, records.inputs[:2], CLASSES, batch=batch)
    outputs = reader.outputs(records.inputs)
    reductions = cast("list[Reduction]", [Confidences(temperature=2.0), *OF_FIGURES])
    result = reader.reduce_outputs(reductions, records)
    assert result.keys() == {reduction.key for reduction in reductions}
    for reduction in reductions:
        full = reduction.reduce(outputs, outputs[:, 0], LABELS)
        assert result[reduction.key].dtype == full.dtype and result[reduction.key].tobytes() == full.tobytes()


def test_outputs_that_are_not_finite_stay_visible() -> None:
    logits = LOGITS[:2].copy()
    wrong = (LABELS[5] + 1) % CLASSES
    logits[0, 5, wrong], logits[1, 7] = -np.inf, np.nan  # a class that is excluded leaves the confidence finite
    values = Confidences().reduce(logits, logits[:, 0], LABELS)
    assert np.flatnonzero(~np.isfinite(values).all(axis=0)).tolist() == [5, 7]


def test_outputs_are_kept_where_that_is_less_or_somebody_reads_them() -> None:
    lira, auto, loss = (plugins.build("attacks.scorers", {"kind": kind}).needs for kind in ("lira", "auto", "loss"))
    full = {Logits()}
    assert kept_signals(full, [lira, loss], 10) == OF_FIGURES
    assert kept_signals(full, [], 10) == OF_FIGURES, "figures alone read less as well"
    assert kept_signals(full, [lira, auto], 10) == full
    assert kept_signals(full, [lira], 3) == full
    assert kept_signals(full, [lira], 4) == OF_FIGURES, "as many numbers are kept, of fewer bytes, and none is made again"
    assert kept_signals(full, [lira], 0) == full
    fitted = plugins.build("attacks.scorers", {"kind": "rmia"}).needs
    assert len(kept_signals(full, [fitted], 10)) == 6 and kept_signals(full, [fitted], 9) == full


@pytest.mark.parametrize(
    "needs",
    [Needs(signals={Losses()}, optional={Logits()}), Needs(signals={Losses()}, instead={Logits()})],
    ids=["optional", "instead"],
)
def test_outputs_are_kept_for_attacks_that_could_do_without(needs: Needs) -> None:
    lira = plugins.build("attacks.scorers", {"kind": "lira"}).needs
    assert Logits() in kept_signals({Logits(), Losses()}, [lira, needs], 10)


def test_temperatures_have_keys_of_their_own() -> None:
    assert confidences_key(0.1 + 0.2) != confidences_key(0.3)
    with pytest.raises(ConfigError, match="expected a finite number above 0"):
        Confidences(temperature=0.0)


def test_rmia_counts_what_it_cannot_use_in_all_records_though_it_works_through_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.stats.spread.LARGEST", 4 * K)
    logits = LOGITS.copy()
    logits[5, [0, 150, 300], 1] = np.nan
    attack = plugins.build("attacks.scorers", {"kind": "rmia", "temperature": 2.0})
    for full in (True, False):
        with pytest.raises(ObservationError, match=f"'rmia': 3 of {K * M * (CLASSES if full else 1)} observed values"):
            scores(attack, logits, as_logits=full)
