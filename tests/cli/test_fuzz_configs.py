"""Random configs, honest and hostile: an exit code by the kind of error, a message, an end, and never a traceback."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from audit import plugins
from audit.cli.app import answer
from tests.cli.alarm import limited
from tests.marks import sample
from tests.tiny import CONFIG

SECONDS = 180  # of one case on a busy machine; an honest one with a large model takes some ten
HOSTILE = (
    *("0", "-1", "1", "2", "1e300", "-1e-300", "1e12", "1000000000000", "3.5", ".inf", "-.inf", ".nan", "null", "true", "''"),
    *(
        "[]",
        "{}",
        "[1, a]",
        "{a: b}",
        "[[]]",
        "a",
        "'\\0'",
        '"\\u202e"',
        "'../x'",
        "'os:system'",
        "'json:loads'",
        "{kind: null}",
    ),
    *("{kind: 7}", "'9999999999999999999999'", "99999999999999999999999999", "!!python/object:os.system", "*a", "~", "'a:b:c'"),
)
SCALARS = {
    "delta": ("1e-5", "0.1", "1e-300"),
    "confidence": ("0.95", "0.01", "0.999999"),
    "certificates": ("0", "20"),
    "seed": ("0", "7"),
    "data.train": ("50", "200"),
    "training.batch_size": ("1", "50", "200"),
    "training.learning_rate": ("0.5", "1e30"),
    "training.steps": ("1", "12"),
    "training.schedule": ("cosine", "linear"),
    "execution.models_per_job": ("1", "3"),
    "games.outside.count": ("1", "20", "200"),
    "games.outside.runs": ("1", "2", "60"),
    "games.outside.references": ("0", "1", "4", "8"),
    "games.outside.inclusion_probability": ("0.5", "0.01", "0.99"),
    "games.outside.access": ("label_only", "final_model", "final_weights", "all_steps"),
    "games.outside.adjacency": ("add_remove", "replace_one", "zero_out"),
    "games.outside.stopping": ("never", "first_proof"),
    "games.inside.count": ("1", "60", "610"),
    "policy.max_claimed_epsilon": ("8",),
    "title": ("x", "手写", "'a\\nb'"),
    "output.formats": ("[json]", "[]"),
    "mechanisms.dp.noise_multiplier": ("0", "0.01", "1e6"),
    "mechanisms.dp.target_epsilon": ("1", "1e12", "1e-9"),
    "mechanisms.dp.claim": ("{epsilon: 1}", "{epsilon: 1, family: gdp}"),
}
LISTS = {
    "games.outside.scorers": "scorers",
    "games.inside.scorers": "scorers",
    "games.outside.estimators": "estimators",
    "games.inside.estimators": "estimators",
}
KINDS = {
    "games.outside.canaries": "canaries",
    "games.inside.canaries": "canaries",
    "model": "models",
    "data": "readers",
    "training.optimizer": "optimizers",
    "mechanisms.dp.trainer": "trainers",
    "mechanisms.dp.kind": "mechanisms",
    "execution.kind": "executors",
}


def changes(draw: random.Random) -> list[str]:
    """One to five changes of a small config, each honest four times out of five."""
    every = [*SCALARS, *LISTS, *KINDS]
    parts = []
    for key in draw.sample(every, draw.randint(1, 5)):
        if draw.random() < 0.2:
            value = draw.choice(HOSTILE)
        elif key in SCALARS:
            value = draw.choice(SCALARS[key])
        else:
            names = plugins.names(plugins.FOLDERS[{**LISTS, **KINDS}[key]])
            count = draw.randint(1, 3) if key in LISTS else 1
            value = f"[{', '.join(draw.sample(names, min(count, len(names))))}]" if key in LISTS else draw.choice(names)
        parts.append(f"{key}={value}")
    return parts


def keeps_its_word(words: list[str], codes: tuple[int, ...], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code of a command that ends in time with one of the codes, a message if it refuses, and no traceback."""
    with limited(SECONDS):
        code = answer(words)
    message = capsys.readouterr().err
    assert code in codes, f"exit {code} of {words}: {message}"
    assert "Traceback" not in message and "internal error" not in message, f"{words}: {message}"
    assert code != 2 or message.strip(), f"{words} is refused without a word"
    return code


def dry(config: Path, seed: int, capsys: pytest.CaptureFixture[str]) -> int:
    provided = [word for change in changes(random.Random(seed)) for word in ("--set", change)]
    return keeps_its_word(["run", str(config), "--dry-run", *provided], (0, 2), capsys)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    return path


@pytest.mark.slow
def test_a_few_random_configs(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {dry(config, seed, capsys) for seed in range(30)} == {0, 2}


@pytest.mark.parametrize("block", sample(((block,) for block in range(10)), 3))
def test_random_configs(config: Path, capsys: pytest.CaptureFixture[str], block: int) -> None:
    for seed in range(1000 + 34 * block, 1000 + 34 * (block + 1)):
        dry(config, seed, capsys)


@pytest.mark.parametrize("seed", sample(((seed,) for seed in range(2000, 2012)), 2))
def test_random_configs_are_run(config: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    if dry(config, seed, capsys) == 0:
        provided = [word for change in changes(random.Random(seed)) for word in ("--set", change)]
        keeps_its_word(["run", str(config), "-q", "-o", str(config.parent / "run"), *provided], (0, 1, 2, 3), capsys)
