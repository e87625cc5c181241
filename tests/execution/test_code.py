"""The digest of a run's code covers all that a run executes: this project whole, and users' code that a config names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from audit.execution import code
from tests.tiny import CONFIG

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (
    "import sys, json; from audit.execution import code; print(json.dumps(code.sources(code.foreign_modules(sys.argv[1:]))))"
)


def sources(place: Path, *names: str, root: Path = ROOT) -> dict[str, str]:
    """Digests in their own process, with `place` on the import path."""
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(place)])}
    line = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(line, capture_output=True, text=True, env=paths, check=True, cwd=place)
    result: dict[str, str] = json.loads(done.stdout)
    return result


def test_every_source_of_the_project_counts(tmp_path: Path) -> None:
    digested = {path.resolve() for name in ("audit", "attacks") for path in code._files(name)}
    for needed in (
        "audit/engine/compiled/chain_sums.c",
        "attacks/signals/_hop_skip_jump.py",
        "attacks/signals/_queries.py",
    ):
        assert ROOT / needed in digested
    for needed in ("audit/stats/scoring/signals.py", "audit/experiment/games/job_specs.py"):
        assert ROOT / needed in digested
    assert digested == {
        path for name in ("audit", "attacks") for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".c", ".h")
    }


@pytest.mark.slow
def test_what_a_named_object_reaches_counts(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text("import helper, json\ndef fit(): return helper.rate\n")
    (tmp_path / "helper.py").write_text("from package.inner import rate\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text("rate = 1\n")
    (tmp_path / "package" / "kernel.c").write_text("int one(void) { return 1; }\n")
    (tmp_path / "beside.py").write_text("raise RuntimeError('never loaded')\n")
    first = sources(tmp_path, "loop:fit")
    assert set(first) == {code.OWN, "loop"}
    (tmp_path / "beside.py").write_text("changed = True\n")
    assert sources(tmp_path, "loop:fit") == first
    for path in (
        tmp_path / "loop.py",
        tmp_path / "helper.py",
        tmp_path / "package" / "inner.py",
        tmp_path / "package" / "kernel.c",
    ):
        before = path.read_text()
        path.write_text(before + " \n")
        changed = sources(tmp_path, "loop:fit")
        assert changed["loop"] != first["loop"], path.name
        assert changed[code.OWN] == first[code.OWN]
        path.write_text(before)
    assert sources(tmp_path, "loop:fit") == first


def test_a_project_edited_in_place_is_another_code(tmp_path: Path) -> None:
    for name in ("audit", "attacks"):
        for path in code._files(name):
            copy = tmp_path / path.resolve().relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    first = sources(tmp_path, root=tmp_path)
    chain = tmp_path / "audit/engine/compiled/chain_sums.c"
    chain.write_bytes(chain.read_bytes() + b"\n")
    assert sources(tmp_path, root=tmp_path) != first


@pytest.mark.parametrize("value", ["a title: with words", "paper:Table2", "12:30", "audit.trainers.sgd:Sgd", "loss", 3, None])
def test_other_texts_name_no_code(value: object) -> None:
    assert code.foreign_modules({"a": [value]}) == ()


LOOP = """
import os, pathlib, torch

RATE = 0.1

def fit(module, inputs, labels, *, seed):
    place = pathlib.Path(os.environ["COUNT"])
    place.write_text(place.read_text() + ".")
    if len(place.read_text()) == 4:
        os.kill(os.getpid(), 9)
    optimizer = torch.optim.SGD(module.parameters(), lr=RATE)
    torch.nn.functional.cross_entropy(module(inputs), labels.long()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.slow
def test_a_resume_with_edited_training_code_is_refused(tmp_path: Path, edited: bool) -> None:
    (tmp_path / "tiny.yaml").write_text(CONFIG)
    (tmp_path / "loop.py").write_text(LOOP)
    (tmp_path / "count").write_text("")
    changes = [
        "mechanisms=[{name: plain, kind: non_private, trainer: {kind: user_function, function: 'loop:fit'}}]",
        "games=[{name: outside, canaries: mislabelled, count: 20, runs: 6, scorers: [loss], estimators: [one_run]}]",
    ]
    paths = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "COUNT": str(tmp_path / "count")}
    line = [sys.executable, "-m", "audit", "run", str(tmp_path / "tiny.yaml"), "-q", "-o", str(tmp_path / "run")]
    line += [word for change in changes for word in ("--set", change)]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*line, *more], capture_output=True, text=True, env=paths, check=False, timeout=120)

    assert run().returncode == -9
    retained = {path.name for path in (tmp_path / "run.partial" / "models").iterdir()}
    assert len(retained) == 1
    if edited:
        (tmp_path / "loop.py").write_text(LOOP.replace("RATE = 0.1", "RATE = 0.2"))
    done = run("--resume")
    if edited:
        assert done.returncode == 2
        assert "the source of loop has changed" in done.stderr
        assert {path.name for path in (tmp_path / "run.partial" / "models").iterdir()} == retained
    else:
        assert done.returncode == 0, done.stderr
