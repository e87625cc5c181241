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
from audit.accounting.regression.suite import Case
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_forms import encode, kinds_by_name
from audit.core.event_reading import nodes

TIMES = 10.0  # the median of the battery, that a case has to be beyond
_SECONDS = 6.0  # of CPU for one case


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
        try:
            (low, high), doubt = Reference(tolerance=1e-3).explain(
                question.event, delta=question.delta, adjacency=question.adjacency
            )
        except UnsupportedMechanism:
            continue
        if doubt or not 0.02 < low <= high < 300 or low < 0.3 * high:
            continue
        return {
            "id": f"field-{kind.__name__}-{name}-{place}",
            "group": "fields",
            "kind": "bracket",
            "asks": [{"event": encode(question.event), "delta": question.delta, "adjacency": str(question.adjacency)}],
            "lower": outwards(low, -1),
            "upper": outwards(high, 1),
            "tolerance": 0.01,
            "reason": "bracket of the reference",
            "catches": f"a {name} of {kind.__name__} that is cut, rounded or looked up in a table",
            "precision": 1e-3,
        }
    return None


def main(path: Path, kinds: list[str]) -> None:
    document = json.loads(path.read_text())
    rows = {row["id"]: row for row in document["cases"]}
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
