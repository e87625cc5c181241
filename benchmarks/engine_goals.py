"""Every row of the table of speeds in docs/evidence/speed.md, in one run: ours beside Opacus and beside `vmap(vmap(grad))`.

    python benchmarks/engine_goals.py [--rows mlp,cnn64,cnn256,cnn32,wrn,wrn16,vit,batch,head,lora,mingpt,llama,gru,scan] \
        [--repeats 3] [--models 1,4,16]

Some fifteen minutes on two quiet cores; `--quick` shows if all rows run. CPU seconds of this process for one more step of
one model: a training of `EXTRA` steps is taken off a longer one, on all sides, and with it what a training does once (set-up;
ours recomputes two steps, which costs as much as some three). Medians of repeats in which all sides take turns, so a ratio
holds within this run. Needs opacus. `--models` trains as many models in each row, and prints our time over
that of the better of Opacus and `vmap(vmap(grad))`. The floor is one forward and one backward pass of the module without
privacy: its products at the speed of a 1024 x 1024 one by `torch.mm` in this process, and what its other operations read
and write at the speed of an addition of as large tensors.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from ensemble import COMPILED, compiles, cpu_name, floor, silent
from ensemble_peers import digits, job, opacus_loop, vmap_loop
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.events import sgd
from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings

warnings.filterwarnings("ignore")
SGD = {"kind": "sgd", "learning_rate": 0.1}
OPACUS = ("hooks", "functorch", "ghost")
EXTRA = 5  # steps of the shorter training: enough for both steps that are recomputed
BATCHES = (12, 16, 17, 20, 24, 32, 33)


class Frozen(nn.Module):
    """A frozen backbone of three convolutions and a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the backbone of all models is one, as a pretrained one is
            self.backbone = nn.Sequential(
                nn.Conv2d(1, 32, 3, padding=1), nn.GroupNorm(8, 32), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(), nn.MaxPool2d(2),
                nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
            )  # fmt: skip
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(1024, 10)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.backbone(images))
        return scores


def wide_cnn() -> nn.Module:
    """Convolutions of 32 and 64 channels."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10),
    )  # fmt: skip


class LowRank(nn.Module):
    """A frozen linear layer beside two small ones that are trained."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        widened: Tensor = self.base(hidden) + self.up(self.down(hidden))
        return widened


class Block(nn.Module):
    """A block of a transformer, adapters on its queries, values and wide layers."""

    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width).requires_grad_(False), nn.LayerNorm(width).requires_grad_(False)
        self.query, self.value = (LowRank(nn.Linear(width, width), rank) for _ in range(2))
        self.key, self.out = (nn.Linear(width, width).requires_grad_(False) for _ in range(2))
        self.wide, self.narrow = LowRank(nn.Linear(width, 4 * width), rank), LowRank(nn.Linear(4 * width, width), rank)

    def forward(self, hidden: Tensor) -> Tensor:
        normal = self.before(hidden)
        parts = (layer(normal).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.query, self.key, self.value))
        query, key, value = parts
        shares = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, dim=-1)
        hidden = hidden + self.out((shares @ value).transpose(1, 2).flatten(2))
        grown: Tensor = hidden + self.narrow(F.gelu(self.wide(self.after(hidden))))
        return grown


