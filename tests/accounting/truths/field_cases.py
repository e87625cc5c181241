"""Cases for every field of every event, far beyond those of the battery, and for every event inside another one.

    python -m tests.accounting.truths.field_cases audit/accounting/regression/field_cases.json [KIND...]

An event is drawn with one field far from the usual until the reference proves a bracket that says something.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from accountant_battery import outwards

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import suite
from audit.accounting.regression.fuzzing import schema
from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.suite import Case, ClaimQuestion
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import DiscreteGaussian, NoisyMax, SparseVector, TreeAggregation
from audit.core.deployed_procedures import MixtureOfGaussians
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_changes import has_noise, with_noise_factor
from audit.core.event_forms import encode, kinds_by_name
from audit.core.event_reading import nodes, rebuilt
from audit.core.events import ApproximateDp, Composed, Event, Gaussian, Grouped, Laplace, Repeated

FACTORS = (0.6, 1.6, 0.2, 5.0, 0.1, 10.0)  # that a field is taken for something else by
TIMES = 10.0  # the median of the battery, that a case has to be beyond
_SECONDS = 6.0  # of CPU for one case


WRAPPED: dict[str, tuple[Event, str]] = {
    "wrapped-selection-composed": (
        Composed(parts=(NoisyMax(epsilon=1.0, noise="gumbel"), Gaussian(noise_multiplier=4.0))),
        "a selection in a composition",
    ),
    "field-SparseVector-positives-1": (
        SparseVector(threshold_epsilon=1.0, query_epsilon=40.0, positives=10),
        "a positives of SparseVector",
    ),
    "field-DiscreteGaussian-sensitivity-3": (
        DiscreteGaussian(noise_multiplier=0.3, sensitivity=3),
        "a sensitivity of DiscreteGaussian",
    ),
    "wrapped-tree-grouped": (Grouped(mechanism=TreeAggregation(noise_multiplier=8.0, steps=100), size=4), "a group of a tree"),
    "wrapped-four-shifts": (
        MixtureOfGaussians(noise_multiplier=1.0, shifts=(0.0, 1.0, 2.0, 4.0), probabilities=(0.7, 0.1, 0.1, 0.1)),
        "a list of shifts",
    ),
}
"""Events that no single field says, or that a search does not find in time, with what their cases catch."""


def stored_values(cases: tuple[Case, ...]) -> dict[tuple[str, str], list[float]]:
    """Return what the fields of events are in the cases, by class and field."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in cases:
        if case.kind == "refusal":
            continue
        for ask in case.asks:
            for node in nodes(ask.event):
                for name in schema.fields(type(node)):
                    values[type(node).__name__, name].append(float(getattr(node, name)))
    return values


def is_beyond(value: float, middle: float) -> bool:
    """True if a value is ten times as far from nothing as the middle one, or as near to it."""
    return value >= TIMES * middle or (0 < value <= middle / TIMES)


def find(kind: type, name: str, middle: float, place: int) -> dict[str, Any] | None:
    """Return one case of a class with that field beyond what is stored; None if none was found in time."""
    draws = Draws(np.random.Generator(np.random.PCG64([place, *kind.__name__.encode(), *name.encode()])))
    end = time.process_time() + _SECONDS
    while time.process_time() < end:
        try:
            question = schema.draw_question(draws, kind, name, wrap=False)
        except ConfigError:
            continue
        if not is_beyond(float(getattr(question.event, name)), middle):
            continue
        row = bracket(question, f"field-{kind.__name__}-{name}-{place}", f"a {name} of {kind.__name__}")
        if row is not None:
            return row
    return None


def bracket(question: ClaimQuestion, identity: str, catches: str) -> dict[str, Any] | None:
    """Return the case of a question; None if the reference proves nothing that says something."""
    try:
        (low, high), doubt = Reference(tolerance=1e-3).explain(
            question.event, delta=question.delta, adjacency=question.adjacency
        )
    except UnsupportedMechanism:
        return None
    if doubt or not 0.02 < low <= high < 300 or low < 0.3 * high:
        return None
    return {
        "id": identity,
        "group": "fields",
        "kind": "bracket",
        "asks": [{"event": encode(question.event), "delta": question.delta, "adjacency": str(question.adjacency)}],
        "lower": outwards(low, -1),
        "upper": outwards(high, 1),
        "tolerance": 0.01,
        "reason": "bracket of the reference",
        "catches": f"{catches} that is cut, rounded or looked up in a table",
        "precision": 1e-3,
    }


def misread(event: Event, kind: type[Event], name: str, factor: float) -> Event:
    """Return the event with one field of every event of a class multiplied.

    Raises:
        ConfigError: the field takes no such value.
    """

    def edit(node: Event) -> Event:
        if type(node) is not kind:
            return node
        value = getattr(node, name) * factor
        return dataclasses.replace(node, **{name: max(1, int(value)) if schema.SPANS[name].is_count else value})  # type: ignore[type-var]

    return rebuilt(event, edit)


