"""A second opinion on gradients: single examples and sums by plain autograd, sharing no arithmetic with the engine."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from audit.core.errors import ExecutionMismatch
from audit.core.seeds import Seed
from audit.engine.gradients.clipping import Clip, Gradients, Rows
from audit.engine.gradients.dropout_draws import cut_rows, kept_factors, still, with_factors
from audit.engine.layers.modes import with_values

Gradient = tuple[dict[str, Tensor], float]  # name to value, and the norm that an error is measured in

RECOMPUTATION_LIMIT = 1e-3  # rounding of single precision stays far below, a wrong norm or gradient far above
_MODELS = 8  # of a job, about, of which something is recomputed
_EARLY_STEP = 2
_NO_CLIP = 1e30  # a norm that no gradient has: the arithmetic of clipping, with every factor 1
_FLOOR = 1e-2
# rounding errors by which parameters are moved, to see if the derivative jumps there; the engine may differ by more than that
_ROUNDINGS, _FARTHER = (0.0, *(1.0, 4.0, 16.0) * 5), 4.0
# how far from a jump the two are compared instead, as a share of the parameters' size: that of the first point, and how much
# farther the next one is, of so many
_AWAY, _FURTHER, _NEIGHBOURS = 1e-5, 1.5, 16
_LARGE = 2.0**30  # the square of a product of two such numbers is near the end of single precision


def plain_gradient(module: nn.Module, values: Mapping[str, Tensor], example: Rows, *, reduction: str = "mean") -> Gradient:
    """The gradient of a loss by plain autograd, name to value, and the norm below which its rounding is not known.

    `values` are parameters and buffers, which are left alone; nothing of `example` is padding; its rows' losses are reduced to
    their "mean" or "sum". A derivative by the outputs is a difference (of a probability and 1) with a rounding error that does
    not shrink with it, so an error is measured relative to a hundredth of what derivatives of size one would give, if the
    gradient is smaller.
    """
    names = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
    own = {name: value.detach().clone() for name, value in values.items()}
    leaves = {name: own[name].requires_grad_() for name in names}

    def work(plain: nn.Module) -> Gradient:
        outputs = plain(example.inputs)
        losses = example.loss.values(outputs, example.labels)
        loss = losses.mean() if reduction == "mean" else losses.sum()
        shifts = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(0)).to(outputs)
        unit = (outputs * shifts).sum() / math.sqrt(outputs.numel())
        gradients = _derivatives(loss, leaves)
        return gradients, _FLOOR * total_norm(_derivatives(unit, leaves))

    return with_values(module, own, work)


def _derivatives(loss: Tensor, leaves: Mapping[str, Tensor]) -> dict[str, Tensor]:
    if not loss.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    parts = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, retain_graph=True)
    return {name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), parts, strict=True)}


def total_norm(gradients: Mapping[str, Tensor]) -> float:
    return math.sqrt(sum(float(value.double().square().sum()) for value in gradients.values()))


def clipped_alone(gradients: Mapping[str, Tensor], clip: Clip) -> dict[str, Tensor]:
    """One example's gradient, name to value, clipped as `clip` says (`norm` is one number); zero if it is not finite."""
    groups: dict[str, list[str]] = {}
    for name in gradients:
        groups.setdefault(name.rpartition(".")[0] if clip.per_layer else "", []).append(name)
    bound = float(clip.norm) / math.sqrt(len(groups))
    clipped_gradients = {}
    for group in groups.values():
        length = total_norm({name: gradients[name] for name in group})
        for name in group:
            clipped_gradients[name] = gradients[name] * min(1.0, bound / length) if length else gradients[name]
    if not all(bool(gradient.isfinite().all()) for gradient in clipped_gradients.values()):
        return {name: torch.zeros_like(gradient) for name, gradient in clipped_gradients.items()}
    return clipped_gradients


