"""What a private step should cost on a GPU, counted without one: launches, operations and bytes, and the rates of an H100.

    python benchmarks/gpu_predictions.py        writes gpu_predictions.json beside this file, in about two minutes of CPU

A step takes the longest of three times, each a floor: its launches, at what torch's interpreter and dispatcher need for one;
its products in float32, at the rate of the card's matrix products; the bytes of its activations and parameters, at the card's
bandwidth. A measurement far above the longest of them shows that something else is going on. Launches are counted as
operations that torch dispatches, which a GPU starts as one kernel or few; they do not depend on the number of models.
"""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from ensemble import operations
from ensemble_peers import fresh, opacus_loop
from gpu import _PRIVATE, PROBLEMS, Problem, make_job
from torch.utils._python_dispatch import TorchDispatchMode

from audit.core.training import TrainingJob
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings, arrange

LAUNCH_SECONDS = 8e-6  # of a dispatched operation, interpreter included
FLOAT32, BANDWIDTH = 50e12, 2.5e12  # operations a second (67e12 on paper), bytes a second (3.35e12 on paper)
PASSES_OF_ACTIVATIONS, PASSES_OF_PARAMETERS = 4, 10  # reads and writes of each number in a step
# ghost norms and clipped sums beside forward, signals and one sum
PRODUCTS = 1.3
VIEWS = frozenset((
    "view", "_unsafe_view", "_reshape_alias", "t", "transpose", "permute", "expand", "select", "slice", "unsqueeze", "squeeze",
    "detach", "alias", "as_strided", "unbind", "split", "unfold", "diagonal", "empty", "new_empty", "empty_like", "lift_fresh",
    "empty_strided",
))  # fmt: skip


class Operations(TorchDispatchMode):
    """Counts dispatched operations that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ not in VIEWS
        return func(*args, **(kwargs or {}))


def counted(run: Any) -> float:
    """Operations a step of `run(steps)`."""
    counts = []
    for steps in (5, 7):  # no power of two is among the steps between them, at which clipping is checked
        with Operations() as counter:
            run(steps)
        counts.append(counter.count)
    return (counts[1] - counts[0]) / 2


@functools.cache
def launches(model: str) -> tuple[float, float]:
    """Operations a step of two models by our engine, and of one model by Opacus, of a model and shape in JSON."""
    spec, shape = json.loads(model)
    few = Problem(name="", model=spec, shape=tuple(shape), models=2, batch=16, steps=1)

    def job(steps: int) -> TrainingJob:
        return make_job(few, replace(_PRIVATE, count=steps), "cpu")

    ours = counted(lambda steps: train(job(steps), lambda _: None, ScheduleSettings(counters=True)))
    return ours, counted(lambda steps: opacus_loop(job(steps), "hooks", 1))


def predict(problem: Problem) -> dict[str, Any]:
    """Launches, operations and bytes of a private step of all models, and the milliseconds that follow."""

    ours, opacus = launches(json.dumps([problem.model, problem.shape]))
    job = make_job(replace(problem, models=1), _PRIVATE, "cpu")
    flops = PRODUCTS * operations(job) * problem.models
    parameters = sum(value.numel() for value in fresh(job, 0).parameters())
    row_bytes = arrange(job, ScheduleSettings()).row_bytes
    moved = problem.models * (PASSES_OF_ACTIVATIONS * problem.batch * row_bytes + PASSES_OF_PARAMETERS * 4 * parameters)
    times = {"launching": ours * LAUNCH_SECONDS, "products": flops / FLOAT32, "bytes": moved / BANDWIDTH}
    bound = max(times, key=lambda name: times[name])
    return {
        "launches": ours,
        "opacus_launches": opacus,
        "operations": flops,
        "bytes": moved,
        "predicted_ms": 1e3 * times[bound],
        "bound_by": bound,
        "opacus_predicted_ms": 1e3 * max(opacus * LAUNCH_SECONDS, times["products"] / problem.models),
    }


def main() -> None:
    """Writes the predictions of all problems."""
    torch.set_num_threads(1)
    predictions = {}
    for problem in PROBLEMS:
        predictions[problem.name] = predict(problem)
        print(problem.name, json.dumps(predictions[problem.name]), flush=True)
    (Path(__file__).parent / "gpu_predictions.json").write_text(json.dumps(predictions, indent=2) + "\n")


if __name__ == "__main__":
    main()
