"""Tables that go beside the report: every score with its coin, and what the run ran on."""

import io
import json
import os
from collections.abc import Sequence

import numpy as np
import pyarrow
import pyarrow.parquet

from audit.core.data import Array
from audit.core.results import AuditReport
from audit.experiment.line.game import GameOutcome


def scores_parquet(report: AuditReport, outcomes: Sequence[GameOutcome]) -> bytes:
    """Every score: mechanism, game, attack, run, canary, score, member. Holds the coins: for internal use."""
    words, whole = pyarrow.large_string(), pyarrow.int64()
    columns = {"mechanism": words, "game": words, "attack": words, "run": whole, "canary": whole}
    schema = pyarrow.schema({**columns, "score": pyarrow.float64(), "member": pyarrow.bool_()})
    owners = [(result.name, game) for result in report.mechanisms for game in result.games]
    tables = []
    for (mechanism, game), outcome in zip(owners, outcomes, strict=True):
        for scores in outcome.scores:
            runs, rows = game.game.runs, len(scores.values)
            count = rows // runs
            names = [_repeat(name, rows) for name in (mechanism, game.name, scores.attack)]
            places = np.repeat(np.arange(runs), count), np.tile(np.arange(count), runs)
            numbers = map(_column, (*places, scores.values.astype(np.float64), scores.included))
            tables.append(pyarrow.table([*names, *numbers], schema=schema))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.concat_tables(tables or [schema.empty_table()]), buffer)
    return buffer.getvalue()


# columns are given to Arrow by their bytes: `pyarrow.array` imports pandas, which takes half a second
def _repeat(text: str, rows: int) -> pyarrow.Array:
    content = text.encode()
    ends = pyarrow.py_buffer(np.arange(rows + 1, dtype=np.int64) * len(content))
    return pyarrow.Array.from_buffers(pyarrow.large_string(), rows, [None, ends, pyarrow.py_buffer(content * rows)])


def _column(values: Array) -> pyarrow.Array:
    kind = pyarrow.from_numpy_dtype(values.dtype)
    content = np.packbits(values, bitorder="little") if values.dtype == bool else np.ascontiguousarray(values)
    return pyarrow.Array.from_buffers(kind, len(values), [None, pyarrow.py_buffer(content)])


def environment(report: AuditReport, seconds: float) -> bytes:
    """Return what the run ran on and how long it took; kept apart from the report, which must not depend on either."""
    value = {
        "packages": dict(report.provenance.packages),
        "python": report.provenance.python,
        "platform": report.provenance.platform,
        "device": report.provenance.device,
        "threads": report.provenance.threads,
        "cores": os.cpu_count(),
        "seconds": round(seconds, 1),
    }
    return json.dumps(value, indent=1, sort_keys=True).encode()