class Recomputation:
    """Gradients of some models at an early step and at a random one, compared with the engine's.

    Dropout draws the same for both: factors of a pass of all models are kept, draws of models run one after another held still.
    Of a private training single examples, drawn from the models' own streams, clipped and not clipped; of any other the sum
    over the rows of a pass. `errors` `(N,)`: the largest distance, of clipped gradients over the clip norm, of others over
    their own norm; -1 if nothing was recomputed.
    """

    def __init__(self, modules: Sequence[nn.Module], seeds: Sequence[Seed], models: int, steps: int) -> None:
        self._modules = modules  # one for all models, or one for each
        self._draws = [seed.child("recomputation").numpy().random(2) for seed in seeds]
        self._share = _MODELS / max(models, 1)
        self._early = min(_EARLY_STEP, steps - 1)
        # from the number of steps alone: the same in every chunk of a job
        self._steps = {self._early, int(np.random.default_rng(steps).integers(steps))} if steps else set()
        self.errors = np.full(len(seeds), -1.0)
        self._jumping: set[int] = set()  # models that came to a jump of the derivative

    def due(self, step: int) -> bool:
        return step in self._steps

    def _module(self, engine: Gradients, model: int) -> nn.Module:
        module = self._modules[model if len(self._modules) > 1 else 0]
        return module.to(engine.flat.device, engine.flat.dtype)

    def _rows_to_check(self, rows: Rows) -> dict[int, int]:
        """Model to the row that is recomputed of it."""
        rows_by_model: dict[int, int] = {}
        for model, (coin, place) in enumerate(self._draws):
            real = rows.mask[model].nonzero().flatten().tolist()
            if coin < self._share and real:
                rows_by_model[model] = real[int(place * len(real))]
        return rows_by_model

    def compare(self, step: int, engine: Gradients, rows: Rows, clip: Clip | None) -> None:
        """Recomputes one real row of each chosen model, or the sums over a pass if nothing is clipped.

        Leaves parameters, buffers and `rows` alone. `ExecutionMismatch` if the engine's gradients differ by more than rounding
        at an early step.
        """
        rows_by_model = self._rows_to_check(rows)
        if not rows_by_model:
            return
        if clip is None:
            errors = self._least_errors(engine, lambda: self._sum_errors(engine, rows, rows_by_model))
        else:
            errors = self._least_errors(engine, lambda: self._example_errors(engine, rows, rows_by_model, clip))
        for model, error in errors.items():
            self._note(step, model, error)

    def _least_errors(self, engine: Gradients, work: Callable[[], dict[int, float]]) -> dict[int, float]:
        """Return the errors that `work` finds, model to error: of a model at a jump of its derivative, at a point near by.

        The derivative of ReLU or of a maximum jumps at zero. Where a value is zero within rounding, two right ways land on
        different sides. A wrong way is wrong at a small distance as well, where no value is zero.
        """
        self._jumping.clear()
        errors, before = still(engine, work), engine.flat.clone()
        for neighbour in range(_NEIGHBOURS):
            jumping = self._jumping & errors.keys()
            if not jumping:
                break
            stream = torch.Generator().manual_seed(neighbour)
            for slot in engine.layout.slots:
                values = slot.view(engine.flat)
                shift = torch.randn(values.shape[1:], generator=stream).to(values)
                values.add_(shift * _AWAY * _FURTHER**neighbour * max(float(values.square().mean().sqrt()), 0.1))
            self._jumping.clear()
            again = still(engine, work)
            engine.flat.copy_(before)
            errors |= {model: again.get(model, errors[model]) for model in jumping}
            self._jumping &= jumping
        return errors

    def _error(self, model: int, own: Mapping[str, Tensor], plain: Callable[[int], Gradient]) -> float:
        """Return how far the engine's gradient `own` is from `plain(0)`, and note if that lies at a jump of the derivative.

        `plain(n)` is plain autograd with parameters that are moved by rounding errors, as `_ROUNDINGS` says.
        """
        gradient, unit = plain(0)
        error = _apart(own, gradient) / unit
        if RECOMPUTATION_LIMIT < error < math.inf:
            jump = max(_apart(plain(draw)[0], gradient) / unit for draw in range(1, len(_ROUNDINGS)))
            if error <= _FARTHER * jump:
                self._jumping.add(model)
        return error

    def _sum_errors(self, engine: Gradients, rows: Rows, models: Iterable[int]) -> dict[int, float]:
        """By model the distance of its sum over a pass to plain autograd's."""
        state = {name: value.clone() for name, value in engine.state().items()}
        total = torch.zeros_like(engine.flat)
        with kept_factors(engine) as factors:
            engine.add_sum(rows, None, total)
        for name, value in engine.state().items():
            value.copy_(state[name])  # a layer with its own state (BatchNorm) has moved it
        return {
            model: self._error(model, _part(engine, total, model), functools.partial(self._sum, engine, rows, model, factors))
            for model in models
        }

    def _sum(self, engine: Gradients, rows: Rows, model: int, factors: Sequence[Tensor], draw: int) -> Gradient:
        """The sum of the gradients of all `rows` of one model, with dropout that multiplies by `factors`."""
        mask = rows.mask[model].repeat_interleave(rows.copies)
        section, real = slice(model * len(mask), (model + 1) * len(mask)), mask.nonzero().flatten()
        cuts = cut_rows(factors, section, len(rows.inputs))
        own = [factor.unflatten(0, (len(mask), -1))[real].flatten(0, 1) for factor in cuts]
        values, sample, module = _values(engine, model, draw), rows.whole(section.start + real), self._module(engine, model)
        gradients, floor = plain_gradient(with_factors(module, own) if own else module, values, sample, reduction="sum")
        sums = {name: value / rows.copies for name, value in gradients.items()}
        return sums, max(total_norm(sums), floor, 1e-30)

    def _example_errors(self, engine: Gradients, rows: Rows, rows_by_model: Mapping[int, int], clip: Clip) -> dict[int, float]:
        """By model the distance of one example's gradient, clipped and not clipped, to plain autograd's."""
        mask = torch.zeros_like(rows.mask)
        for model, row in rows_by_model.items():
            mask[model, row] = True
        single = _single_rows(rows, rows_by_model)
        own_total, full = torch.zeros_like(engine.flat), torch.zeros_like(engine.flat)
        with kept_factors(engine) as factors:
            clipping = engine.add_sum(replace(rows, mask=mask), clip, own_total)
        with kept_factors(engine) as single_factors:
            engine.add_sum(single, Clip(norm=_NO_CLIP), full)
        errors = {}
        for model, row in rows_by_model.items():
            place = model * rows.mask.shape[1] + row
            gradient = functools.cache(functools.partial(self._gradient, engine, rows, place, factors))
            plain, own = gradient(0)[0], clip.of_model(model)
            views = rows.inputs[place * rows.copies : (place + 1) * rows.copies]
            norms = (total_norm(plain), 0.0 if clipping is None else float(clipping.norms[model, row]))
            if not all(map(math.isfinite, norms)) and _leaves_range([views, engine.flat[model], *plain.values()]):
                errors[model] = max(0.0, float(own_total[model].double().norm()) / float(own.norm) - 1.0)  # the bound holds
                continue
            errors[model] = self._error(model, _part(engine, own_total, model), functools.partial(_clipped, gradient, own))
            if single_factors:  # other draws
                gradient = functools.cache(functools.partial(self._gradient, engine, single, model, single_factors))
            whole = self._error(model, _part(engine, full, model), functools.partial(_finite, gradient))
            errors[model] = max(errors[model], whole)
        return errors

    def _gradient(self, engine: Gradients, rows: Rows, place: int, factors: Sequence[Tensor], draw: int) -> Gradient:
        """Plain gradient of the example at `place` among those of all models, with dropout that multiplies by `factors`."""
        model = place // rows.mask.shape[1]
        module = self._module(engine, model)
        section = slice(place * rows.copies, (place + 1) * rows.copies)
        own = cut_rows(factors, section, len(rows.inputs))
        return plain_gradient(with_factors(module, own) if own else module, _values(engine, model, draw), rows.whole(section))

    def _note(self, step: int, model: int, error: float) -> None:
        error = error if math.isfinite(error) else math.inf
        self.errors[model] = max(self.errors[model], error)
        if step == self._early and RECOMPUTATION_LIMIT < error < math.inf:  # a model that diverged is set apart, not blamed
            name = type(self._modules[0]).__name__
            raise ExecutionMismatch(
                f"step {step + 1}, model {model} of its chunk ({name}): the engine's gradient differs "
                f"from plain autograd's by {error:.2g} of its size, where rounding stays below {RECOMPUTATION_LIMIT:g}: it "
                "would train other models than the module. Look in forward() for what depends on the size of the batch"
            )


