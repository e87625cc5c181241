"""The one way to make the models of a job again, and a trial of whether weights alone make one of them another."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune
from torch.nn.utils.weight_norm import WeightNorm

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.core.training import Executed, TrainingJob, row_texts
from audit.engine.gradients.clipping import stacked_state
from audit.engine.gradients.trials import CODE_ERRORS, model_name
from audit.engine.layers.modes import Modes
from audit.engine.losses import input_tensor
from audit.engine.trial.mixing import alike
from audit.engine.trial.outside_state import State, outside_state, trainable_paths
from audit.models.build import is_foreign, seeded_stream, starting, tensors

_TWINS, _RECORDS = 3, 4
_STREAMS = ("first twin", "second twin")
Form = tuple[tuple[int, ...], torch.dtype, bool]


class OtherModelError(Exception):
    """Reports to a training that one of its models differs from those that its arrangement was made for; the text says how."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelSource:
    """The models that a job's training starts from, made by number: trainer, recomputation and reader all ask here."""

    spec: Mapping[str, Any]  # of the model
    shape: tuple[int, ...]  # of one record
    outputs: int  # of a model for one record, 0 for one number
    seeds: tuple[Seed, ...]  # of the models, in order
    probe: Tensor  # some records of the job, `(n, ...)`
    start: Mapping[str, Any] | None = None  # weights that every model starts from; None for its own

    @classmethod
    def of(cls, job: TrainingJob) -> ModelSource:
        records = job.dataset.test if len(job.dataset.test) else job.dataset.train
        return cls(
            spec=job.model,
            shape=job.dataset.train.inputs.shape[1:],
            outputs=job.dataset.outputs,
            seeds=job.seeds,
            probe=input_tensor(records.inputs[:_RECORDS], torch.float32),
            start=job.start,
        )

    def make(self, model: int) -> nn.Module:
        """Return one model as it is before its training, in its modes of training."""
        return self.from_seed(self.seeds[model])

    def weights(self) -> dict[str, Any]:
        """Return parameters and buffers of all models before their training, name to `(N, ...)`."""
        modules = [self.make(model) for model in range(len(self.seeds))]
        return {name: value.numpy() for name, value in stacked_state(modules, torch.float32, torch.device("cpu")).items()}

    def section(self, models: slice) -> ModelSource:
        """Return the source of some of the models, for which the trial of all has decided."""
        return replace(self, seeds=self.seeds[models]).decide(self.apart)

    def as_trained(self, executed: Executed) -> ModelSource:
        """Return the source with what the trainer of these models found of them, if it says so: no trial is made twice."""
        reasons = row_texts(executed.own_modules)
        if len(reasons) != len(self.seeds):
            return self
        return replace(self).decide(next((reason for reason in reasons if reason), None))

    def decide(self, apart: str | None) -> ModelSource:
        """Set what a trial, or a trainer, has found of these models, and return the source."""
        self.__dict__["apart"] = apart
        return self

    def compare(self, modules: Iterable[nn.Module]) -> str | None:
        """Return `apart`, or in what a model that was made for a training differs though no twin of the trial did.

        `ConfigError` for parameters of other shapes, or frozen in some models only.
        """
        first: _FirstState | None = self.__dict__.get("_first")
        if self.apart is not None or first is None:
            return self.apart
        return next((reason for module in modules if (reason := first.difference(module)) is not None), None)

    def from_seed(self, seed: Seed) -> nn.Module:
        """Return the model of any seed, in single precision, with dense gradients of embeddings."""
        module = starting(self.spec, self.shape, self.outputs, seed.child("init"), self.start)
        if any(value.dtype in (torch.bfloat16, torch.float16) for value in tensors(module).values()):
            module.float()  # what the engine computes in, whatever layers were made in
        for layer in module.modules():
            if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
                layer.sparse = False  # the same numbers, which can be clipped
            _detach_computed(layer)
        return module

    def refuse_other(self, model: int, trained: nn.Module) -> None:
        """Raise `ConfigError` if a trained module answers otherwise than this source's model with the same values would.

        Attacks ask the latter, so what a user's training has changed outside of parameters and buffers would be lost.
        """
        own = self.make(model).to(self.probe.device)
        if _agree(*(_answers(module, trained, self.probe, training=(False,)) for module in (trained, own))):
            return
        trained_state, source_state = outside_state(trained.eval()), outside_state(own.eval())
        changing = {path for path, value in outside_state(self.make(model)).items() if source_state.get(path) != value}
        names = [
            repr(path)
            for path in {**source_state, **trained_state}
            if path not in changing and trained_state.get(path) != source_state.get(path)
        ]
        raise ConfigError(
            f"the trained {model_name(trained)} answers otherwise than the config's model with the same parameters and "
            f"buffers, which is what attacks would ask: the training changed {', '.join(names[:3]) or 'a value elsewhere'}"
            "; make it a buffer (register_buffer), and train the model that is given"
        )

    @functools.cached_property
    def apart(self) -> str | None:
        """Reason for which models of several seeds with the same weights are not the same; None if they are.

        Decided by twins: the first model, made again, and models of two other seeds. What a twin need not show, a value that
        few models draw, is left to `compare`. Models of this project's own architectures are not tried. `ConfigError`, with the
        name of the attribute, if a seed does not decide a model, or no flat vector holds the parameters of all.
        """
        if not is_foreign(self.spec):
            return None
        twins = _Twins(self)
        reason = twins.difference()
        self.__dict__["_first"] = twins.first_state
        return reason


