"""Make an audit a gate of continuous integration: its exit code stops a release, junit.xml says why.

    python examples/ci_gate.py                              # the policy of ci_gate.yaml is met: exit code 0
    python examples/ci_gate.py policy.min_accuracy=0.99     # a gate that is not met: exit code 1

In a pipeline `audit run ci_gate.yaml -o gate` alone does it; publish `gate/junit.xml` as a test report.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

MEANING = {
    0: "nothing refuted and the policy is met: release",
    1: "a claim is refuted or a gate is not met: do not release",
    2: "the config or its data cannot be used",
    3: "the audit could not have shown a violation, or is invalid: this is no evidence for a release",
    4: "an internal error, or an output that could not be written",
}
CONFIG = Path(__file__).with_name("ci_gate.yaml")


def main(overrides: list[str]) -> int:
    """Run the audit with overrides `key=value` of its config, print each judgement, and return the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "gate"
        settings = [word for override in overrides for word in ("--set", override)]
        command = [sys.executable, "-m", "audit", "run", str(CONFIG), "-q", "-o", str(folder), *settings]
        code = subprocess.run(command, check=False).returncode
        if (folder / "junit.xml").exists():
            for case in ElementTree.parse(folder / "junit.xml").iter("testcase"):
                print(f"{state(case):>9}  {case.get('classname')}: {case.get('name')}")
    print(f"exit code {code}: {MEANING[code]}")
    return code


def state(case: ElementTree.Element) -> str:
    """Return how a test case of junit.xml ended."""
    return "failed" if case.find("failure") is not None else "not shown" if case.find("skipped") is not None else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
