"""Cases for every field of every event, far beyond those of the battery: two each, as `field_cases.json`.

    python -m tests.accounting.truths.field_cases audit/accounting/regression/field_cases.json [KIND...]

An event is drawn with one field far from the usual until the reference proves a bracket that says something.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import suite
from audit.accounting.regression.fuzzing import schema
from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.refreshing import outwards
from audit.accounting.regression.suite import Case, ClaimQuestion
from audit.core.adjacency import Adjacency
from audit.core.deployed_events import NoisyMax, SparseVector, TreeAggregation
from audit.core.deployed_procedures import MixtureOfGaussians
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import encode, kinds_by_name
from audit.core.event_reading import nodes
from audit.core.events import Composed, Event, Gaussian, Grouped

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


def main(path: Path, kinds: list[str]) -> None:
    document = json.loads(path.read_text())
    rows = {row["id"]: row for row in document["cases"]}
    for identity, (event, catches) in WRAPPED.items():
        if identity not in rows:
            row = bracket(ClaimQuestion(event=event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE), identity, catches)
            print(identity, "none" if row is None else [row["lower"], row["upper"]], flush=True)
            rows |= {} if row is None else {identity: row}
    stored = stored_values(suite.load())
    for name, kind in kinds_by_name().items():
        if kinds and name not in kinds:
            continue
        for field in schema.fields(kind):
            middle = median(stored[name, field] or [math.sqrt(math.prod(schema.SPANS[field].usual))])
            for place in (1, 2):
                identity = f"field-{name}-{field}-{place}"
                if identity in rows:
                    continue
                row = find(kind, field, middle, place)
                print(identity, "none" if row is None else [row["lower"], row["upper"]], flush=True)
                if row is not None:
                    rows[identity] = row
        text = json.dumps(
            {"version": 1, "command": "python -m tests.accounting.truths.field_cases", "cases": list(rows.values())}, indent=1
        )
        path.write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
