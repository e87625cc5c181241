"""Training N models of one architecture together, with and without differential privacy."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch

from audit.core.errors import ConfigError
from audit.core.training import Executed, Progress, TrainedModels, TrainingJob
from audit.engine.chunk import BrokenSumError, Chunk
from audit.engine.compiled.graphed_sums import GRAPH_ERRORS, CaptureError
from audit.engine.device import find_device, keep_freed_memory, one_precision
from audit.engine.dp_options import Technique
from audit.engine.parameter_layout import ALIGNMENT, align_up
from audit.engine.schedule import Arrangement, ScheduleSettings, arrange
from audit.engine.trial.frozen_features import training_data
from audit.engine.trial.model_source import OtherModelError
from audit.models.build import is_stream_scoped

log = logging.getLogger(__name__)


def train(
    job: TrainingJob, progress: Progress, settings: ScheduleSettings | None = None, technique: Technique | None = None
) -> TrainedModels:
    """The trained models of `job`, with a record of what was really done.

    Each step samples every record by its own coin (Poisson), clips each example's gradient over all parameters to the clip
    norm, adds Gaussian noise to the sum and divides by the expected batch size. Without DP-SGD for a mechanism there is no
    clipping and no noise. Models share nothing but kernel launches: the result of one depends on its seed alone. `progress` is
    called with the model-steps done since its last call. `ConfigError` for a device that is absent, a model or an optimiser
    that cannot be built; `UnsupportedMechanism` for a layer that mixes examples under DP-SGD.

    References:
        Abadi et al. 2016, arXiv 1607.00133; Bu et al. 2022, arXiv 2210.00038 (sums without per-example gradients).
    """
    keep_freed_memory()
    options, total = settings or ScheduleSettings(), len(job.seeds)
    if job.included.shape != (total, len(job.canaries)):
        raise ConfigError(
            f"coins of shape {job.included.shape} for {total} models and {len(job.canaries)} canaries; "
            "expected one row a model and one column a canary"
        )
    arrangement, report = arrange(job, options, technique), _Report(progress)
    while True:
        try:
            return _train(job, report, arrangement, technique or Technique())
        except OtherModelError as error:  # a value that few models draw: the twins of the trial had it in common
            arrangement = arrange(job, options, technique, arrangement.source.decide(str(error)))
        except GRAPH_ERRORS as error:
            if arrangement.graphs is not None:
                raise
            options = replace(options, graphs=False)
            arrangement = replace(arrangement, graphs=False)
            log.warning("the training begins again without CUDA graphs, which is slower: %s", error)
        report.restart()


def _train(job: TrainingJob, progress: Progress, arrangement: Arrangement, technique: Technique) -> TrainedModels:
    device, total = find_device(job.device), len(job.seeds)
    with one_precision(device):
        data = training_data(job, arrangement.dtype, device, arrangement.split)
    parts = [slice(start, min(start + arrangement.model_chunk, total)) for start in range(0, total, arrangement.model_chunk)]

    def run(part: slice, report: Progress) -> TrainedModels:
        def run_part(models: slice, rows: int, hear: _Report) -> TrainedModels:
            own = replace(arrangement, rows=rows)
            try:
                with suppress(BrokenSumError):
                    return Chunk(job, models, data, own, technique).run(hear)
                # the frames that the error held are gone by now, and their memory
                log.warning("an example's gradient is not finite: training begins again, and sums leave such examples out")
                hear.restart()
                return Chunk(job, models, data, replace(own, takes_out=True), technique).run(hear)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                if arrangement.graphs is not None or not _is_memory_error(error):
                    raise
            raise CaptureError("memory ran out, of which graphs take more; train without graphs")

        return _fitting(run_part, part, arrangement.rows, report)

    if arrangement.workers == 1 or is_stream_scoped():  # the stream's holder must not wait for threads that ask for it
        with one_precision(device):
            return join([run(part, progress) for part in parts])
    return join(_on_threads(run, parts, arrangement.workers, progress))


class _Report:
    """Progress that reports each step once, though some are done again."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._ahead, self._count = progress, 0, 0

    def __call__(self, steps: int) -> None:
        self._count += steps
        repeats = min(self._ahead, steps)  # steps that a try which failed has reported already
        self._ahead -= repeats
        if steps > repeats:
            self._progress(steps - repeats)

    def restart(self) -> None:
        """Begin again with the steps reported since the last beginning."""
        self._ahead += self._count
        self._count = 0

    def keep(self) -> None:
        """End a part; its steps stay done."""
        self._count = 0


def _fitting(run: Callable[[slice, int, _Report], TrainedModels], part: slice, rows: int, progress: Progress) -> TrainedModels:
    """Return what `run` gives for `part`, in halves of halves of its models, then of the rows of a pass, if memory runs out.

    A model does not depend on its neighbours, so fewer at once leave the result the same, on a CPU to the last bit. Fewer rows
    add an example's gradient to the sum in another order: the same mechanism, and the same result to rounding. Generators of
    the host give other draws to passes that are cut otherwise, if several layers or views draw.
    """
    waiting, finished_parts, report = [(slice(part.start, part.stop), rows)], [], _Report(progress)
    while waiting:
        models, width = waiting.pop()
        try:
            finished_parts.append(run(models, width, report))
            report.keep()
            continue
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _is_memory_error(error):
                raise
            if models.stop - models.start == 1 and width <= ALIGNMENT:
                error.add_note(
                    f"one model alone does not fit into memory, not even with {width} rows at once: "
                    "take a smaller model, or another device"
                )
                raise
        # the error and the frames that it holds are gone by now
        report.restart()
        waiting += _smaller(models, width)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return join(finished_parts)


def _smaller(models: slice, rows: int) -> list[tuple[slice, int]]:
    """Return what to try in place of the models `models` with `rows` rows at once, last first."""
    if models.stop - models.start == 1:
        half_rows = align_up(rows // 2)
        log.warning(
            "memory ran out with one model and %d rows at once; going on with %d, which may change last bits", rows, half_rows
        )
        return [(models, half_rows)]
    middle = (models.start + models.stop) // 2
    log.warning("memory ran out with %d models at once; going on with %d", models.stop - models.start, middle - models.start)
    return [(slice(middle, models.stop), rows), (slice(models.start, middle), rows)]


def _is_memory_error(error: RuntimeError) -> bool:
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

    def report(steps_finished: int) -> None:
        if stop.is_set():
            raise _StoppedError
        with lock:
            progress(steps_finished)

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


def join(parts: Sequence[TrainedModels]) -> TrainedModels:
    """The models of several trainings of one kind as one value, in order."""
    if len(parts) == 1:
        return parts[0]

    products = [part.products for part in parts if part.products is not None]
    return TrainedModels(
        weights=_merge(part.weights for part in parts),
        executed=join_executed([part.executed for part in parts]),
        initial=None if parts[0].initial is None else _merge(part.initial or {} for part in parts),
        products=np.concatenate(products) if products else None,
        checkpoints=tuple(map(_merge, zip(*(part.checkpoints for part in parts), strict=True))),
        extra=_merge(part.extra for part in parts),
    )


def join_executed(parts: Sequence[Executed]) -> Executed:
    """Return what was measured of several trainings of one kind as one value, in order."""
    names = [entry.name for entry in fields(Executed) if isinstance(getattr(parts[0], entry.name), np.ndarray)]
    return replace(parts[0], **_merge({name: getattr(part, name) for name in names} for part in parts))


def _merge(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arrays of all tables by name, one behind the other."""
    rows = list(tables)
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