def _leaves_range(values: Iterable[Tensor]) -> bool:
    """True if numbers of single precision are so large, or none, that a squared norm of their products may be infinite."""
    return any(bool((~(value.abs() <= _LARGE)).any()) for value in values if value.is_floating_point())


def _single_rows(rows: Rows, rows_by_model: Mapping[int, int]) -> Rows:
    """One row of each model: the chosen one, or the first, which does not count."""
    models, row_count = rows.mask.shape
    places = torch.tensor([model * row_count + rows_by_model.get(model, 0) for model in range(models)], device=rows.mask.device)
    real = torch.tensor([[model in rows_by_model] for model in range(models)], device=rows.mask.device)
    views = (places.unsqueeze(1) * rows.copies + torch.arange(rows.copies, device=rows.mask.device)).flatten()
    records = None if rows.records is None else rows.records[views]
    return replace(rows, inputs=rows.inputs[views], labels=rows.labels[views], mask=real, records=records)


def _clipped(gradient: Callable[[int], Gradient], clip: Clip, draw: int) -> Gradient:
    return clipped_alone(gradient(draw)[0], clip), float(clip.norm)


def _finite(gradient: Callable[[int], Gradient], draw: int) -> Gradient:
    """A gradient that is not clipped, or zero if it is not finite."""
    plain, floor = gradient(draw)
    finite = clipped_alone(plain, Clip(norm=_NO_CLIP))
    return finite, max(total_norm(finite), floor, 1e-30) if math.isfinite(floor) else math.inf  # nothing is known then


def _values(engine: Gradients, model: int, draw: int) -> dict[str, Tensor]:
    """Parameters and buffers of one model; with a `draw` above 0 moved by some of their rounding errors."""
    values = {name: value[model] for name, value in engine.state().items()}
    stream = torch.Generator().manual_seed(draw)
    for name, value in values.items() if draw else ():
        if value.is_floating_point():
            shift = torch.randn(value.shape, generator=stream).to(value)
            values[name] = value * (1 + _ROUNDINGS[draw] * torch.finfo(value.dtype).eps * shift)
    return values


def _part(engine: Gradients, total: Tensor, model: int) -> dict[str, Tensor]:
    """One model's part of `total`, name to value."""
    return {slot.name: slot.view(total)[model] for slot in engine.layout.slots}


def _apart(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> float:
    """Distance between two gradients."""
    apart = [(value - right[name]).double().square().sum() for name, value in left.items()]
    return math.sqrt(float(torch.stack(apart).sum()))