def find_cut(kind: type[Event], name: str, middle: float, side: str) -> dict[str, Any] | None:
    """Return a case with a field far above or below the usual that shows if it is taken for something nearer or farther.

    None if none was found in time: the field does not matter there, or the bracket is too wide to decide.
    """
    draws = Draws(np.random.Generator(np.random.PCG64([*kind.__name__.encode(), *name.encode(), *side.encode()])))
    end = time.process_time() + _SECONDS
    while time.process_time() < end:
        try:
            question = schema.draw_question(draws, kind, name, wrap=False)
        except ConfigError:
            continue
        value = float(getattr(question.event, name))
        if not (value >= TIMES * middle if side == "above" else 0 < value <= middle / TIMES):
            continue
        row = bracket(question, f"cut-{kind.__name__}-{name}-{side}", f"a {name} of {kind.__name__}")
        if row is not None and is_shown(question, kind, name, row["lower"]):
            return row
    return None


def shows(case: Case, kind: type[Event], name: str, middle: float, side: str) -> bool:
    """Return whether a case shows if a field on that side of the usual is taken for something else."""
    values = [float(getattr(node, name)) for node in nodes(case.asks[0].event) if type(node) is kind]
    is_there = any(value >= TIMES / 2 * middle if side == "above" else 0 < value <= 2 * middle / TIMES for value in values)
    return is_there and is_shown(case.asks[0], kind, name, case.lower)


def is_shown(question: ClaimQuestion, kind: type[Event], name: str, floor: float) -> bool:
    """Return whether a field taken for some times more or less is below the truth."""
    for factor in FACTORS:
        try:
            if _costs_less(misread(question.event, kind, name, factor), question, floor):
                return True
        except (ConfigError, UnsupportedMechanism):  # the field takes no such value
            continue
    return False


def _composed(event: Event) -> Event:
    return Composed(parts=(Laplace(noise_multiplier=8.0), event))


def _between(event: Event) -> Event:
    return Composed(parts=(ApproximateDp(epsilon=0.05, delta=1e-9), event, Gaussian(noise_multiplier=20.0)))


def _repeated(event: Event) -> Event:
    return Repeated(mechanism=event, count=3)


def _grouped(event: Event) -> Event:
    return Grouped(mechanism=event, size=2)


def _phases(event: Event) -> Event:
    return Composed(parts=(Repeated(mechanism=event, count=2), Repeated(mechanism=Laplace(noise_multiplier=40.0), count=5)))


FORMS: dict[str, Callable[[Event], Event]] = {
    "composed": _composed,
    "between": _between,
    "repeated": _repeated,
    "grouped": _grouped,
    "phases": _phases,
}


def find_wrapped(kind: type[Event], form: str) -> dict[str, Any] | None:
    """Return a case of an event of a class inside of another, which it dominates; None if none was found in time."""
    draws = Draws(np.random.Generator(np.random.PCG64([*kind.__name__.encode(), *form.encode()])))
    end = time.process_time() + _SECONDS
    while time.process_time() < end:
        try:
            inner = schema.draw_event(draws, kind, is_usual=True)
            event = FORMS[form](inner)
        except ConfigError:
            continue
        adjacency = Adjacency.REPLACE_ONE if draws.chance(0.3) else Adjacency.ADD_REMOVE
        question = ClaimQuestion(event=event, delta=draws.pick(1e-5, 1e-6, 1e-7), adjacency=adjacency)
        row = bracket(question, f"wrapped-{kind.__name__}-{form}", f"a {kind.__name__} {form}")
        if row is not None and all(_costs_less(weaker, question, row["lower"]) for weaker in _weaker(event, inner)):
            return row
    return None


def _weaker(event: Event, inner: Event) -> list[Event]:
    """Return what is left if the inner event is dropped, counted once, or believed at twice its noise."""
    if isinstance(event, Composed):
        remainder = Composed(parts=tuple(part for part in event.parts if inner not in nodes(part)))
    else:
        remainder = inner
    return [remainder, *([with_noise_factor(event, 1.1)] if has_noise(inner) else [])]


def _costs_less(event: Event, question: ClaimQuestion, floor: float) -> bool:
    high = Reference(tolerance=1e-3).bracket(event, delta=question.delta, adjacency=question.adjacency)[1]
    return high < 0.99 * floor


Search = Callable[[], dict[str, Any] | None]


def searches(kinds: list[str]) -> Iterator[tuple[str, Search]]:
    """Yield name and search of each case of these classes of events, of all if none is named."""
    for identity, (event, catches) in WRAPPED.items():
        question = ClaimQuestion(event=event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
        yield identity, partial(bracket, question, identity, catches)
    stored, cases = stored_values(suite.load()), [case for case in suite.load_checked() if case.kind == "bracket"]
    for name, kind in kinds_by_name().items():
        if kinds and name not in kinds:
            continue
        for form in FORMS:
            yield f"wrapped-{name}-{form}", partial(find_wrapped, kind, form)
        for field in schema.fields(kind):
            middle = median(stored[name, field] or [math.sqrt(math.prod(schema.SPANS[field].usual))])
            for side in ("above", "below"):
                if not any(shows(case, kind, field, middle, side) for case in cases):
                    yield f"cut-{name}-{field}-{side}", partial(find_cut, kind, field, middle, side)
            for place in (1, 2):
                yield f"field-{name}-{field}-{place}", partial(find, kind, field, middle, place)


def main(path: Path, kinds: list[str]) -> None:
    rows = {row["id"]: row for row in json.loads(path.read_text())["cases"]}
    for identity, search in searches(kinds):
        if identity in rows:
            continue
        row = search()
        print(identity, "none" if row is None else [row["lower"], row["upper"]], flush=True)
        if row is not None:
            rows[identity] = row
            document = {"version": 1, "command": "python -m tests.accounting.truths.field_cases", "cases": list(rows.values())}
            path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
