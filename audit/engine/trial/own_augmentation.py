"""A user's augmentation of batches: the same draws for the same seed, and no record that reaches another."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from audit import plugins
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.seeds import Seed
from audit.engine.gradients.trials import same_values
from audit.engine.random.random_operations import EqualDraws
from audit.engine.trial.foreign_streams import foreign_streams
from audit.engine.trial.mixing import alike
from audit.models.build import seeded_stream

_SEEDS = 3  # of trials
_PLACE_SEEDS = 16  # of trials of places: draws may have to pass a threshold that hardly moves
_RECORDS = 16  # that are changed, one at a time
_STREAM_ADVICE = "draw from the generator that it is given (torch.rand(..., generator=generator))"
_SIZES = (11, 13, 17, 19, 23)  # of batches whose length no other axis is likely to have


@dataclass(frozen=True, slots=True)
class OwnAugmentation:
    """A user's `function(inputs, generator)`, named "package.module:function": views of records `(n, ...)`, in their order.

    Draws come from the `torch.Generator` on the CPU that it is given, one of each model, begun anew in every step.
    """

    name: str
    function: Callable[[Tensor, torch.Generator], Tensor]

    def views(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return views of one model's `inputs`; `ConfigError` if the function fails, or their shape or type is another."""
        with plugins.foreign_code(f"augmentation '{self.name}' on a batch of shape {tuple(inputs.shape)}"):
            views = self.function(inputs, generator)
        if not isinstance(views, Tensor) or views.shape != inputs.shape or views.dtype != inputs.dtype:
            kind = f"{views.dtype} of shape {tuple(views.shape)}" if isinstance(views, Tensor) else type(views).__name__
            raise ConfigError(
                f"augmentation '{self.name}' returns {kind} for {inputs.dtype} of shape {tuple(inputs.shape)}; expected as "
                "many records of the same shape and type, in the same order"
            )
        return views


def load_augmentation(name: str) -> OwnAugmentation:
    """Return the augmentation called "package.module:function"; `ConfigError` if there is no such function."""
    if name.count(":") != 1:
        raise ConfigError(f"augmentation is '{name}'; expected 'package.module:function'")
    function = plugins.foreign(name, "augmentation")
    if not callable(function):
        raise ConfigError(f"augmentation '{name}' is {type(function).__name__}; expected a function(inputs, generator)")
    return OwnAugmentation(name, function)


def examine_augmentation(augmentation: OwnAugmentation, records: Tensor) -> None:
    """Try an augmentation out on some `records` `(n, ...)`, on the CPU, at least two.

    One record is changed at a time: the views of all others have to be the same to the last bit, under the same draws. A
    record has to have the same view at another place, and in a smaller batch: without a record those behind it move up. Draws
    move, too, so every record is given the same ones for this (`EqualDraws`). Of a function with draws that cannot be replaced
    (a `randperm`, several numbers a record along one axis) it cannot be tried: it has to treat all places alike, or it is an
    `UnsupportedMechanism`. `ConfigError` if it fails, draws from another stream than its own, or gives no views of the records.
    """

    def views(inputs: Tensor, seed: int) -> Tensor:
        with seeded_stream(Seed(seed)), foreign_streams() as streams_moved:
            before = torch.get_rng_state()
            views = augmentation.views(inputs.clone(), torch.Generator().manual_seed(seed))
            streams = [*streams_moved(), *(["torch"] if not torch.equal(before, torch.get_rng_state()) else [])]
        if streams:
            raise ConfigError(
                f"augmentation '{augmentation.name}' draws from the global stream of {' and '.join(streams)}, so that results "
                f"could not be repeated; {_STREAM_ADVICE}"
            )
        return views

    for seed in range(_SEEDS):
        base = views(records, seed)
        if not same_values(base, views(records, seed)):
            raise ConfigError(
                f"augmentation '{augmentation.name}' gives other views when it is called again with the same seed; "
                f"{_STREAM_ADVICE}, and keep nothing between calls"
            )
        for number, batch in _changes(records):
            remainder = torch.arange(len(records)) != number
            if not same_values(views(batch, seed)[remainder], base[remainder]):
                raise UnsupportedMechanism(
                    f"augmentation '{augmentation.name}': the view of a record changes with another record of the batch, as in "
                    "mixup or batch statistics, so no clipping of one record's gradient bounds its influence; make every view "
                    "of one record alone, with as many draws whatever it holds"
                )
    _refuse_places(augmentation, records)


def _refuse_places(augmentation: OwnAugmentation, records: Tensor) -> None:
    """Raise `UnsupportedMechanism` if a record has another view at another place, given the same draws or none.

    `ConfigError` if it draws from its own generator that begins alike whatever the seed, so by place alone.
    """
    sizes = [size for size in _SIZES if size <= len(records) and size not in records.shape[1:]]
    small, large = (sizes[0], sizes[-1]) if len(sizes) > 1 else (len(records) // 2, len(records))
    full, own_streams = records[:large], set[bytes]()
    for seed in range(_PLACE_SEEDS):
        generator, free, streams = torch.Generator().manual_seed(seed), set[str](), set[bytes]()
        order = torch.randperm(large, generator=torch.Generator().manual_seed(seed))
        start, views = generator.get_state(), []
        for batch in (full, full[order], full[:small]):
            with seeded_stream(Seed(seed)), EqualDraws(len(batch), seed, generator) as draws:
                views.append(augmentation.views(batch.clone(), generator))
            free |= draws.free
            streams |= draws.own_streams
        if own_streams & streams:
            raise ConfigError(
                f"augmentation '{augmentation.name}' draws from a generator of its own that begins alike in every step, so a "
                f"view is a matter of its place in the batch; {_STREAM_ADVICE}"
            )
        own_streams |= streams
        is_drawn = bool(streams) or not torch.equal(generator.get_state(), start)
        if free or (is_drawn and len(sizes) < 2):
            return
        _compare_places(augmentation, views, order)


def _compare_places(augmentation: OwnAugmentation, views: list[Tensor], order: Tensor) -> None:
    """Raise `UnsupportedMechanism` if views of records, of the same in `order`, and of the first ones are not the same."""
    full, reordered_views, first = views
    agrees = alike if full.is_floating_point() else same_values
    if not (agrees(reordered_views, full[order]) and agrees(first, full[: len(first)])):
        raise UnsupportedMechanism(
            f"augmentation '{augmentation.name}': the view of a record changes with its place in the batch, or with the number "
            "of records, and both change for others where one record is taken out, so no clipping of one record's gradient "
            "bounds its influence; make every view of one record alone, with draws for the whole batch at once from the "
            "generator (draws of numpy, or of parts of a batch, cannot be told from a place)"
        )


def _changes(records: Tensor) -> list[tuple[int, Tensor]]:
    """Return batches in which one record is another: that of its neighbour, or itself far away; with its number."""
    batches = []
    for number in range(min(_RECORDS, len(records))):
        values = [records[number - 1]]
        if records.is_floating_point():
            values.append(100.0 - 3.0 * records[number])
        for value in values:
            batch = records.clone()
            batch[number] = value
            batches.append((number, batch))
    return batches
