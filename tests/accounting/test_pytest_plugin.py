"""Three lines give a maintainer one test per case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.accounting.regression import pytest_plugin
from audit.core.errors import ConfigError

SUITE = """
import pytest

@pytest.mark.accountant("{spec}", {options})
def test_accountant(accountant_case): accountant_case()
"""
MINE = """
from audit.stats.curves.pld import subsampled_gaussian_epsilon

def right(noise_multiplier, sample_rate, steps, delta):
    return subsampled_gaussian_epsilon(noise_multiplier, sample_rate, steps, delta)

def wrong(noise_multiplier, sample_rate, steps, delta):
    return subsampled_gaussian_epsilon(noise_multiplier, sample_rate, 1, delta)

def loose(noise_multiplier, sample_rate, steps, delta):
    return 3 * right(noise_multiplier, sample_rate, steps, delta)

def silent(noise_multiplier, sample_rate, steps, delta):
    from audit.core.errors import UnsupportedMechanism
    raise UnsupportedMechanism("nothing is supported")
"""
CHOICE = 'cases=["grid-q0.01-s1-t1000-d1e-05", "edge-D", "laplace-b1-t1-d1e-05"]'


def run(folder: Path, spec: str, options: str = CHOICE) -> subprocess.CompletedProcess[str]:
    (folder / "my_library.py").write_text(MINE)
    (folder / "test_mine.py").write_text(SUITE.format(spec=spec, options=options))
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {str(root)!r}]; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    arguments = [
        "-p",
        "audit.accounting.regression.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-rs",
        "-q",
        "test_mine.py",
    ]
    # by module name, so that it works whether or not the entry point is installed
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, env=alone, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_right_accountant_passes_and_what_it_lacks_is_skipped(tmp_path: Path) -> None:
    result = run(tmp_path, "my_library:right")
    assert "4 passed, 1 skipped" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 0


def test_a_wrong_accountant_fails_with_the_reason(tmp_path: Path) -> None:
    result = run(tmp_path, "my_library:wrong")
    assert result.returncode == 1 and "2 failed" in result.stdout
    assert "the truth is at least 1.828" in result.stdout and "catches:" in result.stdout
    assert "noise 1.0, rate 0.01, 1,000 steps, delta 1e-05, add_remove, about one example" in result.stdout
    assert "from my_library import wrong" in result.stdout and "print(wrong(1.0, 0.01, 1000, 1e-05))" in result.stdout


@pytest.mark.slow
def test_how_loose_is_too_loose_is_up_to_the_maintainer(tmp_path: Path) -> None:
    assert "4 passed" in run(tmp_path, "my_library:loose").stdout
    result = run(tmp_path, "my_library:loose", f"loosest=1.5, {CHOICE}")
    assert "2 failed" in result.stdout and "more than the 1.5 allowed" in result.stdout


@pytest.mark.slow
def test_an_accountant_that_never_answers_is_not_green(tmp_path: Path) -> None:
    result = run(tmp_path, "my_library:silent")
    assert result.returncode == 1 and "0 of 3 cases were answered" in result.stdout


@pytest.mark.slow
def test_a_misspelled_group_or_case_is_an_error(tmp_path: Path) -> None:
    result = run(tmp_path, "my_library:right", 'groups=["gird"]')
    assert result.returncode != 0 and "the battery has no group 'gird'" in result.stdout + result.stderr
    with pytest.raises(ConfigError, match="no case egde-D"):
        pytest_plugin.list_checks("renyi", cases=["edge-D", "egde-D"])
    with pytest.raises(ConfigError, match="no case has the id"):
        pytest_plugin.list_checks("renyi", skip=["no-such-case"])


def run_program(program: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_project_that_does_not_use_the_plugin_imports_nothing_of_the_suite() -> None:
    program = "import pytest, time, sys; start = time.process_time(); import audit.accounting.regression.pytest_plugin; "
    seconds, modules = run_program(program + "print(time.process_time() - start); print(sorted(sys.modules))")
    heavy = ("numpy", "torch", "scipy", "pandas", "dp_accounting", "yaml", "pydantic")
    assert not [name for name in heavy if f"'{name}'" in modules]
    assert float(seconds) < 0.05


def test_a_function_is_judged_without_the_slow_imports() -> None:
    """`scipy.stats` alone takes a second, a fifth of what the plugin may take from a cold start."""
    used = "import sys, audit.accounting.regression.recognition, audit.accounting.regression.explain; slow = "
    slow = ("scipy.stats", "scipy.fft", "torch", "pandas", "matplotlib", "audit.accounting.accountants.reference")
    assert run_program(f"{used}{slow}; print([name for name in slow if name in sys.modules])") == ["[]"]