class Adapted(nn.Module):
    """A transformer of two blocks on rows of an image; adapters and head are trained."""

    def __init__(self, width: int = 64, heads: int = 4, rank: int = 4) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.embed = nn.Linear(28, width).requires_grad_(False)
            self.blocks = nn.Sequential(*(Block(width, heads, rank) for _ in range(2)))
        self.head = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.blocks(self.embed(images.squeeze(1))).mean(1))
        return scores


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row: what is trained, how many models the loops take, and the goals."""

    title: str
    job: TrainingJob
    loop_models: int
    more: int = 1  # so many times as many steps of ours, of which the set-up would hide few
    short: int = EXTRA  # steps of the shorter training; 0 where outputs of a frozen part are kept if there are enough steps
    goals: Mapping[str, float]
    anchors: tuple[int, ...] = ()


# the goal where no other is set: at most .9 of the time of the best that a user would write
BEST = 1 / 0.9
CNN_GOALS = {"compiled": 15.0, "vmap, compiled": 7.0, "privacy": 1.1, "privacy, compiled": 1.1}
IMAGE_GOALS = {"Opacus": 2.0, "privacy": 1.3}


def rows(quick: bool, together: int = 0) -> dict[str, Row]:
    """The rows that have ratios, by name; each with `together` models unless that is 0."""

    def make_job(model: Mapping[str, Any], image: bool, models: int, batch: int, steps: int) -> TrainingJob:
        count = 2 if quick else max(2, steps * models // max(models, together))
        return job(digits(image=image), dict(model), models=together or models, batch=batch, steps=count, optimizer=SGD)

    small, module = {"factory": "ensemble_peers:small_cnn"}, "engine_goals"
    wrn = {"kind": "wide_resnet", "depth": 10, "widen": 2, "groups": 8}
    large = {"kind": "wide_resnet", "depth": 16, "widen": 4, "groups": 8}
    vit = {"kind": "vit", "patch": 7, "width": 64, "depth": 3, "heads": 4}
    return {
        "mlp": Row(
            title="32 MLPs 64-64-10, batch 128",
            job=make_job({"kind": "mlp", "hidden": [64]}, False, 32, 128, 60), loop_models=6, more=4,
            goals={"compiled": 40.0, "privacy": 1.2, "privacy, compiled": 1.3}, anchors=(4, 32),
        ),
        "cnn64": Row(
            title="16 CNNs, batch 64", job=make_job(small, True, 16, 64, 24), loop_models=2,
            goals=CNN_GOALS, anchors=(4, 16),
        ),
        "cnn256": Row(
            title="8 CNNs, batch 256", job=make_job(small, True, 8, 256, 12), loop_models=1,
            goals=CNN_GOALS, anchors=(4, 8),
        ),
        "cnn32": Row(
            title="4 CNNs of 32 and 64 channels, batch 32", job=make_job({"factory": f"{module}:wide_cnn"}, True, 4, 32, 12),
            loop_models=1, goals={"compiled": BEST, "vmap, compiled": BEST, "privacy": 1.1}, anchors=(4,),
        ),
        "wrn": Row(title="one WRN-10-2, batch 64", job=make_job(wrn, True, 1, 64, 16), loop_models=1, goals=IMAGE_GOALS),
        "wrn16": Row(title="one WRN-16-4, batch 16", job=make_job(large, True, 1, 16, 6), loop_models=1, goals=IMAGE_GOALS),
        "vit": Row(title="one ViT, batch 64", job=make_job(vit, True, 1, 64, 48), loop_models=1, goals=IMAGE_GOALS),
        "head": Row(
            title="16 heads on a frozen backbone, batch 64", job=make_job({"factory": f"{module}:Frozen"}, True, 16, 64, 62),
            loop_models=1, short=0, goals={"Opacus": 25.0},
        ),
        "lora": Row(
            title="16 LoRAs on a transformer, batch 32", job=make_job({"factory": f"{module}:Adapted"}, True, 16, 32, 48),
            loop_models=1, goals={"Opacus": 1.5},
        ),
        **{
            kind.lower(): Row(
                title=f"4 {kind}s on rows of an image, batch 32",
                job=make_job({"factory": f"sequence_models:{kind}"}, True, 4, 32, 24),
                loop_models=1, goals={"Opacus": goal, "vmap": goal}, anchors=(4,),
            )
            for kind, goal in (("MinGpt", 1.5), ("Llama", 1.5), ("Gru", BEST), ("Scan", BEST))
        },
    }  # fmt: skip


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def with_steps(training: TrainingJob, steps: int) -> TrainingJob:
    return replace(training, mechanism=replace(training.mechanism, count=steps))


def measured(row: Row, repeats: int) -> dict[str, float]:
    """CPU seconds of a model-step by each side: medians of repeats in turns, after one that warms up."""
    item, loops = row.job, row.loop_models
    plain = replace(item, mechanism=sgd(sample_rate=item.sample_rate, steps=item.steps))
    kinds = {"": ScheduleSettings()} | ({", compiled": COMPILED} if compiles(item) else {})
    sides: dict[str, tuple[Callable[[int], Any], int, int]] = {}  # with how many models and steps
    for kind, settings in kinds.items():
        for name, training in ((f"ours{kind}", item), (f"plain{kind}", plain)):
            sides[name] = (
                lambda steps, training=training, settings=settings: train(with_steps(training, steps), silent, settings),
                len(item.seeds),
                item.steps * row.more,
            )
    for mode in OPACUS:
        sides[f"Opacus {mode}"] = (
            lambda steps, mode=mode: opacus_loop(with_steps(item, steps), mode, loops),
            loops,
            item.steps,
        )
    for together in row.anchors:
        sides[f"vmap, {together} models"] = (
            lambda steps, together=together: vmap_loop(with_steps(item, steps), together),
            together,
            item.steps,
        )
    for mode in OPACUS:
        try:
            opacus_loop(with_steps(item, 1), mode, 1)
        except RuntimeError as error:  # its ghost mode has no way for positions that are looked up by one row for all records
            print(f"    Opacus {mode} cannot train it: {str(error).partition('.')[0]}", flush=True)
            del sides[f"Opacus {mode}"]
    chosen: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, (work, count, steps) in sides.items():
            long = steps + row.short
            spent = seconds(lambda work=work, long=long: work(long)) - seconds(lambda work=work: work(row.short))
            if turn:
                chosen[name].append(max(spent, 1e-9) / count / steps)
    return {name: statistics.median(values) for name, values in chosen.items()}


def show(row: Row, cpu: Mapping[str, float]) -> None:
    """Prints one row: goal, what was measured, and the share of the peak."""
    best = min((value for name, value in cpu.items() if "Opacus" in name), default=float("nan"))
    anchor = min((value for name, value in cpu.items() if "vmap" in name), default=float("nan"))
    figures = {"Opacus": best / cpu["ours"], "vmap": anchor / cpu["ours"], "privacy": cpu["ours"] / cpu["plain"]}
    if "ours, compiled" in cpu:
        figures |= {
            "compiled": best / cpu["ours, compiled"],
            "vmap, compiled": anchor / cpu["ours, compiled"],
            "privacy, compiled": cpu["ours, compiled"] / cpu["plain, compiled"],
        }
    least = floor(row.job)  # a frozen part that is not computed again takes less
    shares = [f"{least / cpu[side]:.0%}" for side in ("ours", "ours, compiled") if side in cpu]
    goals = {name: f" (goal {goal:.3g})" for name, goal in row.goals.items()}
    cells = [f"{name} {figure:.2f}{goals.get(name, '')}" for name, figure in figures.items() if not math.isnan(figure)]
    times = ", ".join(f"{name} {1e6 * value:.0f}" for name, value in cpu.items())
    print(
        f"| {row.title} | {'; '.join(cells)} | floor {1e6 * least:.0f} us, {', '.join(shares)} |\n    us a model-step: {times}",
        flush=True,
    )


def show_beside_best(name: str, together: int, cpu: Mapping[str, float]) -> None:
    """Prints our time over that of the best that a user would write."""
    ours = min(value for side, value in cpu.items() if side.startswith("ours"))
    best = min(value for side, value in cpu.items() if "Opacus" in side or "vmap" in side)
    times = ", ".join(f"{side} {1e6 * value:.0f}" for side, value in cpu.items())
    costs = ", ".join(f"{cpu[side] / cpu[side.replace('ours', 'plain')]:.2f}" for side in cpu if side.startswith("ours"))
    print(
        f"| {name}, {together} models | {ours / best:.2f} of the best (goal .9), privacy (by torch, compiled) {costs} |\n"
        f"    us a model-step: {times}",
        flush=True,
    )


def cliff(repeats: int, quick: bool) -> None:
    """Prints what a step of 16 MLPs takes by its batch, and for one record, by torch's kernels."""
    costs = {}
    for batch in BATCHES:
        model = {"kind": "mlp", "hidden": [64]}
        item = job(digits(image=False), model, models=16, batch=batch, steps=2 if quick else 60, optimizer=SGD)
        nothing = replace(item, mechanism=replace(item.mechanism, count=0))
        spent = [
            seconds(lambda item=item: train(item, silent)) - seconds(lambda nothing=nothing: train(nothing, silent))
            for _ in range(repeats + 1)
        ][1:]
        costs[batch] = max(statistics.median(spent), 1e-9) / 16 / item.steps
    cells = ", ".join(f"{batch}: {1e6 * cost:.0f} ({1e6 * cost / batch:.1f} a record)" for batch, cost in costs.items())
    title = f"| batch of 17 after 16 | {costs[17] / costs[16]:.2f} times as long |  |"
    print(f"{title}\n    us a model-step by batch: {cells}", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="mlp,cnn64,cnn256,cnn32,wrn,wrn16,vit,batch,head,lora,mingpt,llama,gru,scan")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--models", default="", help="numbers of models, as 1,4,16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{cpu_name()}, {options.threads} thread(s), torch {torch.__version__}, load {os.getloadavg()[0]:.1f}")
    table, repeats = rows(options.quick), 1 if options.quick else options.repeats
    for name in options.rows.split(","):
        if options.models and name != "batch":
            for together in map(int, options.models.split(",")):
                row = replace(rows(options.quick, together)[name], loop_models=1, anchors=(together,))
                show_beside_best(name, together, measured(row, repeats))
        elif name == "batch":
            cliff(repeats, options.quick)
        else:
            show(table[name], measured(table[name], repeats))


if __name__ == "__main__":
    main()
