"""Events from expressions, files, configs and other libraries; whatever cannot be read is named with its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import dp_accounting
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import audit
from audit.accounting.event_expressions import parse
from audit.accounting.foreign_events import DP_EVENTS
from audit.api.event_sources import read_event
from audit.core.errors import ConfigError, DataError, UnsupportedMechanism
from audit.core.event_changes import EventChange, changed, read_noise
from audit.core.event_forms import dp_events, encode, kinds_by_name
from audit.core.event_reading import steps
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, Repeated, SampledWithoutReplacement, dp_sgd
from reports.formats import json as report_json
from tests.reports import sample

TRAINING = dp_sgd(noise_multiplier=1.5, clip_norm=1.0, sample_rate=0.01, steps=300)


def test_an_expression_composes_and_repeats() -> None:
    event = parse("dp_sgd(1.5, 0.01, 300) + 20 * Laplace(10) + Gaussian(noise_multiplier=2)")
    twenty = Repeated(mechanism=Laplace(noise_multiplier=10), count=20)
    assert event == Composed(parts=(TRAINING, twenty, Gaussian(noise_multiplier=2)))
    assert parse("dp_sgd(noise_multiplier=1.5, sample_rate=3/300, steps=3e2)") == TRAINING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Gausian(1)", "Did you mean 'Gaussian'"),
        ("Gaussian(1", "never closed"),
        ("Gaussian(noise=1)", "has no 'noise'"),
        ("Gaussian(1)) + 2", "column 12"),
        ("2 + 3", "is a number"),
        ("Gaussian(1) * 2.5", "count \\* event"),
        ("Gaussian(-1)", "noise_multiplier is -1"),
        ("Gaussian(1, 2, 3)", "takes 2 values"),
        ("Repeated(3, 4)", "is around events"),
        ("Repeated(Gaussian(1), 2.5)", "whole number"),
        ("Composed([Gaussian(1), 2])", "is around events"),
        ("dp_sgd(1, 2, 100)", "sample_rate is 2"),
        ("__import__('os').system('true')", "neither|no event"),
        ("(lambda: 1)()", "no event"),
        ("9 ** 9 ** 9 * Gaussian(1)", "exponent"),
        ("1 / 0 * Gaussian(1)", "division by zero"),
        ("(" * 5000 + "Gaussian(1)" + ")" * 5000, "cannot read"),
        ("Gaussian(**{'noise_multiplier': 1})", "write every field"),
    ],
)
def test_a_wrong_expression_says_where_and_what(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(text)


@pytest.mark.slow
@given(st.text(max_size=40))
@settings(max_examples=30, deadline=None)
def test_no_text_is_executed_or_crashes(text: str) -> None:
    try:
        assert isinstance(parse(text), Event)
    except (ConfigError, DataError, UnsupportedMechanism) as error:
        assert str(error)


def test_an_event_of_dp_accounting_is_read_from_its_own_text_and_as_a_tree() -> None:
    theirs = dp_events(TRAINING, dp_accounting)
    assert read_event(repr(theirs)) == TRAINING
    tree = {"class_name": "SelfComposedDpEvent", "count": 300}
    sampled = {"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.01}
    tree["event"] = sampled | {"event": {"class_name": "GaussianDpEvent", "noise_multiplier": 1.5}}
    assert _read(json.dumps(tree), "event.json") == TRAINING


def test_each_event_of_dp_accounting_that_is_read_is_one_of_theirs() -> None:
    newer = {"ExponentialMechanismDpEvent", "EpsilonDeltaDpEvent"}
    assert {name for name in DP_EVENTS if not hasattr(dp_accounting.dp_event, name)} <= newer
    with pytest.raises(UnsupportedMechanism, match="SampledWithReplacement"):
        parse("SampledWithReplacementDpEvent(10, 2, GaussianDpEvent(1.0))")
    with pytest.raises(DataError, match="GaussianDpEvent"):
        parse("GaussianDpEvent(sigma=1.0)")


def _read(text: str, name: str, folder: Path | None = None) -> Event:
    import tempfile

    with tempfile.TemporaryDirectory() as peer:
        file = (folder or Path(peer)) / name
        file.write_text(text)
        return read_event(str(file))


def test_files_of_every_form() -> None:
    assert _read(json.dumps(encode(TRAINING)), "event.json") == TRAINING
    assert _read("kind: Gaussian\nnoise_multiplier: 2\n", "event.yaml") == Gaussian(noise_multiplier=2)
    assert _read("dp_sgd(1.5, 0.01, 300)\n", "event.txt") == TRAINING
    assert _read("[[1.5, 0.01, 300]]", "history.json") == TRAINING
    state = {"history": [[1.5, 0.01, 300], [2.0, 0.01, 10]], "mechanism": "rdp"}
    assert steps(_read(json.dumps(state), "state.json")) == 310
    jax = {"noise_multipliers": [[0, 1.0], [40, 2.0]], "num_samples": 1000, "batch_size": 10, "num_updates": 100}
    event = _read(json.dumps(jax), "plan.json")
    step = PoissonSampled(mechanism=Gaussian(noise_multiplier=2.0), sample_rate=0.01)
    assert isinstance(event, Composed) and event.parts[1] == Repeated(mechanism=step, count=60)
    fixed = _read(json.dumps({**jax, "noise_multipliers": 1.0, "sampling_method": "FIXED_BATCH_SIZE"}), "plan.json")
    assert isinstance(fixed, Repeated) and isinstance(fixed.mechanism, SampledWithoutReplacement)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("{", "e.json", "cannot read"),
        ('{"what": 1}', "e.json", "e.json: holds no event"),
        ('{"kind": "Gaussian", "noise_multiplier": -2}', "e.json", "e.json: noise_multiplier is -2"),
        ('{"kind": "Repeated", "mechanism": 3, "count": 2}', "e.json", "e.json: 3 is not an event"),
        ('{"kind": "Composed", "parts": 3}', "e.json", "parts is 3"),
        ("[[1.0, 0.01]]", "h.json", "entry 0 of the history"),
        ("[[1.0, 0.01, 2.5]]", "h.json", "entry 0 of the history"),
        ('[[1.0, 0.01, "3"]]', "h.json", "entry 0 of the history"),
        ("a: [", "e.yaml", "is not YAML"),
        ('{"noise_multipliers": 1.0, "num_samples": 10, "batch_size": 1}', "j.json", "num_updates is None"),
    ],
)
def test_a_wrong_file_is_named(text: str, name: str, message: str) -> None:
    with pytest.raises((DataError, ConfigError), match=message):
        _read(text, name)


@pytest.mark.slow
def test_a_config_stands_for_its_private_training() -> None:
    event = read_event("quickstart")
    assert read_noise(event) is not None and steps(event) > 1
    with pytest.raises(ConfigError, match="no training 'nothing'"):
        read_event("quickstart", mechanism="nothing")
    with pytest.raises(ConfigError, match="neither a file, nor"):
        read_event("quickstrat")


def test_changes_reach_every_part_and_refuse_what_is_ambiguous() -> None:
    event = parse("dp_sgd(1, 0.01, 100) + dp_sgd(2, 0.02, 50)")
    doubled = changed(event, EventChange(quantity="noise", value=2, is_factor=True))
    assert doubled == parse("dp_sgd(2, 0.01, 100) + dp_sgd(4, 0.02, 50)")
    with pytest.raises(ConfigError, match="several values of steps"):
        changed(event, EventChange(quantity="steps", value=10))
    with pytest.raises(ConfigError, match="has no rate"):
        changed(parse("Laplace(1)"), EventChange(quantity="rate", value=0.1))
    assert changed(TRAINING, EventChange(quantity="steps", value=7)).count == 7  # type: ignore[attr-defined]


def test_every_kind_has_a_name_in_expressions() -> None:
    assert {"Gaussian", "Grouped", "Parallel"} <= kinds_by_name().keys()
    assert parse("Grouped(Parallel([Gaussian(1), Laplace(2)]), 3)").size == 3  # type: ignore[attr-defined]


def test_delta_is_the_inverse_of_epsilon() -> None:
    costs = audit.accountant.epsilon("Gaussian(1.0) + Gaussian(3.0)", delta=1e-6, accountants=[])
    deltas = audit.accountant.delta("Gaussian(1.0) + Gaussian(3.0)", epsilon=costs.upper, accountants=["reference"])
    assert deltas.lower <= 1e-6 * 1.01 and 1e-6 * 0.99 <= deltas.upper == deltas.rows[0].delta
    assert deltas.upper < deltas.lower * 1.02


def test_an_event_without_a_proof_says_so_in_place_of_a_bracket() -> None:
    costs = audit.accountant.epsilon("PoissonSampled(Laplace(1.0), 0.1)", adjacency="replace_one", accountants=["reference"])
    assert (costs.lower, costs.upper) == (0.0, float("inf")) and "no bracket is proved" in costs.doubt
    assert costs.rows[0].epsilon is None and "unsupported" in costs.rows[0].note


@pytest.mark.parametrize(
    "event",
    [
        TRAINING,
        parse("2 * Gaussian(3.0) + dp_sgd(1.0, 0.01, 100) + Laplace(10)"),
        parse("3 * PoissonSampled(Gaussian(2.0), 0.1)"),
    ],
)
def test_the_event_of_a_report_is_read_as_the_report_wrote_it(event: Event, tmp_path: Path) -> None:
    """The report's own writer, so that the two forms cannot drift apart."""
    report = sample.run()
    private = replace(report.mechanisms[-1], name="private", mechanism=event)
    file = tmp_path / "report.json"
    file.write_bytes(report_json.to_json(replace(report, mechanisms=(private,))))
    assert read_event(str(file)) == event
    assert read_event(str(file), mechanism="private") == event


def test_an_opacus_accountant_is_read_as_its_history_and_its_state() -> None:
    accountants = pytest.importorskip("opacus.accountants")
    accountant = accountants.RDPAccountant()
    for _ in range(1000):
        accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    written = read_event("dp_sgd(1.0, 0.01, 1000)")
    for source in (accountant, accountant.history, accountant.state_dict()):
        assert read_event(source) == written


@pytest.mark.parametrize("value", [3, None, object()])
def test_an_object_that_is_no_event_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(ConfigError, match=f"the event's source is a {type(value).__name__}; expected an Event"):
        read_event(value)  # type: ignore[arg-type]
