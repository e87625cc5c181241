"""Each door takes the same five mistakes: none passes without a word."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import audit
from attacks.signals.logits import Losses
from audit.cli.app import answer
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError
from audit.core.protocols import Needs
from audit.core.results import AuditReport
from audit.core.seeds import Seed
from audit.core.views import View
from audit.endpoint import canary_files, canary_law
from tests.endpoint.stub import served

MISTAKES = ("sides swapped", "labels - 1", "probabilities", "columns permuted", "scores cut off", "NaN")
RANDOM = np.random.default_rng(20261127)
N, CLASSES = 300, 4
X = RANDOM.normal(size=(N, 8)).astype(np.float32)
Y = np.argmax(X[:, :CLASSES] + 0.5 * RANDOM.normal(size=(N, CLASSES)), axis=1)
COINS = audit.draw_coins(N, 11)
ORDER = [2, 0, 3, 1]


class Moved(nn.Module):
    """A network that gives something else than logits."""

    def __init__(self, net: nn.Module, mistake: str) -> None:
        super().__init__()
        self.net, self.mistake = net, mistake

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.net(x)
        if self.mistake == "probabilities":  # of each class on its own, as of a network that ends in a sigmoid
            return torch.sigmoid(logits)
        if self.mistake == "columns permuted":
            return logits[:, ORDER]
        if self.mistake == "scores cut off":
            return logits[:-1]
        return torch.where(x[:, :1] > 1.5, torch.nan, logits) if self.mistake == "NaN" else logits


@pytest.fixture(scope="module")
def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 96), nn.Tanh(), nn.Linear(96, CLASSES))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    x, y = torch.from_numpy(X[COINS]), torch.from_numpy(Y[COINS])
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


def make_sides(mistake: str) -> list[tuple[Array, Array]]:
    labels = Y - 1 if mistake == "labels - 1" else Y
    sides = [(X[side], labels[side]) for side in (COINS, ~COINS)]
    return sides[::-1] if mistake == "sides swapped" else sides


def classify(report: AuditReport) -> str:
    if report.outcome is Outcome.INVALID:
        return "INVALID"
    return "asked" if "Look first" in str(report) else "silent"


def run_command(arguments: list[str]) -> str:
    """Return what an audit on the command line came to."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = answer(arguments)
    assert "Traceback" not in err.getvalue()
    if code > 1 and "error: " in err.getvalue():
        return f"refused: {err.getvalue().split('error: ')[-1].strip()}"
    text = out.getvalue()
    return "INVALID" if '"outcome": "invalid"' in text else "asked" if "Look first" in text else "silent"


def by_check(net: nn.Module, mistake: str, folder: Path) -> str:
    return classify(audit.check(Moved(net, mistake), *make_sides(mistake), quiet=True).report)


def by_inspect(net: nn.Module, mistake: str, folder: Path) -> str:
    return classify(audit.inspect(Moved(net, mistake), *make_sides(mistake)))


def by_model_file(net: nn.Module, mistake: str, folder: Path) -> str:
    if mistake == "scores cut off":
        return by_predictions(net, mistake, folder)  # an exported program keeps its batch
    program = torch.export.export(
        Moved(net, mistake), (torch.from_numpy(X[:4]),), dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}}
    )
    torch.export.save(program, folder / "net.pt2")
    for name, (x, y) in zip(("members", "nonmembers"), make_sides(mistake), strict=True):
        np.savez(folder / name, x=x, y=y)
    files = ["--members", str(folder / "members.npz"), "--nonmembers", str(folder / "nonmembers.npz")]
    return run_command(["model", "--target", str(folder / "net.pt2"), *files, "--json"])


def by_predictions(net: nn.Module, mistake: str, folder: Path) -> str:
    with torch.no_grad():
        logits = Moved(net, mistake)(torch.from_numpy(X)).numpy()
    member, labels = ~COINS if mistake == "sides swapped" else COINS, Y - 1 if mistake == "labels - 1" else Y
    np.savez(folder / "predictions.npz", logits=logits, labels=labels, member=member)
    return run_command(["model", "--target", str(folder / "predictions.npz"), "--json"])


class Attack:
    """An attack of a user's that gives scores of another form."""

    needs = Needs(signals={Losses()})
    mistake = ""

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        values = -np.asarray(target["losses"], dtype=np.float64)
        if self.mistake == "sides swapped":
            return -values
        if self.mistake == "scores cut off":
            return values[:-1]
        return np.where(np.arange(len(values)) == 3, np.nan, values) if self.mistake == "NaN" else values


class Swapped(Attack):
    mistake = "sides swapped"


class CutOff(Attack):
    mistake = "scores cut off"


class Missing(Attack):
    mistake = "NaN"


def by_run(net: nn.Module, mistake: str, folder: Path) -> str:
    """Of a run, which trains the model itself: a user's data, module and attack."""
    labels = {"labels - 1": Y - 1, "scores cut off": Y[:-1]}.get(mistake, Y)
    inputs = np.where(np.arange(N)[:, None] == 3, np.nan, X) if mistake == "NaN" else X
    np.savez(folder / "data.npz", x=inputs, y=labels)
    attack = {"sides swapped": "Swapped", "attack cut off": "CutOff", "attack NaN": "Missing"}
    own = {"kind": f"{__name__}:{attack.get(mistake, 'Attack')}"}
    config = {
        "version": 1,
        "name": "wrong",
        "seed": 239580191430687230836515683535626,
        "delta": 1e-5,
        "data": {"kind": "npz", "path": str(folder / "data.npz"), "train": 150, "pool": 100, "test": 50},
        "model": {"kind": "mlp", "hidden": [96]},
        "training": {"optimizer": "sgd", "learning_rate": 0.5, "batch_size": 50, "steps": 300},
        "mechanisms": [{"name": "plain", "kind": "non_private"}],
        "games": [
            {"name": "outside", "canaries": "mislabelled", "count": 60, "runs": 2, "scorers": [own], "estimators": ["one_run"]}
        ],
        "certificates": 0,
        "output": {"formats": ["json"]},
    }
    return classify(audit.run(config))


