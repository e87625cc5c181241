"""Code of the user's own that ends the program, prints, takes other arguments or returns what no one can read: exit 2."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from audit.cli.app import answer
from tests.tiny import CONFIG

MODULE = """
import sys
import numpy as np

def ends(data, rng, size): sys.exit(0)
def panics(data, rng, size): raise GeneratorExit
def colours(data, rng, size): raise ValueError("\\x1b[31mgreen")
def prints(data, rng, size): print("verdict: private"); return rng.normal(size=size)
def takes_nothing(): return 1
def nested(data, rng):
    whole = []
    whole.append(whole)
    return whole
def dates(data, rng, size): return np.array(["2020-01-01"] * size, dtype="datetime64[D]")
def wide(data, rng, size): return np.zeros((size, 20_000))
def turns(data, rng, size): return rng.normal(size=size) + 1j * data.sum()
PAIRS = [(np.zeros(3), np.ones(3))]
def pairs(): return PAIRS
NUMBER, TEXTS, SINGLES = 5, ["ab"], [(1,)]

class Bare:
    def score(self, target, reference, seed): return None
class Mute:
    @property
    def needs(self):
        from attacks.signals.logits import Losses
        from audit.core.protocols import Needs
        return Needs(signals={Losses()})
class Wordy(Mute):
    def score(self, target, reference, seed): return "abc"
"""
RECORDS = ("--epsilon", "1", "--neighbours", "records", "--samples", "600")
OWN = ("--epsilon", "1", "--samples", "600", "--pairs")
STEP = ("--sample", "s.npz", "--noise-multiplier", "1", "--clip-norm", "1", "--divisor", "8")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "brought.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def read_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """What a command prints on stderr that ends with this exit code; nothing in it moves a terminal or blames this project."""
    assert answer(list(words)) == code
    streams = capsys.readouterr()
    assert "\x1b" not in streams.out + streams.err and "internal error" not in streams.err
    return streams.err


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mechanism", "brought:ends", *RECORDS), "brought.py, line 5 asked the program to end (exit code 0)"),
        (("mechanism", "brought:panics", *RECORDS), "GeneratorExit"),
        (("mechanism", "brought:colours", *RECORDS), "\\x1b[31mgreen"),
        (("mechanism", "brought:takes_nothing", *RECORDS), "cannot be called: too many positional arguments"),
        (("mechanism", "brought:nested", *RECORDS), "more than 50 deep"),
        (("mechanism", "brought:dates", *RECORDS), "returned a date"),
        (("mechanism", "brought:wide", *RECORDS), "holds 20000 numbers"),
        (("mechanism", "brought:prints", *RECORDS, "--high", "inf"), "expected finite numbers"),
        (("mechanism", "brought:prints", *OWN, "brought:NUMBER"), "pairs is a int"),
        (("mechanism", "brought:prints", *OWN, "brought:TEXTS"), "pair 0 is a str of 2"),
        (("mechanism", "brought:prints", *OWN, "brought:SINGLES"), "pair 0 is a tuple of 1"),
        (("mechanism", "brought:prints", *OWN, "brought:ends"), "cannot be called without arguments"),
        (("mechanism", ":prints", *RECORDS), "names no module"),
        (("mechanism", "../brought:prints", *RECORDS), "names no module"),
        (("step", "brought:ends", *STEP, "--params", "brought:ends"), "cannot be called without arguments"),
        (("step", "brought:ends", *STEP, "--params", "pipe"), "it is a pipe or a device"),
        (("step", "brought:ends", *STEP, "--params", "brought.py"), "not an npz file"),
        (("attack", "compare", "none.npz"), r"included has shape (0, 0)"),
        (("attack", "compare", "models.npz", "--scorer", ":x"), "names no module"),
        (
            ("attack", "compare", "models.npz", "--scorer", "brought:Bare"),
            "as an attack: it has 'needs' of type NoneType",
        ),
        (("attack", "compare", "models.npz", "--scorer", "brought:Mute"), "no method 'score'"),
        (("attack", "compare", "models.npz", "--scorer", "brought:Wordy"), "Wordy gives scores of type <U3"),
        (("flower", "brought:ends"), "cannot be called without arguments"),
    ],
)
def test_code_that_is_no_such_code_is_named(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe")
    np.savez("s.npz", x=np.zeros((8, 2)), y=np.zeros(8, int))
    np.savez("models.npz", included=np.eye(4, 9) > 0, losses=np.zeros((4, 9)))
    np.savez("none.npz", included=np.zeros((0, 0), bool), losses=np.zeros((0, 0)))
    assert message in read_error(words, capsys)


def test_what_such_code_prints_is_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["mechanism", "brought:prints", *RECORDS, "--json"]) == 0
    streams = capsys.readouterr()
    assert json.loads(streams.out)["outcome"] == "consistent" and "verdict: private" in streams.err


def test_pairs_may_come_from_a_function_and_outputs_be_complex(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["mechanism", "brought:turns", *OWN, "brought:pairs"]) == 1, "the imaginary part gives the data away"
    assert "violated" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serial", "processes"])
def test_a_training_that_ends_the_program_is_no_finished_audit(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(f"leaves_{kind}.py").write_text("import sys\ndef train(*arguments, **options): sys.exit(0)\n")
    Path("tiny.yaml").write_text(CONFIG)
    games = "games=[{name: g, canaries: mislabelled, count: 20, scorers: [loss], estimators: [one_run]}]"
    trainer = "mechanisms=[{name: own, kind: non_private, trainer: {kind: user_function, function: 'leaves_%s:train'}}]"
    changes = [word for text in (games, trainer % kind, f"execution={{kind: {kind}}}") for word in ("--set", text)]
    assert "asked the program to end (exit code 0)" in read_error(("run", "tiny.yaml", "-q", "-o", "run", *changes), capsys)


def test_a_package_that_their_module_lacks_is_named_with_what_to_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "needs_more.py").write_text("import no_such_package.part\n")
    assert answer(["mechanism", "needs_more:count", *RECORDS]) == 2
    message = capsys.readouterr().err
    assert "needs_more.py, line 1: ModuleNotFoundError" in message and "Install what brings 'no_such_package'" in message
    assert "expected 'package.module:object'" not in message, "the module is on the import path"
    assert answer(["mechanism", "no_such_module:count", *RECORDS]) == 2
    message = capsys.readouterr().err
    assert "expected 'package.module:object' on the import path" in message and "Install" not in message
