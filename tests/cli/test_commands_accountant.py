"""`audit accountant`: figures on stdout, exit code 1 on a wrong accountant, files whole."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from audit.accounting.regression import files
from audit.cli.accountant import app
from audit.cli.app import answer
from audit.core.errors import ConfigError, DataError
from audit.core.rounding import down, up

RUNNER = CliRunner()
FEW = ["--case", "grid-q0.01-s1-t1000-d1e-05", "--case", "steps-1e0", "--case", "laplace-b1-t1-d1e-05"]


def invoke(*arguments: str) -> tuple[int, str]:
    result = RUNNER.invoke(app, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value or 0), result.stdout


@pytest.mark.slow
def test_epsilon_by_all_accountants_beside_the_truth() -> None:
    code, out = invoke("epsilon", "--noise", "1", "--rate", "0.01", "--steps", "1000", "--json")
    result = json.loads(out)
    claims = {row["accountant"]: row["epsilon"] for row in result["claims"]}
    assert code == 0 and result["truth"][0] < 1.8283 < result["truth"][1] + 1e-3
    assert claims["pld"] < claims["rdp"] < claims["rdp_classic"]
    _, text = invoke("epsilon", "--noise", "1", "--rate", "0.01", "--steps", "1000")
    assert "1.8284" in text and "reference" in text


@pytest.mark.slow
def test_noise_and_steps_are_inverse_to_epsilon() -> None:
    _, out = invoke("noise", "--target-epsilon", "2", "--rate", "0.01", "--steps", "500", "-a", "rdp", "--json")
    noise = json.loads(out)["noise"][0]
    assert noise["epsilon"] <= 2 and noise["noise_multiplier"] == pytest.approx(0.88, abs=0.15)
    _, out = invoke("steps", "--target-epsilon", "2", "--noise", "1", "--rate", "0.01", "--done", "100", "-a", "rdp", "--json")
    steps = json.loads(out)["steps"][0]
    assert steps["left"] == steps["steps"] - 100 > 500
    _, out = invoke("epsilon", "--noise", "1", "--rate", "0.01", "--steps", str(steps["steps"]), "-a", "rdp", "--json")
    assert json.loads(out)["claims"][0]["epsilon"] <= 2
    _, out = invoke("epsilon", "--noise", "1", "--rate", "0.01", "--steps", str(steps["steps"] + 1), "-a", "rdp", "--json")
    assert json.loads(out)["claims"][0]["epsilon"] > 2


@pytest.mark.slow
def test_figures_are_written(tmp_path: Path) -> None:
    file = tmp_path / "epsilon.svg"
    invoke("epsilon", "--noise", "1", "--rate", "0.1", "--steps", "50", "-a", "rdp", "--plot", str(file), "--over", "steps")
    assert file.read_text().lstrip().startswith("<?xml")
    picture = tmp_path / "check.png"
    invoke("check", "-a", "renyi", *FEW, "--plot", str(picture))
    assert picture.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ConfigError, match="svg"):
        invoke("epsilon", "--noise", "1", "--rate", "0.1", "--steps", "50", "-a", "rdp", "--plot", str(tmp_path / "x.gif"))


def test_check_answers_with_exit_codes_and_files(tmp_path: Path) -> None:
    junit = tmp_path / "found.xml"
    code, out = invoke("check", "-a", "renyi", *FEW, "--junit", str(junit), "--json")
    result = json.loads(out)
    assert code == 0 == result["exit_code"] and result["accountants"]["renyi"]["counts"]["WRONG"] == 0
    suite = ElementTree.fromstring(junit.read_bytes())[0]
    assert suite.get("tests") == "3" and suite.get("failures") == "0" and suite.get("skipped") == "1"


def test_check_fails_on_a_users_wrong_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "forgetful_accountant.py").write_text(
        "from audit.stats.curves.pld import subsampled_gaussian_epsilon\n"
        "def epsilon(n, q, t, d): return subsampled_gaussian_epsilon(n, q, 1, d)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    junit = tmp_path / "found.xml"
    code, out = invoke("check", "-a", "forgetful_accountant:epsilon", *FEW, "--junit", str(junit))
    assert code == 1 and "WRONG 1" in out and "the truth is at least 1.82" in out
    assert "failure" in junit.read_text()


@pytest.mark.slow
def test_a_figure_that_changed_since_it_was_recorded_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from audit.stats.curves.pld import subsampled_gaussian_epsilon as exact\n"
    for name, factor in (("kept", 1.001), ("changed", 1.00101)):
        text += f"def {name}(n, q, t, d): return exact(n, q, t, d) * {factor}\n"
    (tmp_path / "accountant_of_today.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    record, junit = tmp_path / "answers.json", tmp_path / "found.xml"
    checked = ("check", "-a", "accountant_of_today:kept", *FEW)
    assert invoke(*checked, "--record", str(record))[0] == 0 and invoke(*checked, "--against", str(record))[0] == 0
    record.write_text(record.read_text().replace(":kept", ":changed"))  # the same name, another version
    changed = ("check", "-a", "accountant_of_today:changed", *FEW, "--against", str(record))
    code, out = invoke(*changed, "--junit", str(junit))
    assert code == 1 and "WRONG 2" in out and "was recorded" in out and "change-steps-1e0" in junit.read_text()
    assert invoke(*changed, "--tolerance", "1e-4")[0] == 0
    with pytest.raises(DataError, match="holds no figures of 'accountant_of_today:kept'"):
        invoke(*checked, "--against", str(record))


def test_a_file_of_the_working_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "accountant_from_here.py").write_text("def epsilon(n, q, t, d): return float('inf')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out = invoke("check", "-a", "accountant_from_here:epsilon", "--case", "edge-D")
    assert code == 6 and "LOOSE 1" in out and "answered with neither 0 nor infinity: 0 brackets, 1 required" in out


@pytest.mark.parametrize("choice", [("--case", "replace-is-double-1"), ("--nonsense", "--case", "refuse-noise-nan")])
def test_a_check_that_asks_no_bracket_says_so_and_does_not_pass(choice: tuple[str, ...]) -> None:
    code, out = invoke("check", "-a", "renyi", *choice)
    assert code == 6 and "EXACT 1" in out and "answered with neither 0 nor infinity: 0 brackets, 1 required" in out


def test_sides_are_rounded_each_its_own_way_and_an_estimate_keeps_no_budget() -> None:
    noisy = ("--noise", "1", "--rate", "0.01")
    _, out = invoke("epsilon", *noisy, "--steps", "1000", "-a", "pld,pessimistic=false", "-a", "gaussian_clt", "--json")
    assert [row["side"] for row in json.loads(out)["claims"]] == ["lower", "estimate"]
    _, out = invoke("steps", *noisy, "--target-epsilon", "2", "-a", "gaussian_clt", "-a", "rdp", "--json")
    notes = [row["note"] for row in json.loads(out)["steps"]]
    assert "the budget may be exceeded" in notes[0] and notes[1] == ""


def test_ls_tells_who_answers_for_a_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["ls", "accountants", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {"reference", "pld", "renyi", "composition_theorems"} <= set(result["claims"])
    assert {"opacus_prv", "jax_privacy", "gaussian_clt"} <= set(result["subjects"])


def test_bad_usage() -> None:
    with pytest.raises(ConfigError, match="no case"):
        invoke("check", "--case", "there-is-no-such-case")
    with pytest.raises(ConfigError, match="no group 'gird'"):
        invoke("check", "--group", "gird")
    with pytest.raises(ConfigError, match="cannot be skipped"):
        invoke("check", "--skip", "grdi-q0.01")
    with pytest.raises(ConfigError, match="adjacency"):
        invoke("epsilon", "--noise", "1", "--rate", "0.1", "--steps", "5", "--adjacency", "sideways")
    with pytest.raises(ConfigError, match="noise_multiplier"):
        invoke("epsilon", "--noise", "-1", "--rate", "0.1", "--steps", "5")


PRETENDERS = """
from audit.stats.curves.pld import subsampled_gaussian_epsilon
from audit.core.claims import Claim

