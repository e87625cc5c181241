"""Audit a model of any kind by a loss of the user's: a function of a batch that gives one number a record."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.phrases import phrase
from audit.core.views import View
from audit.data import loaders, row_containers
from audit.data.members import find_overlap
from audit.data.row_containers import RowContainer, read_rows
from audit.experiment.external.external_models import References
from audit.experiment.external.inspection import Inspection, examine_outputs
from audit.experiment.external.reference_training import ReferenceTraining
from audit.experiment.games.settings import Settings

# `fn(batch) -> (n,)`: the loss of each record of a batch, lower where the model fits the record better
LossOf = Callable[[Any], Any]

BATCH = 256
_REPETITIONS = 32
_SMALLEST = 1e-15  # losses below it are read alike by attacks on probabilities
_WIDEST = 30.0
_CHANGING = (
    "The loss of a record changes when it is asked for again or in another batch: average over draws, take fixed negatives and "
    "evaluation mode in the function, else figures depend on chance and on which records share a batch."
)
_SOFTPLUS = (
    "Some losses are negative or tiny: attacks read the softplus of losses, less their median and divided by their spread, "
    "which keeps their order."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sides:
    """Members and nonmembers; `positions` `(m,)` of those that are audited, members first."""

    members: RowContainer
    nonmembers: RowContainer
    positions: Array

    @property
    def included(self) -> Array:
        return self.positions < len(self.members)

    def losses(self, function: LossOf, name: str) -> Array:
        losses = [_losses(function, rows, side, name) for rows, side in self._by_name()]
        return np.concatenate(losses)[self.positions]

    def beside(self, key: str) -> Array | None:
        """Return `group`, `index` or `unit` of the audited records; `DataError` if only one side has it."""
        first, second = (rows.beside.get(key) for rows, _ in self._by_name())
        if (first is None) != (second is None):
            raise DataError(f"one of members and nonmembers has '{key}', the other has not; give it in both or in neither")
        return None if first is None or second is None else np.concatenate([first, second])[self.positions]

    def _by_name(self) -> list[tuple[RowContainer, str]]:
        return [(self.members, "members"), (self.nonmembers, "nonmembers")]


def examine_losses(
    loss_of: LossOf,
    members: Any,
    nonmembers: Any,
    settings: Settings | None = None,
    references: References | ReferenceTraining | None = None,
) -> Inspection:
    """The report on a model from the loss that a function gives for each record.

    Args:
        loss_of: `fn(batch) -> (n,)`, real numbers, lower if the model fits a record better. A batch has the form of
            the container: arrays or tensors of at most 256 rows, a tuple or dictionary of these, a frame, a list of records, or
            what a loader's `collate_fn` gives.
        members: records that the model was trained on; `nonmembers` others of the same kind.
        references: `References(losses=...)`, `(k, n)`, or `References(loss_of=[...])`, a function for each model.

    Raises:
        ConfigError: something that is no such function, or references of another form.
        DataError: records or losses that cannot be used; the message names what to do.
    """
    settings = settings or Settings()
    _demand_function(loss_of, "loss_of")
    _demand_losses(references)
    full = read_rows(members, "members"), read_rows(nonmembers, "nonmembers")
    sides, sha256 = _without_overlap(*full, settings.overlap)
    index, units = sides.beside("index"), sides.beside("unit")
    by_coins = settings.coins is not None or settings.randomised_seed is not None
    if len(sides.positions) < len(full[0]) + len(full[1]) and (by_coins or index is not None):
        raise DataError(
            "records are on both sides although coins decided on each: leaving them out afterwards would bias the audit; draw "
            "one coin for equal records, as by 'unit' beside them"
        )
    losses = sides.losses(loss_of, _name(loss_of, "loss_of"))
    remarks = _repeat(loss_of, sides, losses)
    values = losses[None]
    if references is not None:
        reference_included, reference_losses = _reference_losses(references, sides, index, len(full[0]) + len(full[1]))
        values = np.concatenate([values, reference_losses])
    values, is_shifted = _positive(values)
    if references is not None:
        order = np.arange(values.shape[1]) if index is None or units is not None else np.argsort(index)
        references = References(included=reference_included[:, order], losses=values[1:, order])
    return examine_outputs(
        View(signals={"losses": values[0]}),
        sides.included,
        settings,
        inputs=_numbers(sides),
        groups=sides.beside("group"),
        units=None if units is None else units.astype(str),
        index=index,
        source=("records given to a loss function", sha256),
        references=references,
        remarks=(*_overlap_remarks(full, sides), *remarks, *([_SOFTPLUS] if is_shifted else [])),
    )


def _overlap_remarks(records: tuple[RowContainer, RowContainer], sides: _Sides) -> list[str]:
    count = len(records[0]) + len(records[1]) - len(sides.positions)
    return [phrase("{count} records were left out because they occur on both sides.", count=count)] if count else []


def _demand_function(value: Any, name: str) -> None:
    if hasattr(value, "parameters") and hasattr(value, "modules"):
        raise ConfigError(
            f"{name} is a module ({type(value).__name__}); expected a function that gives the loss of each record of a batch: "
            "def loss_of(batch): x, y = batch; return torch.nn.functional.cross_entropy(model(x), y, reduction='none')"
        )
    if not callable(value):
        raise ConfigError(
            f"{name} is a {type(value).__name__}; expected a function, fn(batch) -> (n,), the loss of each record"
        )


def _demand_losses(references: References | ReferenceTraining | None) -> None:
    if references is None or (isinstance(references, References) and (references.loss_of or references.losses is not None)):
        return
    raise ConfigError(
        "beside loss_of, references are compared by their losses: References(included=..., losses=...), (k, n), or "
        "References(included=..., loss_of=[fn_1, fn_2, ...]), a function for each model"
    )


def _reference_losses(references: Any, sides: _Sides, index: Array | None, records: int) -> tuple[Array, Array]:
    """Memberships and losses of the references on the audited records, `(k, m)` each, members first."""
    if references.included.shape[1] != records:
        raise DataError(
            f"references.included has a column for {references.included.shape[1]} records but {records} members and nonmembers "
            "are given; expected as many, members first (or in the order of the coins where records carry an index)"
        )
    places = sides.positions if index is None or sides.beside("unit") is not None else index
    if not np.array_equal(np.sort(places), np.arange(records)) and index is not None:
        raise DataError(f"'index' goes from {places.min()} to {places.max()}; expected each of 0 to {records - 1} once")
    if references.losses is not None:
        return references.included[:, places], np.asarray(references.losses, np.float64)[:, places]
    names = [f"function {place + 1} of references.loss_of" for place in range(len(references.loss_of))]
    losses = [sides.losses(function, name) for function, name in zip(references.loss_of, names, strict=True)]
    return references.included[:, places], np.stack(losses)


def _losses(function: LossOf, rows: RowContainer, side: str, name: str) -> Array:
    """Return `function`'s losses of all records of a side, `(n,)` float64."""
    starts = range(0, len(rows), BATCH)
    values = [_ask(function, rows, np.arange(start, min(start + BATCH, len(rows))), side, name) for start in starts]
    return np.concatenate(values)


