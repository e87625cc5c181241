"""Compute again what is proven about every case of a battery file, and write it into the file.

python benchmarks/accountant_battery.py audit/accounting/regression/cases.json
"""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import files
from audit.accounting.regression.suite import load, make_case, read_document
from audit.core.event_forms import plain


def refresh(path: Path, *, progress: Callable[[str], None] | None = None) -> int:
    """Compute what is proven about every case of a battery file again and write the file; return the number of cases.

    Raises:
        DataError: it is no battery.
        OutputError: it cannot be written; it stays as it was.
    """
    load(path)
    document = read_document(path)
    for entry in document["cases"]:
        if entry["kind"] == "refusal":
            continue
        case = make_case({**entry, "lower": 0.0, "upper": "inf"})
        oracle = Reference(tolerance=case.precision)
        ends = [oracle.bracket(ask.event, delta=ask.delta, adjacency=ask.adjacency) for ask in case.asks]
        if entry["kind"] == "relation":
            entry["floors"] = [outwards(low, -1) for low, _ in ends]
        else:
            entry["lower"], entry["upper"] = outwards(ends[0][0], -1), outwards(ends[0][1], 1)
        if progress is not None:
            progress(f"{entry['id']}: {', '.join(f'[{low:.8g}, {high:.8g}]' for low, high in ends)}")
    files.write(path, (json.dumps(document, indent=1) + "\n").encode())
    return len(document["cases"])


def outwards(value: float, side: int) -> Any:
    """Return ten digits, rounded down (`side` -1) or up, as JSON."""
    if not math.isfinite(value):
        return plain(value)
    rounding = float(f"{value:.10g}")
    return rounding if (rounding - value) * side >= 0 else float(f"{value * (1 + side * 1e-9):.10g}")


if __name__ == "__main__":
    print(f"{refresh(Path(sys.argv[1]), progress=lambda line: print(line, file=sys.stderr))} cases")