@dataclass(frozen=True, slots=True)
class _FirstState:
    """What the first model of a job holds beside its weights."""

    name: str  # of the model
    state: State  # by path
    forms: Mapping[str, Form]  # of its parameters and buffers
    changing: frozenset[str]  # paths that only count or name the models made

    def difference(self, other: nn.Module) -> str | None:
        """Return in what another model differs; raise `ConfigError` if no flat vector holds the parameters of both."""
        state = outside_state(other)
        paths = (*self.state, *(path for path in state if path not in self.state))
        path = next((path for path in paths if path not in self.changing and self.state.get(path) != state.get(path)), None)
        if path is None:
            return None
        forms = _forms(other)
        name = next((name for name in {**self.forms, **forms} if self.forms.get(name) != forms.get(name)), None)
        if name is None:
            return f"'{path}' differs between models, and is neither a parameter nor a buffer"
        raise ConfigError(
            f"{self.name}: '{name}' is {_words(self.forms.get(name))} in a model of one seed and {_words(forms.get(name))} in "
            "one of another; all models of an audit need parameters of the same names and shapes, trained or frozen alike: let "
            "an argument of the factory decide, not a draw"
        )


class _Twins:
    """A model, the same once more, and models of other seeds."""

    def __init__(self, source: ModelSource) -> None:
        self._source = source
        self.first, self.again = source.make(0), source.from_seed(source.seeds[0])
        self.name = model_name(self.first)
        self.state, self.second = outside_state(self.first), outside_state(self.again)
        self.changing = [path for path in {**self.state, **self.second} if self.state.get(path) != self.second.get(path)]
        self.labels = all(_is_label(state.get(path)) for path in self.changing for state in (self.state, self.second))
        self.first_state = _FirstState(self.name, self.state, _forms(self.first), frozenset(self.changing))
        self.outputs = self._outputs(self.first, _STREAMS[0])

    def difference(self) -> str | None:
        """Return in what models of other seeds differ from the first."""
        self._refuse_unrepeatable()
        reason: str | None = None
        for number in range(1, _TWINS):
            twin = self._source.from_seed(self._source.seeds[0].child("twin", number))
            reason = reason or self.first_state.difference(twin)
            if reason is None and not _agree(self.outputs, self._outputs(twin, _STREAMS[0])):
                reason = "models with the same parameters and buffers give other outputs"
        self._refuse_shared()
        return reason

    def _refuse_shared(self) -> None:
        """Raise `ConfigError` if making another model has changed what the first one gives."""
        if _agree(self.outputs, self._outputs(self.first, _STREAMS[0])):
            return
        current = outside_state(self.first)
        paths = [path for path, value in self.state.items() if "(class" in path and current.get(path) != value]
        value = f"'{paths[0].replace('.(class)', 'its class')}'" if paths else "a value that its class or its file holds"
        raise ConfigError(
            f"{self.name}: making another model changes {value}, and with it what this one gives; models of an audit live at "
            "the same time, so make it a buffer of the model (register_buffer)"
        )

    def _refuse_unrepeatable(self) -> None:
        """Raise `ConfigError` if a seed does not decide a model, or its first call does."""
        self._refuse_untrained()
        alike_outputs = _agree(self.outputs, self._refuse_kept_draws())
        if not self.labels or (self.changing and not alike_outputs):
            names = ", ".join(f"'{path}'" for path in self.changing[:3])
            raise ConfigError(
                f"{self.name}: {names} comes out differently when the model is made twice from the same seed, so the trained "
                "models could not be made again to be attacked; draw by torch, numpy.random or random without a generator of "
                "your own (they are seeded for each model), and let no model count those made before it"
            )
        if not alike_outputs:
            raise ConfigError(
                f"{self.name}: made twice from the same seed, with the same parameters and buffers, it gives other outputs: "
                "it computes with a value that its class or its file shares between models; make that a buffer"
            )

    def _refuse_untrained(self) -> None:
        """Raise `ConfigError` for weights that are no parameters: they ask for a gradient, but no optimiser would move them."""
        paths = trainable_paths(self.state)
        if paths:
            raise ConfigError(
                f"{self.name}: '{paths[0]}' asks for a gradient but is not a parameter of the model, so no training would "
                "change it; make it an nn.Parameter (several in an nn.ParameterList), or detach it if it is to stay as it is"
            )

    def _outputs(self, module: nn.Module, stream: str) -> list[Tensor] | None:
        """Outputs of `module` with the values of the first twin, in both modes; None if its code fails."""
        return _answers(module, self.first, self._source.probe, stream)

    def _refuse_kept_draws(self) -> list[Tensor] | None:
        """Return the second model's outputs; raise `ConfigError` for what a first call draws and later calls use again."""
        self._outputs(self.again, _STREAMS[1])
        current = outside_state(self.again)  # after a first call on one stream; that of the other model was on another
        outputs = self._outputs(self.again, _STREAMS[0])
        new_paths = [path for path, value in current.items() if self.second.get(path) != value]
        if outputs is None or not new_paths:
            return outputs
        later, first_state = outside_state(self.again), outside_state(self.first)
        for path in new_paths:
            if later.get(path) == current[path] != first_state.get(path):
                raise ConfigError(
                    f"{self.name}: '{path}' is drawn when forward() is first called, and used again: neither a parameter nor a "
                    "buffer holds it, so attacks would read other models than were trained; draw it in the constructor"
                )
        return outputs