def _ask(function: LossOf, rows: RowContainer, places: Array, side: str, name: str) -> Array:
    batch, size = rows.take(places), len(places)
    context = f"{name} was given {row_containers.describe(batch)}, {size} of the {side}"
    try:
        result = function(batch)
    except Exception as error:  # whatever a user's function raises is reported with what it was given
        raise ConfigError(
            f"{context}, and raised {plugins.explain(error)}; expected {size} losses, fn(batch) -> (n,)"
        ) from error
    try:
        losses = loaders.array(result)
        if losses.dtype.kind == "O":
            raise TypeError("no numbers")
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"{context}, and gave {'nothing (None)' if result is None else f'a {type(result).__name__}'}; expected {size} "
            f"numbers, ({size},){' (is its return missing?)' if result is None else ''}"
        ) from error
    if losses.shape == (size, 1):
        losses = losses[:, 0]
    if losses.shape != (size,) or losses.dtype.kind not in "biuf":
        raise DataError(
            f"{context}, and gave {losses.dtype} of shape {losses.shape}; expected ({size},): {_advice(losses, size)}"
        )
    bad = ~np.isfinite(losses)
    if bad.any():
        first = int(places[np.flatnonzero(bad)[0]])
        raise DataError(
            f"{context}, and gave {int(bad.sum())} losses that are NaN or infinite, the first for record {first + 1} (counted "
            f"from 1) of the {side}; expected real numbers"
        )
    return losses.astype(np.float64)


