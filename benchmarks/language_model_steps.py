"""One training step of adapters (LoRA): plain and private, by the own layer and by hooks on peft's model, beside Opacus.

    OMP_NUM_THREADS=1 python benchmarks/language_model_steps.py [--rounds 8] [--only steps together wide]

Processor time of one thread; all variants take turns in one process, and each figure is the median over rounds of the ratio to
its partner of the same round. Needs the extra `llm` and opacus. The second table: 32 adapters on one frozen model, together
and one after another, with the same records.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from audit.core.data import Vocabulary
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip
from audit.engine.text.adapters import AdapterModels
from audit.engine.text.text_model import TextModel
from audit.models.language import Adapter, LanguageModel

VOCABULARY = 512
LLAMA = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
MODELS: dict[str, tuple[dict[str, Any], Adapter]] = {
    "GPT-2, width 64, rank 4 on c_attn": (
        {"architecture": "gpt2", "options": {"n_layer": 2, "n_embd": 64, "n_head": 2}},
        Adapter(rank=4, layers=("c_attn",)),
    ),
    "GPT-2, width 128, rank 8 on all": (
        {"architecture": "gpt2", "options": {"n_layer": 2, "n_embd": 128, "n_head": 2}},
        Adapter(rank=8, layers=("c_attn", "c_proj", "c_fc")),
    ),
    "LLaMA, width 64, rank 4 on q, v": (
        {"architecture": "llama", "options": {"hidden_size": 64, "intermediate_size": 128, **LLAMA}},
        Adapter(rank=4, layers=("q_proj", "v_proj")),
    ),
}
SHAPES = ((32, 64), (8, 32))
TOGETHER = ((1, 16), (1, 32), (2, 32), (4, 64), (16, 64))
ADAPTERS = 32
WIDE: dict[str, Any] = {
    "architecture": "llama",
    "options": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 2,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
    },
}  # two of the 24 layers of a model of 0.5 B parameters, with a small vocabulary
PAIRS = (
    ("own DP / own plain", "own DP", "own plain"),
    ("own DP / peft plain", "own DP", "peft plain"),
    ("hooks DP / peft plain", "hooks DP", "peft plain"),
    ("Opacus hooks / own DP", "Opacus hooks", "own DP"),
    ("Opacus hooks / hooks DP", "Opacus hooks", "hooks DP"),
    ("Opacus ghost / own DP", "Opacus ghost", "own DP"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OurStep:
    """Steps of our learners: sum of clipped gradients, noise, AdamW."""

    learners: Any
    clip: Clip | None

    def step(self, tokens: Tensor, labels: Tensor, owner: Tensor, state: dict[str, Any]) -> None:
        """One step."""
        flat = self.learners.flat
        total = torch.zeros_like(flat)
        self.learners.add(tokens, labels, owner, self.clip, total)
        if self.clip is not None:
            total += torch.randn_like(total)
        flat.grad = total / len(tokens)
        if not state:
            state["optimizer"] = torch.optim.AdamW([flat], lr=1e-4, foreach=False)
        state["optimizer"].step()


def model(spec: dict[str, Any], adapter: Adapter, length: int) -> TextModel:
    """A model with an adapter that has matrices away from zero."""
    module = LanguageModel(**spec).build(Vocabulary(size=VOCABULARY), length, Seed(1))
    text_model = TextModel(adapter.attach(module, Seed(2)), torch.device("cpu"))
    text_model.flat.normal_(std=0.02)
    return text_model


def batch(rows: int, length: int) -> tuple[Tensor, Tensor]:
    tokens = torch.from_numpy(np.random.default_rng(rows).integers(0, VOCABULARY, (rows, length)))
    labels = tokens.clone()
    labels[:, 0] = -1
    return tokens, labels


def opacus_step(text_model: TextModel, rows: int, *, ghost: bool) -> Callable[[Tensor, Tensor], None]:
    """A step of Opacus' hooks (or ghost clipping) on the unchanged model, with its own optimiser."""
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    trained = [value for value in text_model.module.parameters() if value.requires_grad]
    plain = torch.optim.AdamW(trained, lr=1e-4, foreach=False)
    rules = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": rows}
    if ghost:
        wrapped: Any = GradSampleModuleFastGradientClipping(
            text_model.module, strict=False, max_grad_norm=1.0, use_ghost_clipping=True, loss_reduction="mean"
        )
        optimizer: Any = DPOptimizerFastGradientClipping(plain, **rules)
    else:
        wrapped, optimizer = GradSampleModule(text_model.module, strict=False), DPOptimizer(plain, **rules)

    def step(tokens: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        wrapped.enable_hooks()
        losses = text_model.record_losses(tokens, labels)
        if ghost:
            DPTensorFastGradientClipping(wrapped, optimizer, losses, loss_reduction="mean").backward()
        else:
            losses.mean().backward()
        optimizer.step()

    return step


def peft_step(text_model: TextModel) -> Callable[[Tensor, Tensor], None]:
    """A plain step of the unchanged model."""
    trained = [value for value in text_model.module.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=False)

    def step(tokens: Tensor, labels: Tensor) -> None:
        optimizer.zero_grad()
        text_model.record_losses(tokens, labels).mean().backward()
        optimizer.step()

    return step


def variants(spec: dict[str, Any], adapter: Adapter, rows: int, length: int) -> dict[str, Callable[[Tensor, Tensor], None]]:
    """Every way to take a step, each on its own model."""
    owner, clip = torch.zeros(rows, dtype=torch.int64), Clip(norm=1.0)

    def train_ours(learners: Any, clip: Clip | None) -> Callable[[Tensor, Tensor], None]:
        state: dict[str, Any] = {}
        return lambda tokens, labels: OurStep(learners=learners, clip=clip).step(tokens, labels, owner, state)

    def adapters() -> AdapterModels:
        text_model = model(spec, adapter, length)
        return AdapterModels(text_model, text_model.flat.clone())

    return {
        "peft plain": peft_step(model(spec, adapter, length)),
        "own plain": train_ours(adapters(), None),
        "own DP": train_ours(adapters(), clip),
        "hooks DP": train_ours(model(spec, adapter, length), clip),
        "Opacus hooks": opacus_step(model(spec, adapter, length), rows, ghost=False),
        "Opacus ghost": opacus_step(model(spec, adapter, length), rows, ghost=True),
    }


def timed(calls: dict[str, Callable[[], None]], rounds: int, repeats: int) -> dict[str, list[float]]:
    """Processor seconds of each call in each round, the calls taking turns; a first round is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            start = time.process_time()
            for _ in range(repeats):
                call()
            if number:
                seconds[name].append((time.process_time() - start) / repeats)
    return seconds


def ratio(above: list[float], below: list[float]) -> float:
    return statistics.median(first / second for first, second in zip(above, below, strict=True))


def steps(rounds: int) -> None:
    """Print the table of single adapters."""
    print(f"| Model | texts x tokens | own DP ms | {' | '.join(name for name, _, _ in PAIRS)} |")
    print("|---|---|---|" + "---|" * len(PAIRS))
    for name, (spec, adapter) in MODELS.items():
        for rows, length in SHAPES:
            tokens, labels = batch(rows, length)
            ways = variants(spec, adapter, rows, length)
            calls = {way: functools.partial(step, tokens, labels) for way, step in ways.items()}
            seconds = timed(calls, rounds, 2 if rows > 8 else 6)
            cells = " | ".join(f"{ratio(seconds[above], seconds[below]):.2f}" for _, above, below in PAIRS)
            print(f"| {name} | {rows} x {length} | {1e3 * statistics.median(seconds['own DP']):.1f} | {cells} |", flush=True)


def together(rounds: int) -> None:
    """Print the table of 32 adapters."""
    print(f"| Model | records x tokens of each of {ADAPTERS} | plain | DP |")
    print("|---|---|---|---|")
    for name, (spec, adapter) in MODELS.items():
        for rows, length in TOGETHER:
            cells = " | ".join(f"{_gain(spec, adapter, (rows, length), clip, rounds):.2f}" for clip in (None, Clip(norm=1.0)))
            print(f"| {name} | {rows} x {length} | {cells} |", flush=True)


def wide(rounds: int) -> None:
    """Print how much of a matrix product's rate a private step reaches at the width of a model of 0.5 B parameters."""
    adapter = Adapter(rank=8, layers=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"))
    rows, length = 8, 256
    text_model = model(WIDE, adapter, length)
    learners = AdapterModels(text_model, text_model.flat.clone())
    tokens, labels = batch(rows, length)
    owner, square = torch.zeros(rows, dtype=torch.int64), torch.randn(1024, 1024)
    weights = sum(value.numel() for value in text_model.module.parameters() if not value.requires_grad and value.ndim == 2)
    weights -= VOCABULARY * WIDE["options"]["hidden_size"]  # an embedding is a look-up
    work = 4 * weights * rows * length  # twice the weights for the pass forward, twice for the gradient of activations
    calls = {
        "plain": lambda: OurStep(learners=learners, clip=None).step(tokens, labels, owner, {}),
        "private": lambda: OurStep(learners=learners, clip=Clip(norm=1.0)).step(tokens, labels, owner, {}),
        "product": lambda: [torch.mm(square, square) for _ in range(20)] and None,
    }
    seconds = timed(calls, rounds, 1)
    rates = {name: work / statistics.median(seconds[name]) / 1e9 for name in ("plain", "private")}
    product = 20 * 2 * 1024**3 / statistics.median(seconds["product"]) / 1e9
    print(f"frozen weights {weights:,}, {rows} x {length} tokens, GFLOP/s of one thread: product {product:.1f}")
    for name, rate in rates.items():
        print(f"{name} step {rate:.1f}, {100 * rate / product:.0f} % of the product")


def _gain(spec: dict[str, Any], adapter: Adapter, shape: tuple[int, int], clip: Clip | None, rounds: int) -> float:
    """How many times as long 32 adapters take one after another: sums of gradients, noise and AdamW, passes of 64 records."""
    rows, length = shape
    text_model = model(spec, adapter, length)
    all_tokens, all_labels = batch(ADAPTERS * rows, length)
    owner = torch.arange(ADAPTERS).repeat_interleave(rows)
    every = AdapterModels(text_model, text_model.flat.repeat(ADAPTERS, 1))
    single = model(spec, adapter, length)
    alone, state = AdapterModels(single, single.flat.clone()), {}
    states: list[dict[str, Any]] = [{} for _ in range(ADAPTERS)]
    size = 64

    def at_once() -> None:
        total = torch.zeros_like(every.flat)
        for start in range(0, len(owner), size):
            part = slice(start, start + size)
            every.add(all_tokens[part], all_labels[part], owner[part], clip, total)
        _update(every.flat, total, clip, state)

    def in_turn() -> None:
        zeros = torch.zeros(rows, dtype=torch.int64)
        for number in range(ADAPTERS):
            part = slice(number * rows, (number + 1) * rows)
            total = torch.zeros_like(alone.flat)
            alone.add(all_tokens[part], all_labels[part], zeros, clip, total)
            _update(alone.flat, total, clip, states[number])

    seconds = timed({"together": at_once, "in turn": in_turn}, rounds, 1)
    return ratio(seconds["in turn"], seconds["together"])


def _update(flat: Tensor, total: Tensor, clip: Clip | None, state: dict[str, Any]) -> None:
    if clip is not None:
        total += torch.randn_like(total)
    flat.grad = total
    if not state:
        state["optimizer"] = torch.optim.AdamW([flat], lr=1e-4, foreach=False)
    state["optimizer"].step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="+", default=["steps", "together"], choices=["steps", "together", "wide"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if "steps" in options.only:
        steps(options.rounds)
    if "together" in options.only:
        together(options.rounds)
    if "wide" in options.only:
        wide(options.rounds)


if __name__ == "__main__":
    main()