CANARIES = canary_law.make_law("digits", 120, canary_files.PLAIN, 0).draw(Seed(5))


DIGEST = canary_files.commitment(CANARIES, "0" * 32)


def write_canaries(mistake: str, folder: Path) -> None:
    """Write canaries beside coins that are not those of the training."""
    coins = [canary.included for canary in CANARIES]
    coins = {
        "sides swapped": [not coin for coin in coins],
        "labels - 1": [*coins[1:], coins[0]],  # the coin of the next line
        "columns permuted": [coins[place] for place in np.random.default_rng(1).permutation(len(coins))],
    }.get(mistake, coins)
    texts = [replace(canary, included=coin) for canary, coin in zip(CANARIES, coins, strict=True)]
    (folder / "salt").write_text("0" * 32)
    canary_files.write(texts[:-1] if mistake == "scores cut off" else texts, folder / "canaries.jsonl")


def by_endpoint(net: nn.Module, mistake: str, folder: Path) -> str:
    write_canaries(mistake, folder)
    known = tuple(canary.text for canary in CANARIES if canary.included)
    with served("good", known) as server:

        def reshape(reply: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
            logs = reply["choices"][0].get("logprobs")
            if logs and mistake in ("probabilities", "NaN"):
                values = [value if value is None else np.exp(value) for value in logs["token_logprobs"]]
                logs["token_logprobs"] = [float("nan")] * len(values) if mistake == "NaN" else values
            return reply

        server.reshape = reshape
        command = ["endpoint", server.url, "--model", "m", "--canaries", str(folder / "canaries.jsonl"), "--json"]
        return run_command([*command, *(["--commitment", DIGEST] if mistake == "scores cut off" else ["--coins"])])


@cache
def learn_texts() -> tuple[Any, Any]:
    """Return a language model before and after a training on the included canaries."""
    from audit.core.data import Vocabulary
    from audit.models.language import LanguageModel

    options = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    module: Any = LanguageModel(architecture="llama", options=options).build(Vocabulary(size=257), 48, Seed(1))
    untrained = deepcopy(module)
    rows = [list(canary.text.encode())[:48] for canary in CANARIES if canary.included]
    tokens = torch.tensor([row + [0] * (48 - len(row)) for row in rows])
    labels = torch.tensor([row + [-100] * (48 - len(row)) for row in rows])
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for _ in range(120):  # after 60 a machine's own rounding decides how clear the scores are
        optimizer.zero_grad()
        module(input_ids=tokens, labels=labels).loss.backward()
        optimizer.step()
    return untrained, module


def by_adapter(net: nn.Module, mistake: str, folder: Path) -> str:
    """A model that was trained on the canaries; the commitment is opened, since scores are less clear."""
    pytest.importorskip("transformers", reason="the extra llm is not installed")
    untrained, module = (deepcopy(model) for model in learn_texts())
    untrained.save_pretrained(folder / "base")
    if mistake == "NaN":
        module.lm_head.weight.data[5] = torch.nan
    module.save_pretrained(folder / "tuned")
    write_canaries(mistake, folder)
    models = [folder / "base", folder / "tuned"] if mistake == "models swapped" else [folder / "tuned", folder / "base"]
    files = [str(models[0]), "--base", str(models[1]), "--canaries", str(folder / "canaries.jsonl"), "--tokenizer", "bytes"]
    return run_command(["adapter", *files, "--commitment", DIGEST, "--json"])


TRAINED_HERE = ("sides swapped", "labels - 1", "scores cut off", "NaN", "attack cut off", "attack NaN")
LANGUAGE = ("sides swapped", "labels - 1", "columns permuted", "scores cut off", "NaN", "models swapped")
DOORS: dict[str, tuple[Callable[[nn.Module, str, Path], str], tuple[str, ...]]] = {
    "audit.check": (by_check, MISTAKES),
    "audit.inspect": (by_inspect, MISTAKES),
    "audit model, a model": (by_model_file, MISTAKES),
    "audit model, predictions": (by_predictions, MISTAKES),
    "audit run": (by_run, TRAINED_HERE),
    "audit endpoint": (by_endpoint, MISTAKES),
    "audit adapter": (by_adapter, LANGUAGE),
}


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_a_mistake_in_silence(door: str, net: nn.Module, tmp_path: Path) -> None:
    enter, mistakes = DOORS[door]
    found = {}
    for mistake in ("", *mistakes):
        folder = tmp_path / (mistake or "none")
        folder.mkdir()
        try:
            found[mistake] = enter(net, mistake, folder)
        except AuditError as error:
            found[mistake] = f"refused: {error}"
    assert found.pop("") == "silent", "what is right is neither refused nor asked about"
    assert all(text == "INVALID" or text.startswith("refused: ") for text in found.values()), found
