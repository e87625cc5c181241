"""Other people's accountants at their newest releases, each run in a separate environment.

Set EPSILON_AUDIT_ENVIRONMENTS to a folder with one environment a library: `python -m venv FOLDER/pfl`, then
`FOLDER/pfl/bin/pip install pfl`. What an environment lacks is taken from this one, if both are of one version of Python.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from accountant_answers import collect

from audit.accounting import resolve
from audit.accounting.regression import suite
from audit.accounting.regression.suite import CaseAnswer, CaseFinding

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "evidence" / "accountants"
FOLDER = os.environ.get("EPSILON_AUDIT_ENVIRONMENTS", "")
SHARE = 15  # one case in so many
LIBRARIES = {
    "prv_accountant": "prv-accountant",
    "autodp_rdp": "autodp",
    "jax_privacy,accountant=rdp": "jax-privacy",
    "dp_accelerator": "dp-accelerator",
    "opendp_maps": "opendp",
    "opake": "opake",
    "pfl": "pfl",
    "pfl,accountant=prv": "pfl",
    "pfl,accountant=rdp": "pfl",
    "pipeline_dp": "pipeline-dp",
    "pipeline_dp,accountant=naive": "pipeline-dp",
    "tumult": "tmlt.core",
    "diffprivlib_budget": "diffprivlib",
}
KNOWN = {
    "pfl": {"published-bert", "gaussian-s0.3-t30-d1e-10", "delta-wide-d1e-10"},  # dp-accounting's PLD
    "pfl,accountant=prv": {  # an estimate; and of Laplace noise as docs/evidence/findings/pfl-0.6.0.md says
        "grid-q0.001-s0.6-t100-d1e-05",
        "gaussian-classical-0.5",
        "laplace-b1-t10-d1e-09",
        "free-q0.5-s100-d0.5",
        "tiny-laplace-b1e-05",
    },
}
"""Cases at which libraries without kept answers are known to be wrong."""
ASK = """
import json, sys, sysconfig
root, site, spec, share = sys.argv[1:]
sys.path.insert(0, root)
if f"python{sys.version_info[0]}.{sys.version_info[1]}" in site:
    sys.path.append(site)
from audit.accounting import resolve
from audit.accounting.regression import suite
accountant, rows = resolve.subject(spec), {}
for case in [case for case in suite.load_checked() if case.kind == "bracket"][:: int(share)]:
    answer = suite.ask(accountant, case, seconds=3)
    rows[case.id] = [list(answer.epsilons), answer.failure, answer.message[:300]]
print("ANSWERS" + json.dumps(rows))
"""


def ask(spec: str) -> dict[str, Any]:
    """Return the answers of a library by case, or skip if its environment is not there."""
    python = Path(FOLDER) / LIBRARIES[spec] / "bin" / "python"
    if not FOLDER or not python.exists():
        pytest.skip(f"{LIBRARIES[spec]} has no environment: EPSILON_AUDIT_ENVIRONMENTS is {FOLDER or 'not set'}")
    site = sysconfig.get_paths()["purelib"]
    run = subprocess.run(
        [python, "-c", ASK, str(ROOT), site, spec, str(SHARE)], capture_output=True, text=True, timeout=900, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return json.loads(run.stdout.rpartition("ANSWERS")[2])  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("spec", LIBRARIES)
def test_a_newest_release_is_right_wherever_the_kept_one_was(spec: str) -> None:
    cases = {case.id: case for case in suite.load_checked()}
    side = resolve.find_side(resolve.subject(spec))
    answers = {
        name: CaseAnswer(epsilons=tuple(map(float, epsilons)), failure=failure, message=message)
        for name, (epsilons, failure, message) in ask(spec).items()
    }
    settled = {name: suite.settle(cases[name], answer, side) for name, answer in answers.items()}
    recorded = collect(spec, spec, KEPT, seconds=10, ask=False).results
    known = {row.case.id for row in recorded if row.finding is CaseFinding.WRONG} | KNOWN.get(spec, set())
    wrong = {name: row.message for name, row in settled.items() if row.finding is CaseFinding.WRONG and name not in known}
    assert wrong == {} and sum(row.finding in (CaseFinding.EXACT, CaseFinding.LOOSE) for row in settled.values()) > 2
