"""Events from whatever a person has: an expression, a file, a training config, another library's history."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from audit.core.errors import ConfigError, DataError
from audit.core.events import Event


@runtime_checkable
class HistoryHolder(Protocol):
    """An accountant of Opacus, as far as it is looked at here."""

    @property
    def history(self) -> Any: ...


AnyEvent = Event | str | Path | Mapping[str, Any] | Sequence[Any] | HistoryHolder
_FORMS = (
    'an event ({"kind": "Gaussian", "noise_multiplier": 2.0}), an Opacus history ([[noise multiplier, sample rate, steps]]), a '
    "dp-accounting event (its class_name and fields, or its text), jax-privacy's DpParams with num_updates, a training config, "
    "a report.json"
)


def read_event(source: AnyEvent, *, mechanism: str = "") -> Event:
    """Return the event that a value represents.

    Args:
        source: an event itself; the path of a JSON, YAML or text file with an event, an Opacus history, a dp-accounting
            event, jax-privacy's parameters, a training config or a report.json; the name of a config that
            comes with the project; an expression such as `dp_sgd(1.0, 0.01, 1000) + 20 * Laplace(10)`; or, from a program, an
            Opacus accountant, its `history` or its `state_dict()`, or any of the mappings that a file may hold.
        mechanism: of a config with several trainings, the name of that which is meant.

    Raises:
        ConfigError: there is no such thing, or a value that its kind refuses.
        DataError: a file that cannot be read as any of these.
        UnsupportedMechanism: an event of another library that has no form here.

    >>> read_event("3 * Gaussian(2.0)").count
    3
    """
    from audit.accounting.event_expressions import event_names, parse
    from audit.config.read import shipped_configs

    if isinstance(source, Event):
        return source
    if not isinstance(source, str | Path):
        return _read_value(source)
    text = str(source)
    if _is_file(text):
        return _file_event(Path(text), mechanism)
    if text in shipped_configs():
        return _config_event(text, mechanism)
    if "(" in text:
        return parse(text)
    if text.isidentifier() and text.lower() in {name.lower() for name in event_names()}:
        return parse(f"{text}()")  # the parser names what the kind takes
    raise ConfigError(
        f"the event's source '{text}' is neither a file, nor an expression such as dp_sgd(1.0, 0.01, 1000), nor a config of "
        f"the project ({', '.join(shipped_configs())})"
    )


def _read_value(source: Any) -> Event:
    tree = source.history if isinstance(source, HistoryHolder) else source
    if isinstance(tree, Mapping | Sequence | deque):
        try:
            return _tree_event(_plain(tree))
        except (ConfigError, DataError) as error:
            raise type(error)(f"the event's source: {error}") from error
    raise ConfigError(
        f"the event's source is a {type(source).__name__}; expected an Event, text, a path, or an accountant with a history "
        "(privacy_engine.accountant)"
    )


def _plain(value: Any) -> Any:
    """Return a value as a JSON file would hold it: lists for tuples, numbers for numbers of numpy and torch."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | deque):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") and not isinstance(value, str) else value


def _is_file(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # an expression too long for a name, or one with a character that no name has
        return False


def _file_event(path: Path, mechanism: str) -> Event:
    from audit.accounting.event_expressions import parse

    tree = _tree(path)
    try:
        if isinstance(tree, str):
            return parse(tree)
        has_trainings = isinstance(tree, Mapping) and "mechanisms" in tree
        if has_trainings and "schema" in tree and isinstance(tree["mechanisms"], list):
            return _report_event(path, mechanism)
        return _config_event(str(path), mechanism) if has_trainings else _tree_event(tree)
    except (ConfigError, DataError) as error:
        message = str(error)
        raise type(error)(message if path.name in message else f"{path}: {message}") from error


def _tree(path: Path) -> Any:
    from audit.config import yaml_text
    from audit.core import files

    try:
        if path.suffix == ".json":
            return files.read_json(path)
        text = files.read_text(path)
        return yaml_text.read(text)[0] if path.suffix in (".yaml", ".yml") else text
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {error}; expected {_FORMS}") from error
    except ConfigError as error:
        raise DataError(f"{path} {error}; expected {_FORMS}") from error


def _report_event(path: Path, mechanism: str) -> Event:
    """The event of a report's private training, as the audit accounted for it."""
    from audit.core.event_reading import is_non_private
    from reports.formats import json as report_json

    rows = report_json.from_json(path.read_bytes()).mechanisms
    events = {row.name: row.mechanism for row in rows if row.mechanism is not None}
    return _only_training({name: event for name, event in events.items() if mechanism or not is_non_private(event)}, mechanism)


def _only_training(events: Mapping[str, Event], mechanism: str) -> Event:
    candidates = {name: event for name, event in events.items() if not mechanism or name == mechanism}
    if len(candidates) != 1:
        problem = f"has no training '{mechanism}'" if mechanism else f"has {len(candidates)} private trainings"
        names = ", ".join(events) or "none"
        raise ConfigError(f"{problem} (its trainings: {names}); name one with mechanism (--mechanism)")
    return next(iter(candidates.values()))


def _tree_event(tree: Any) -> Event:
    from audit.accounting import foreign_events
    from audit.core.event_forms import decode

    if isinstance(tree, Mapping) and "kind" in tree:
        return decode(tree)
    if foreign_events.is_dp_event(tree):
        return foreign_events.dp_event(tree)
    if foreign_events.is_history(tree):
        return foreign_events.opacus_history(tree)
    if foreign_events.is_jax_parameters(tree):
        return foreign_events.jax_parameters(tree)
    raise DataError(f"holds no event; expected {_FORMS}")


def _config_event(name: str, mechanism: str) -> Event:
    """The event of a config's private training; its data are read, because rates and steps follow from their number."""
    from audit.config import load
    from audit.core.event_reading import is_non_private
    from audit.experiment.line.assemble import assemble

    designs = assemble(load(name).config, call_factory=False).design.training_designs
    candidates = {design.name: design.mechanism for design in designs if mechanism or not is_non_private(design.mechanism)}
    try:
        return _only_training(candidates, mechanism)
    except ConfigError as error:
        raise ConfigError(f"config '{name}' {error}") from error
