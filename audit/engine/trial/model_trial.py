"""What is tried out of a model before it is trained, once for all jobs of a run that train the same model on the same data."""

import logging
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from audit.core.data import Array
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip, stacked_state
from audit.engine.gradients.dispatch import differing_buffer, loop_reason
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.trial.examine import Behaviour, Probe, examine
from audit.engine.trial.frozen_features import Split, split_module

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What a trial showed."""

    behaviour: Behaviour  # draws, states and records that mix
    sequential: bool = False  # the models need the slow path
    row_bytes: int = 0  # activations kept for one row of one model, 0 on the slow path and where no path was tried
    split: Split | None = None  # the frozen part before anything trained, with features that represent records; None without


def try_paths(
    module: nn.Module,
    probe: Probe,
    place: tuple[torch.device, torch.dtype],
    *,
    private: bool,
    counterpart: Callable[[], nn.Module],
    whole: bool,
) -> Trial:
    """Return how the model behaves and whether it can share its kernel launches at `place`; raises as `examine`.

    `counterpart` makes a model from another seed. Unless `whole`, a frozen part that can be computed beforehand is looked for.
    """
    behaviour = examine(module, probe, private=private)
    device, dtype = place
    state, sample = stacked_state([module], dtype, device), probe.on(device, dtype)
    alone = behaviour.why_alone or _own_buffer(module, counterpart)
    if alone is not None:
        log.warning("the models are trained one after another, which is slower: %s", alone)
        return Trial(behaviour=behaviour, sequential=True)
    split = None if whole else split_module(module, counterpart, probe.inputs)
    if split is not None:
        features = split.features(sample.inputs, dtype)
        own = {name: state[name] for name in split.head.state_dict()}
        if loop_reason(split.head, own, features, quiet=True) is None:
            row_bytes = _row_bytes(TapeGradients(split.head, own), replace(sample, inputs=features))
            return Trial(behaviour=behaviour, row_bytes=row_bytes, split=split)
    if loop_reason(module, state, sample.inputs) is not None:
        return Trial(behaviour=behaviour, sequential=True)
    return Trial(behaviour=behaviour, row_bytes=_row_bytes(TapeGradients(module, state), sample))


def _own_buffer(module: nn.Module, counterpart: Callable[[], nn.Module]) -> str | None:
    """Return which buffer differs between models of two seeds. If one does, a single model takes the path of several, too."""
    buffers = dict(module.named_buffers())
    second = dict(counterpart().named_buffers()) if buffers else {}
    return differing_buffer((name, value, second[name]) for name, value in buffers.items() if name in second)


def _row_bytes(tape_gradients: TapeGradients, probe: Probe) -> int:
    rows = probe.first(2)
    tape_gradients.tape.numbers = 0
    tape_gradients.begin([Seed(0)])
    tape_gradients.add_sum(rows, Clip(norm=1.0), torch.zeros_like(tape_gradients.flat))
    return 2 * tape_gradients.tape.numbers * tape_gradients.flat.element_size() // max(1, len(rows.inputs))


@dataclass(slots=True)
class KeptTrials:
    """Trials of the last run in this process: they are kept while its records are, and other records drop them."""

    _records: weakref.ref[Array] | None = None
    _trials: dict[Hashable, Trial] = field(default_factory=dict)

    def of(self, records: Array, key: Hashable, trial: Callable[[], Trial]) -> Trial:
        """Return the trial of `key`, made by `trial` unless a job of the same run, which holds the same `records`, made it."""
        if self._records is None or self._records() is not records:
            self._records, self._trials = weakref.ref(records), {}
        trials = self._trials
        if key not in trials:
            trials[key] = trial()
        return trials[key]