def _answers(
    module: nn.Module, owner: nn.Module, probe: Tensor, stream: str = _STREAMS[0], training: Sequence[bool] = (True, False)
) -> list[Tensor] | None:
    """Return outputs of `module` with the values of `owner`, in modes of training or not; None if its code fails."""
    modes, outputs = Modes(module), []
    try:
        for trains in training:
            (modes.train if trains else modes.evaluate)()
            values = {name: value.detach().clone() for name, value in tensors(owner).items()}
            with torch.no_grad(), seeded_stream(Seed(0).child(stream)):
                outputs.append(torch.func.functional_call(module, values, (probe.clone(),)))
    except CODE_ERRORS:
        return None
    finally:
        modes.train()
    return outputs


def _agree(left: list[Tensor] | None, right: list[Tensor] | None) -> bool:
    """True if outputs in both modes are alike, or neither model can be run."""
    if left is None or right is None:
        return left is right
    pairs = [pair for pair in zip(left, right, strict=True) if all(isinstance(value, Tensor) for value in pair)]
    return all(values[0].shape == values[1].shape and alike(*values) for values in pairs)


def _detach_computed(layer: nn.Module) -> None:
    """Detach what hooks of `layer` compute from its parameters before each call: only so can it be copied."""
    for hook in layer._forward_pre_hooks.values():
        if isinstance(hook, prune.BasePruningMethod | WeightNorm):
            name = str(hook._tensor_name if isinstance(hook, prune.BasePruningMethod) else hook.name)
            value = vars(layer).get(name)
            if isinstance(value, Tensor):
                setattr(layer, name, value.detach())


def _is_label(value: Hashable) -> bool:
    """True for a whole number or a text, such as a count or a name of the models made so far."""
    return isinstance(value, tuple) and value[0] in (int, str)


def _forms(module: nn.Module) -> dict[str, Form]:
    return {name: (tuple(value.shape), value.dtype, value.requires_grad) for name, value in tensors(module).items()}


def _words(form: Form | None) -> str:
    if form is None:
        return "absent or shared with another layer"
    shape, dtype, is_trained = form
    return f"{'trained' if is_trained else 'not trained'}, {dtype}, of shape {shape}"
