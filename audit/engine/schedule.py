"""How many models run together, on how many threads, in passes of how many rows: decided before training.

Nothing here changes what is computed. The rows of a pass decide in which order an example's gradient enters the
sum, so they depend on the model and the batch law alone, never on the machine's load or the number of models.
"""

import functools
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

from audit import plugins
from audit.core import checks
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.compiled.compiled_cnn import Network
from audit.engine.compiled.compiled_gradients import COMPILE, ROUNDING, choose, compilable, distance_from_torch
from audit.engine.compiled.compiled_mlp import Chain
from audit.engine.device import find_device
from audit.engine.dp_options import Technique
from audit.engine.gradients.clipping import Clip
from audit.engine.losses import USUAL, find_loss, input_tensor, label_tensor
from audit.engine.microbatches import planned_rows
from audit.engine.parameter_layout import ALIGNMENT, Layout
from audit.engine.random.sampling import Law
from audit.engine.trial.architecture_key import architecture_key
from audit.engine.trial.examine import Behaviour, Probe, examine
from audit.engine.trial.frozen_features import Split
from audit.engine.trial.model_source import ModelSource
from audit.engine.trial.model_trial import KeptTrials, Trial, try_paths
from audit.engine.trial.own_augmentation import examine_augmentation, load_augmentation

log = logging.getLogger(__name__)

# type of the products; single precision stands for kernels that read eleven bits of it
PRECISIONS: Mapping[str, torch.dtype | None] = {"float32": None, "tf32": torch.float32, "bfloat16": torch.bfloat16}