def raises(n, q, t, d): raise RuntimeError("broken import")
def two(n, q): return 1.0
def none(n, q, t, d): return None
def unchecked(n, q, t, d): return 1e9 if n != n else subsampled_gaussian_epsilon(n, q, t, d)
def slightly(n, q, t, d): return subsampled_gaussian_epsilon(n, q, t, d) * .9 if t == 1000 else 1e9

class Lower:
    side = "lower"
    def claim(self, mechanism, *, delta, adjacency):
        return Claim(epsilon=0.0, delta=delta, adjacency=adjacency, source="nothing")
"""
NONSENSE = ["--case", "refuse-noise-nan"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "code"), [("raises", 6), ("two", 6), ("none", 6), ("Lower", 6), ("unchecked", 5), ("slightly", 1)]
)
def test_exit_codes_tell_defects_missing_checks_and_silence_apart(
    name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pretending_accountants.py").write_text(PRETENDERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert invoke("check", "-a", f"pretending_accountants:{name}", *FEW, *NONSENSE)[0] == code


@pytest.mark.slow
def test_accepted_findings_pass_and_new_ones_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pretending_accountants.py").write_text(PRETENDERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    mine, file = ("check", "-a", "pretending_accountants:slightly"), tmp_path / "accepted.json"
    assert invoke(*mine, *FEW, "--write-baseline", str(file))[0] == 1
    code, out = invoke(*mine, *FEW, "--baseline", str(file))
    assert code == 0 and "1 finding of the baseline" in out
    assert invoke(*mine, *FEW, "--case", "edge-D", "--baseline", str(file))[0] == 1
    assert invoke(*mine, *FEW, "--skip", "grid-q0.01-s1-t1000-d1e-05")[0] == 0
    assert invoke(*mine, *FEW, "--require", "2", "--baseline", str(file))[0] in (0, 6)
    file.write_text("[]")
    with pytest.raises(DataError, match="is not a baseline"):
        invoke(*mine, *FEW, "--baseline", str(file))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("steps", "--target-epsilon", "2", "--noise", "1", "--rate", "0.01", "--done", "-5"), "--done is -5"),
        (("steps", "--target-epsilon", "2", "--noise", "1", "--rate", "0"), "--rate is 0"),
        (("steps", "--target-epsilon", "0", "--noise", "1", "--rate", "0.01"), "--target-epsilon is 0"),
        (("noise", "--target-epsilon", "-1", "--rate", "0.01", "--steps", "10"), "--target-epsilon is -1"),
        (("noise", "--target-epsilon", "1", "--rate", "1.5", "--steps", "10"), "--rate is 1.5"),
    ],
)
def test_targets_that_mean_nothing_are_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        invoke(*arguments)


@pytest.mark.slow
def test_any_event_with_its_curve_and_what_if(tmp_path: Path) -> None:
    table, figure, page = tmp_path / "curve.csv", tmp_path / "curve.svg", tmp_path / "costs.html"
    words = ("epsilon", "Gaussian(5.0)", "-a", "rdp", "--csv", str(table), "--plot", str(figure), "--page", str(page))
    code, out = invoke(*words, "--what-if", "noise=1,x2", "--json")
    result = json.loads(out)
    assert code == 0 and result["event"]["kind"] == "Gaussian"
    assert [row["changes"] for row in result["what_if"]] == [["noise 1"], ["noise x2"]]
    assert result["what_if"][0]["upper"] > result["truth"][1] > result["what_if"][1]["upper"]
    lines = table.read_text().splitlines()
    assert lines[0] == "delta,truth_at_least,truth_at_most,rdp" and len(lines) == 20
    assert figure.read_text().lstrip().startswith("<?xml")
    text = page.read_text()
    assert text.startswith("<!doctype html>") and text.count("<table>") == 3 and text.count("<svg") == 1
    for row in (result["claims"][0]["epsilon"], result["what_if"][0]["claims"]["rdp"], result["what_if"][1]["claims"]["rdp"]):
        assert f">{up(row, 4)}<" in text
    assert f"between {down(result['truth'][0], 4)} and {up(result['truth'][1], 4)}" in text and "Gaussian" in text
    assert 'src="http' not in text and 'href="http' not in text


@pytest.mark.parametrize("option", ["--page", "--csv", "--plot"])
def test_the_file_that_is_read_is_not_overwritten(tmp_path: Path, option: str) -> None:
    event, link = tmp_path / "event.txt", tmp_path / "link.svg"
    event.write_text("Gaussian(1.0)")
    link.hardlink_to(event)
    for target in (event, link):
        with pytest.raises(ConfigError, match=f"{option} .* is the file that is read"):
            invoke("epsilon", str(event), option, str(target))
    assert event.read_text() == "Gaussian(1.0)"


def test_a_page_is_written_through_no_link_and_may_be_read_by_others(tmp_path: Path) -> None:
    peer, target = tmp_path / "letter", tmp_path / "folder" / "epsilon.csv"
    peer.write_text("a letter")
    target.parent.mkdir()
    target.with_name("epsilon.csv.tmp").symlink_to(peer)
    files.write(target, b"delta\n")
    umask = os.umask(0)
    os.umask(umask)
    assert peer.read_text() == "a letter" and target.read_bytes() == b"delta\n"
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.slow
def test_phases_groups_and_delta() -> None:
    _, out = invoke("epsilon", "--phase", "1,0.01,100", "--phase", "2,0.01,50", "-a", "renyi", "--json")
    single = json.loads(out)["truth"]
    _, out = invoke("epsilon", "--phase", "1,0.01,100", "--phase", "2,0.01,50", "-a", "renyi", "--group-size", "2", "--json")
    assert json.loads(out)["truth"][0] > single[1]
    _, out = invoke("delta", "Laplace(1.0)", "--epsilon", "0.5", "--json", "-a", "reference")
    low, high = json.loads(out)["truth"]
    assert low <= 1 - 2.718281828459045 ** (-0.25) <= high <= 1.01 * low
    _, out = invoke("noise", "2 * Gaussian(1)", "--target-epsilon", "2", "-a", "reference", "--json")
    assert json.loads(out)["noise"][0]["factor"] > 2
    _, out = invoke("steps", "20 * Gaussian(10)", "--target-epsilon", "2", "-a", "reference", "--json")
    assert json.loads(out)["steps"][0]["steps"] >= 20
    with pytest.raises(ConfigError, match="expected one of these"):
        invoke("epsilon", "Gaussian(1)", "--noise", "1")
    with pytest.raises(ConfigError, match=r"an EVENT, or --rate and --steps; expected one of these, here are 0"):
        invoke("noise", "--target-epsilon", "1")
    with pytest.raises(ConfigError, match=r"--steps missing: DP-SGD needs --rate and --steps$"):
        invoke("noise", "--target-epsilon", "1", "--rate", "0.1")
    with pytest.raises(ConfigError, match=r"an EVENT, or --noise and --rate; expected one of these, here are 2"):
        invoke("steps", "Gaussian(1)", "--noise", "1", "--target-epsilon", "1")
    with pytest.raises(ConfigError, match="--steps missing"):
        invoke("epsilon", "--noise", "1", "--rate", "0.1")
    with pytest.raises(ConfigError, match="--what-if"):
        invoke("epsilon", "Gaussian(1)", "--what-if", "noise")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["--epsilon", "--target-epsilon"])
@pytest.mark.parametrize("command", ["delta", "noise", "steps"])
def test_a_budget_has_one_name_in_every_command(command: str, name: str) -> None:
    numbers = {"--noise": "1", "--rate": "0.1", "--steps": "10"}
    numbers.pop(f"--{command}", None)
    words = [word for pair in numbers.items() for word in pair]
    _, out = invoke(command, name, "2", *words, "-a", "rdp", "--json")
    assert 2.0 in (json.loads(out).get("epsilon"), json.loads(out).get("target_epsilon"))


def test_an_event_without_its_values_says_which_it_takes() -> None:
    with pytest.raises(ConfigError, match="MatrixFactorization takes noise_multiplier, coefficients, steps"):
        invoke("epsilon", "MatrixFactorization")
