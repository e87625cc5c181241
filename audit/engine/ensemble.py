"""Training N models of one architecture together, with and without differential privacy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from audit.core.errors import ConfigError
from audit.core.training import Executed, Progress, TrainedModels, TrainingJob
from audit.engine.chunk import Chunk, training_tensors
from audit.engine.device import find_device, one_precision
from audit.engine.dp_options import Technique
from audit.engine.sampling import ALIGNMENT, aligned
from audit.engine.schedule import Settings, arrange
from audit.models.build import stream_is_held

log = logging.getLogger(__name__)


def train(
    job: TrainingJob, progress: Progress, settings: Settings | None = None, technique: Technique | None = None
) -> TrainedModels:
    """The trained models of `job`, with a record of what was really done.

    Each step samples every record by its own coin (Poisson), clips each example's gradient over all parameters to
    the clip norm, adds Gaussian noise to the sum and divides by the expected batch size. Without DP-SGD for a
    mechanism there is no clipping and no noise. Models share nothing but kernel launches: the result of one
    depends on its seed alone.

    Args:
        job: what to train.
        progress: called with the model-steps done since its last call.
        settings: how to arrange the arithmetic.
        technique: clipping, augmentation, averaging; None for the textbook.

    Raises:
        ConfigError: a device that is absent, a model or an optimiser that cannot be built.
        UnsupportedMechanism: a layer that mixes examples under DP-SGD.

    References:
        Abadi et al. 2016, arXiv 1607.00133; Bu et al. 2022, arXiv 2210.00038 (sums without per-example gradients).
    """
    chosen = settings or Settings()
    device = find_device(job.device)
    total = len(job.seeds)
    if job.included.shape != (total, len(job.canaries)):
        raise ConfigError(
            f"coins of shape {job.included.shape} for {total} models and {len(job.canaries)} canaries; "
            "expected one row a model and one column a canary"
        )
    arrangement = arrange(job, chosen, technique)
    data = training_tensors(job, chosen.dtype, device)
    parts = [slice(start, min(start + arrangement.model_chunk, total)) for start in range(0, total, arrangement.model_chunk)]

    def run(part: slice, report: Progress) -> TrainedModels:
        def some(few: slice, rows: int, hear: Progress) -> TrainedModels:
            return Chunk(job, few, data, replace(arrangement, rows=rows), technique or Technique()).run(hear)

        return _fitting(some, part, arrangement.rows, report)

    if arrangement.workers == 1 or stream_is_held():  # the stream's holder must not wait for threads that ask for it
        with one_precision(device):
            return joined([run(part, progress) for part in parts])
    return joined(_on_threads(run, parts, arrangement.workers, progress))


def _fitting(run: Callable[[slice, int, Progress], TrainedModels], part: slice, rows: int, progress: Progress) -> TrainedModels:
    """What `run` gives for `part`, in halves of halves of its models, then of the rows of a pass, where memory runs out.

    A model does not depend on its neighbours, so fewer at once leave the result the same to the last bit. Fewer rows add an
    example's gradient to the sum in another order: the same mechanism, and the same result to rounding.
    """
    waiting, done, ahead, heard = [(slice(part.start, part.stop), rows)], [], 0, 0

    def hear(steps: int) -> None:
        nonlocal ahead, heard
        heard += steps
        known = min(ahead, steps)  # steps that a try which failed has reported already
        ahead -= known
        if steps > known:
            progress(steps - known)

    while waiting:
        few, width = waiting.pop()
        heard = 0
        try:
            done.append(run(few, width, hear))
            continue
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _out_of_memory(error):
                raise
            if few.stop - few.start == 1 and width <= ALIGNMENT:
                error.add_note(
                    f"one model alone does not fit into memory, not even with {width} rows at once: "
                    "take a smaller model, or another device"
                )
                raise
        # the error and the frames that it holds are gone by now
        ahead += heard
        waiting += _smaller(few, width)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return joined(done)


def _smaller(few: slice, rows: int) -> list[tuple[slice, int]]:
    """What to try in place of the models `few` with `rows` rows at once, last first."""
    if few.stop - few.start == 1:
        less = aligned(rows // 2)
        log.warning(
            "memory ran out with one model and %d rows at once; going on with %d, which may change last bits", rows, less
        )
        return [(few, less)]
    middle = (few.start + few.stop) // 2
    log.warning("memory ran out with %d models at once; going on with %d", few.stop - few.start, middle - few.start)
    return [(slice(middle, few.stop), rows), (slice(few.start, middle), rows)]


def _out_of_memory(error: RuntimeError) -> bool:
    words = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory")
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in words)


def _on_threads(
    run: Callable[[slice, Progress], TrainedModels], parts: Sequence[slice], workers: int, progress: Progress
) -> list[TrainedModels]:
    """The parts run on `workers` threads, torch's own threads being divided among them.

    Kernels release the interpreter, so chunks overlap; each is computed by as many threads as it would be alone
    with that share of the machine, so its bits do not depend on the other chunks.
    """
    stop, lock, threads = threading.Event(), threading.Lock(), torch.get_num_threads()

    def report(done: int) -> None:
        if stop.is_set():
            raise _StoppedError
        with lock:
            progress(done)

    torch.set_num_threads(max(1, threads // workers))
    try:
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(run, part, report) for part in parts]
            try:
                return [future.result() for future in futures]
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
    finally:
        torch.set_num_threads(threads)


class _StoppedError(Exception):
    """Ends the other chunks after one has failed or the user has interrupted."""


def joined(parts: Sequence[TrainedModels]) -> TrainedModels:
    """The models of several trainings of one kind as one value, in order."""
    if len(parts) == 1:
        return parts[0]

    def merged(pick: Callable[[TrainedModels], Mapping[str, Any]]) -> dict[str, Any]:
        return {name: np.concatenate([pick(part)[name] for part in parts]) for name in pick(parts[0])}

    done = [part.executed for part in parts]
    executed = Executed(
        steps=done[0].steps,
        batch_sizes=np.concatenate([one.batch_sizes for one in done]),
        population=np.concatenate([one.population for one in done]),
        noise_multiplier=np.concatenate([one.noise_multiplier for one in done]),
        noise_draws=done[0].noise_draws,
        largest_norm=np.concatenate([one.largest_norm for one in done]),
        skipped=np.concatenate([one.skipped for one in done]),
        recomputed=np.concatenate([one.recomputed for one in done]),
        count_noise=np.concatenate([one.count_noise for one in done]),
    )
    first = parts[0]
    return TrainedModels(
        weights=merged(lambda part: part.weights),
        executed=executed,
        initial=None if first.initial is None else merged(lambda part: part.initial or {}),
        products=None
        if first.products is None
        else np.concatenate([part.products for part in parts if part.products is not None]),
        checkpoints=tuple(
            {name: np.concatenate([part.checkpoints[at][name] for part in parts]) for name in first.checkpoints[at]}
            for at in range(len(first.checkpoints))
        ),
        extra=merged(lambda part: part.extra),
    )
