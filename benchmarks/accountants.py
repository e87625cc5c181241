"""How long the oracle takes for a bracket of the ordinary grid, and the battery for one fast accountant.

    python benchmarks/accountants.py [--cases N]

Prints CPU seconds of one process (median, worst), the relative width of the brackets, n and the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time

from audit.accounting import resolve
from audit.accounting.accountants.reference import Reference
from audit.accounting.regression import suite


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=96, help="cases of the ordinary grid to bracket")
    cases = [case for case in suite.load() if case.group == "grid"][: parser.parse_args().cases]
    times, widths = [], []
    for case in cases:
        ask = case.asks[0]
        started = time.process_time()
        low, high = Reference().bracket(ask.event, delta=ask.delta, adjacency=ask.adjacency)
        times.append(time.process_time() - started)
        widths.append((high - low) / high)
    print(f"bracket, ordinary grid, n={len(cases)}: median {statistics.median(times):.3f} s, worst {max(times):.3f} s of CPU")
    print(f"  relative width: median {statistics.median(widths):.1e}, worst {max(widths):.1e}")
    started = time.process_time()
    results = suite.run(resolve.subject("renyi"), suite.load())
    print(f"battery, accountant renyi, n={len(results)}: {time.process_time() - started:.1f} s of CPU")
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