_PROBE_RECORDS = 64
_CACHE_BYTES = 5 * 2**20
# of a pass on a CPU: narrow passes have their own cost, wide ones gain nothing more (measured: docs/evidence/speed.md)
_PASS_BYTES = 5 * 2**25
# parameters of the models of a chunk whose sums compiled code makes: small enough that passes over them are quick
_FLAT_BYTES = 2**21
# below this many models the interpreter's share of a step outweighs the cache
_FEW_MODELS, _FEW_BYTES = 4, 2**26
# of a whole batch of one model, from which neighbours gain nothing and padding costs more than the interpreter
_ALONE_BYTES = 2**24
_TRIALS = KeptTrials()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSettings:
    """How the arithmetic is arranged; no setting changes what is computed.

    Attributes:
        compile: as for the trainers: small networks (float32, CPU; `compiled_gradients.COVERED`) by code that this machine's
            compiler makes, if there is one and the code agrees with torch on a few records.
        precision: as for the trainers; tf32 is single precision of which a GPU reads eleven bits.
        counters: batches, noise, flips, shifts and dropout are drawn where the models are, as functions of step and place; None
            does so on a GPU and leaves a CPU its generators. True on a CPU draws what a GPU draws.
        graphs: passes of a GPU are captured as CUDA graphs. None does so for models and losses of libraries, since code of a
            user's may count its calls, which a graph does not repeat; and trains without graphs if a pass cannot be captured
            or repeated. True takes any model, and makes that an error.
    """

    model_chunk: int | None = None  # models trained together; None takes as many as suit the cache (CPU) or the memory (CUDA)
    dtype: torch.dtype = torch.float32  # of parameters, activations and noise
    sequential: bool = False  # the path for modules that no ensemble layer covers, for any module
    rows: int | None = None  # of one pass; None derives them from the batch law and the size of the activations
    compile: str = "off"
    precision: str = "float32"
    counters: bool | None = None
    graphs: bool | None = None

    def __post_init__(self) -> None:
        checks.choice(self.precision, "precision", PRECISIONS)
        checks.choice(self.compile, "compile", COMPILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """What was decided. Without a plan, each model is trained alone, in passes as long as its batch."""

    model_chunk: int  # models trained together
    rows: int  # of one pass over a model's batch, a multiple of 16
    planned: int | None  # rows for which passes of `rows` rows are made; what is beyond them goes through narrow passes
    workers: int  # chunks trained at the same time, each on its own thread
    sequential: bool  # the models need the slow path
    row_bytes: int  # activations kept for one row of one model, 0 on the slow path and in compiled code
    source: ModelSource = field(compare=False)  # of the job's models; its `apart` is why each needs its own module
    architecture: Chain | Network | None = None  # what the models are if compiled code makes their sums; None elsewhere
    products: torch.dtype | None = None  # type of the products on the way forward and back, None for that of the parameters
    draws: bool = False  # their forward pass draws random numbers by other means than layers
    dtype: torch.dtype = torch.float32  # of parameters, activations and noise
    split: Split | None = None  # the models' frozen part, computed once for all records; None if they take records themselves
    counters: bool = False  # draws are functions of step and place, made on the models' device
    graphs: bool | None = False  # passes are captured and repeated; None if they can be
    takes_out: bool = True  # of a sum, examples with a norm that is not finite; else a training with one begins again and does


def arrange(
    job: TrainingJob, settings: ScheduleSettings, technique: Technique | None = None, source: ModelSource | None = None
) -> Arrangement:
    """The arrangement for `job`; `UnsupportedMechanism` for a model that mixes the examples of a batch under DP-SGD."""
    device = find_device(job.device)
    source = source or ModelSource.of(job)
    module = source.make(0)
    technique = technique or Technique()
    if technique.augmentation is not None:
        examine_augmentation(load_augmentation(technique.augmentation), _probe(job).inputs)
    architecture = _compiled(job, settings, technique, module)
    trial = _trial(job, settings, module, compiled=architecture is not None, whole=_is_whole(job, settings, technique))
    with plugins.foreign_code("the model or its loss, tried out before the training", whole=False):
        apart = source.apart
    if apart is not None:
        architecture, trial = None, _separate_trials(job, source)
        log.warning("each model is trained and attacked by its own module, one after another, which is slower: %s", apart)
    slow, shorter = trial.sequential, PRECISIONS[settings.precision]
    counters = device.type != "cpu" if settings.counters is None else settings.counters
    workers = torch.get_num_threads() if device.type == "cpu" else 1
    width = None if architecture is None else Layout.of(module).width
    rows, plan, fit = _sizes(job, settings, trial, counters, width)
    if slow and shorter is not None and architecture is None and fit is not None:
        log.warning("precision: %s has no effect on models that are trained one after another", settings.precision)
    chunk = 1 if fit is None else settings.model_chunk or _chunk(len(job.seeds), fit, workers)
    return Arrangement(
        model_chunk=chunk,
        rows=rows,
        planned=plan,
        workers=min(workers, -(-len(job.seeds) // chunk)),
        sequential=slow,
        draws=bool(trial.behaviour.draws),
        dtype=settings.dtype,
        split=trial.split,
        row_bytes=trial.row_bytes,
        architecture=architecture,
        products=None if slow else shorter,
        counters=counters,
        takes_out=device.type == "cpu",
        graphs=settings.graphs if settings.graphs is not None or _captures_by_default(job, module, device) else False,
        source=source,
    )


def _sizes(
    job: TrainingJob, settings: ScheduleSettings, trial: Trial, counters: bool, width: int | None
) -> tuple[int, int | None, int | None]:
    """Return the rows of a pass, how many are planned for a step, and the models that fit beside one another; None: one alone.

    `width` is that of the flat parameters if compiled code makes the sums, else None.
    """
    device, row_bytes = find_device(job.device), trial.row_bytes
    # canaries that are gradients take no rows; of the others about half are in a model, more only costs passes
    canary_rows = 0 if job.canaries.are_gradients else (len(job.canaries) + 1) // 2
    law = Law(population=len(job.dataset.train) + canary_rows, rate=job.sample_rate)
    if width is not None:  # padding costs compiled code nothing; what is left to torch passes over the flat parameters
        fit = max(_FEW_MODELS, _FLAT_BYTES // (width * settings.dtype.itemsize))
        return settings.rows or law.rows, planned_rows(law), fit
    if settings.rows is None and not counters and not trial.behaviour.mixes and law.rows * row_bytes >= _ALONE_BYTES:
        return _row_limit(row_bytes, device), None, None
    # a model that mixes records is to see each batch whole
    rows = settings.rows or (law.most_rows if trial.behaviour.mixes else _rows(law, row_bytes, device))
    return rows, planned_rows(law), _fitting(len(job.seeds), rows * row_bytes, device)


def _separate_trials(job: TrainingJob, source: ModelSource) -> Trial:
    """Return what any of the models does that are not one another with exchanged weights; each is tried out alone."""
    probe, private = _probe(job), job.noisy is not None
    with plugins.foreign_code("the models or their loss, tried out before the training", whole=False):
        trials = [examine(source.make(model), probe, private=private) for model in range(len(job.seeds))]
    behaviour = Behaviour(
        draws=tuple(sorted({name for trial in trials for name in trial.draws})),
        stateful=tuple(sorted({name for trial in trials for name in trial.stateful})),
        mixes=next((trial.mixes for trial in trials if trial.mixes is not None), None),
    )
    return Trial(behaviour=behaviour, sequential=True)


def _is_whole(job: TrainingJob, settings: ScheduleSettings, technique: Technique) -> bool:
    """True if features of a frozen part would not be those of the training, or cost more than they save."""
    shorter = PRECISIONS[settings.precision] is not None
    return technique.augments or shorter or job.steps * job.sample_rate < 1.0


def _trial(job: TrainingJob, settings: ScheduleSettings, module: nn.Module, *, compiled: bool, whole: bool) -> Trial:
    """Return what the model was seen to do, of an earlier job if only values that training moves are others.

    The key has all that a trial reads of libraries' models; those with code of a user's own are tried out for every job. An
    earlier run's is never used, since a user may have changed code in between.
    """
    probe, private = _probe(job), job.noisy is not None
    place = (find_device(job.device), settings.dtype)

    @functools.cache
    def counterpart() -> nn.Module:
        return ModelSource.of(job).from_seed(Seed(0).child("another model"))

    def trial(whole: bool) -> Trial:
        with plugins.foreign_code("the model or its loss, tried out before the training", whole=False):
            if compiled or settings.sequential:
                return Trial(behaviour=examine(module, probe, private=private), sequential=not compiled)
            return try_paths(module, probe, place, private=private, counterpart=counterpart, whole=whole)

    usual = probe.loss == USUAL
    architecture = architecture_key(module, job.start, {"inputs": probe.inputs, "labels": probe.labels}) if usual else None

    def kept_trial(whole: bool) -> Trial:
        if architecture is None:
            return trial(whole)
        key = (architecture, probe.classes, private, place, settings.sequential, compiled, whole)
        return _TRIALS.of(job.dataset.test.inputs, key, lambda: trial(whole))

    usual_trial = kept_trial(whole)
    records = len(job.dataset.train) + len(job.canaries)  # another number in another job: no trial is kept for it
    if usual_trial.split is not None and not usual_trial.split.fits(records, settings.dtype):
        return kept_trial(whole=True)
    return usual_trial


def _compiled(job: TrainingJob, settings: ScheduleSettings, technique: Technique, module: nn.Module) -> Chain | Network | None:
    """Return what the models are if compiled code makes their sums, as torch does for a few records; why not is logged."""
    if settings.compile == "off":
        return None
    architecture, labels = compilable(module, job.dataset.train.inputs.shape[1:]), job.dataset.train.labels
    reasons = {
        "the device is not a CPU": find_device(job.device).type != "cpu",
        "numbers are not float32": settings.dtype != torch.float32 or PRECISIONS[settings.precision] is not None,
        "the loss is a user's own, or of several labels": bool(job.loss) or labels.ndim != 1 or labels.dtype.kind == "b",
        "records are whole numbers": job.dataset.train.inputs.dtype.kind != "f",
        "each example has several views": technique.copies > 1 or technique.augments,
        "the path for one model after another was asked for": settings.sequential,
    }
    examples = job.steps * job.sample_rate * (len(job.dataset.train) + len(job.canaries))
    if choose(architecture, settings.compile, reasons, examples) is None or architecture is None:
        return None
    probe, private = _probe(job), job.noisy
    clip = None if private is None else Clip(norm=private.clip_norm, per_layer=technique.clipping == "per_layer")
    distance = distance_from_torch(architecture, module, (probe.inputs, probe.labels), clip)
    if not distance <= ROUNDING:
        log.warning("going on with torch's kernels: sums of compiled code differ by %.2g of their size", distance)
        return None
    log.info("sums are made by compiled code, which differs from torch's by %.1g of their size on a few records", distance)
    return architecture


def _probe(job: TrainingJob) -> Probe:
    """Up to 64 records of the job from all of it, at least two (zeros of their shape, if it has fewer), on the CPU."""
    sources = [job.dataset.train] + ([] if job.canaries.records is None else [job.canaries.records])
    sample = [source.take(np.arange(0, len(source), max(1, len(source) // _PROBE_RECORDS))) for source in sources]
    inputs, labels = (
        np.concatenate([getattr(part, name) for part in sample])[:_PROBE_RECORDS] for name in ("inputs", "labels")
    )
    if len(inputs) < 2:
        inputs, labels = (np.zeros((2, *part.shape[1:]), dtype=part.dtype) for part in (inputs, labels))
    return Probe(
        inputs=input_tensor(inputs, torch.float32),
        labels=label_tensor(labels, torch.float32),
        loss=find_loss(job.loss),
        classes=job.dataset.classes,
    )


def _captures_by_default(job: TrainingJob, module: nn.Module, device: torch.device) -> bool:
    return captures(device) and find_loss(job.loss) == USUAL and architecture_key(module) is not None


def captures(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_available()


def _rows(law: Law, row_bytes: int, device: torch.device) -> int:
    planned = planned_rows(law)
    return min(planned, _row_limit(row_bytes, device)) if row_bytes else planned


def _row_limit(row_bytes: int, device: torch.device) -> int:
    """Return how many rows of a model suit one pass: on a CPU by a constant, elsewhere by a quarter of the device's memory.

    Of all its memory, not of what is free: how a batch is cut into passes changes last bits, and must not depend on what else
    runs there. If less is free, running out of it halves the passes.
    """
    pass_bytes = _PASS_BYTES if device.type == "cpu" else torch.cuda.mem_get_info(device)[1] // 4
    return max(ALIGNMENT, pass_bytes // row_bytes // ALIGNMENT * ALIGNMENT)


def _fitting(models: int, model_bytes: int, device: torch.device) -> int:
    """Return how many models suit the cache or the memory, each with activations of `model_bytes`; all if unknown."""
    if model_bytes == 0:
        return models
    if device.type != "cpu":
        return max(1, torch.cuda.mem_get_info(device)[0] // 2 // model_bytes)
    return max(1, _CACHE_BYTES // model_bytes, min(_FEW_MODELS, _FEW_BYTES // model_bytes))


def _chunk(models: int, fit: int, workers: int) -> int:
    """Models of one chunk, so that all workers have as many chunks and no chunk has more than `fit`."""
    rounds = max(1, math.ceil(models / (fit * workers)))
    return max(1, math.ceil(models / (rounds * workers)))