def _advice(losses: Array, size: int) -> str:
    if losses.ndim == 0:
        return "a loss for each record, not their mean (reduction='none')"
    if len(losses) == size and losses.dtype.kind in "biuf":
        return "one number a record, for instance the mean over all axes but the first, loss.flatten(1).mean(1)"
    return "one real number for each record of the batch, in their order"


def _name(function: LossOf, otherwise: str) -> str:
    return f"{otherwise} ({getattr(function, '__qualname__', type(function).__name__)})"


def _repeat(function: LossOf, sides: _Sides, losses: Array) -> list[str]:
    """A remark if some members have another loss when they are asked about again, in a smaller batch.

    `DataError` if the records of a batch have one loss, which is another one in another batch.
    """
    rows = sides.positions[sides.included]
    places = rows[:: max(1, len(rows) // _REPETITIONS)][:_REPETITIONS]
    again = _ask(function, sides.members, places, "members", _name(function, "loss_of"))
    before = losses[np.searchsorted(sides.positions, places)]
    first = losses[sides.included][:BATCH]
    if min(len(first), len(again)) > 1 and np.ptp(first) == 0 and np.ptp(again) == 0:
        name = _name(function, "loss_of")
        alone = np.concatenate([_ask(function, sides.members, places[[place]], "members", name) for place in (0, -1)])
        if not np.allclose(alone, first[:2], rtol=1e-6, atol=0):
            raise DataError(
                f"{name} gave {first[0]:.6g} for each of the first {len(first)} members and {alone[0]:.6g} for one of them "
                "alone: the mean of a batch; expected a loss for each record (reduction='none')"
            )
    if np.allclose(again, before, rtol=1e-3, atol=1e-3 * float(np.ptp(losses)) + 1e-12):
        return []
    return [_CHANGING]


def _positive(losses: Array) -> tuple[Array, bool]:
    """Losses in the same order, above 0 as attacks read them, and whether they had to be changed; `(models, n)`."""
    if ((losses == 0) | (losses >= _SMALLEST)).all():
        return losses, False
    deviations = losses - np.median(losses)
    low, high = np.percentile(deviations, [25, 75])
    scale = max(float(high - low), float(np.abs(deviations).max()) / _WIDEST)
    return np.logaddexp(0.0, deviations / scale if scale else deviations), True


def _numbers(sides: _Sides) -> Array | None:
    """Return the records as numbers `(m, d)` if they are any, for the guard that needs no model."""
    parts = [row_containers.read_numbers(rows.take(np.arange(len(rows)))) for rows in (sides.members, sides.nonmembers)]
    if parts[0] is None or parts[1] is None or parts[0].shape[1] != parts[1].shape[1]:
        return None
    return np.concatenate([parts[0], parts[1]])[sides.positions].astype(np.float32)


def _without_overlap(members: RowContainer, nonmembers: RowContainer, overlap: str) -> tuple[_Sides, str]:
    digests = [
        row_containers.digest(rows.take(np.array([place]))) for rows in (members, nonmembers) for place in range(len(rows))
    ]
    names: Sequence[bytes] = [value if value is not None else place.to_bytes(8, "big") for place, value in enumerate(digests)]
    included = np.arange(len(names)) < len(members)
    advice = " (a pair of user and item that was seen twice is one record); remove them, or leave them out by overlap='drop'"
    duplicates, _ = find_overlap(np.array(names, dtype="S16"), included, advice if overlap == "refuse" else "")
    if duplicates.any() and (duplicates | included).all():
        raise DataError("nothing is left on one side after dropping records that are on both; they overlap as a whole")
    sides = _Sides(members=members, nonmembers=nonmembers, positions=np.flatnonzero(~duplicates))
    return sides, hashlib.sha256(b"".join(names)).hexdigest()
