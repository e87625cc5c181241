"""Two runs beside each other: whether they released the same things, what that costs, and what else differs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.replays.losses import Loss
from audit.replays.part_losses import part_loss
from audit.replays.recording import CHOICE, DECLARED, ReleaseEntry, Schedule
from audit.replays.run import ProgramRun
from audit.replays.transcripts import cut

_LIMIT = 5  # differences that are listed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayComparison:
    """What a replay on a neighbour showed.

    Attributes:
        loss: of the releases; None if nothing can be said of it.
        divergence: the first release that differs in kind, place or number; nothing is concluded after it.
        differences: paths of what was returned or survives and differs although all releases are equal.
        error: an exception, and on which side.
        gaps: sources of randomness of unknown law.
        seeds: True if both runs seeded their generators alike.
    """

    loss: Loss | None
    divergence: str | None = None
    differences: tuple[str, ...] = ()
    error: str | None = None
    gaps: tuple[str, ...] = ()
    seeds: bool = True

    @property
    def is_clean(self) -> bool:
        """True if the pair differs in nothing but what its loss counts."""
        return self.loss is not None and not (self.divergence or self.differences or self.error or self.gaps) and self.seeds


def compare(first: ProgramRun, second: ProgramRun) -> ReplayComparison:
    """Return what differs between a recorded run and its replay on the neighbour."""
    records = first.recording, second.recording
    gaps = tuple(dict.fromkeys(records[0].gaps + records[1].gaps))
    seeds = records[0].seeds == records[1].seeds
    if (first.error or second.error) and not (first.error == second.error and first.refuses and second.refuses):
        side = "both" if first.error and second.error else "the data" if first.error else "the neighbour"
        return ReplayComparison(loss=None, error=f"{first.error or second.error} (on {side})", gaps=gaps)
    divergence = records[1].divergence
    if divergence is None and len(records[0].releases) != len(records[1].releases):
        site = records[0].releases[len(records[1].releases)].site
        divergence = f"{len(records[0].releases)} releases became {len(records[1].releases)}: none at {site}"
    if divergence is not None:
        return ReplayComparison(loss=None, divergence=divergence, gaps=gaps, seeds=seeds)
    loss = transcript_loss(first, second)
    if isinstance(loss, str):
        return ReplayComparison(loss=None, divergence=loss, gaps=gaps, seeds=seeds)
    differences = tuple(atom_differences(first.atoms, second.atoms))
    unknown = tuple(reason for reason in loss.reasons if "unknown" in reason)
    drawn = [run.entropy.bit_generator.state for run in records]
    if records[0].schedule is not Schedule.COINS and drawn[0] != drawn[1]:  # coins are drawn anew on either side
        unknown += ("how many numbers are drawn depends on the data, and so does the state of the generator",)
    return ReplayComparison(loss=loss, differences=differences, gaps=gaps + unknown, seeds=seeds)


def transcript_loss(first: ProgramRun, second: ProgramRun, subset: Sequence[int] | None = None) -> Loss | str:
    """Return the loss of the releases, of some if `subset` names them, or why the runs cannot be compared."""
    records = first.recording, second.recording
    names = range(len(records[0].releases)) if subset is None else subset
    total = Loss()
    for i in names:
        total = total + _own_loss(records[0].releases[i], records[1].releases[i])
    parts = cut(*records, list(names))
    if isinstance(parts, str):
        return parts
    for part in parts:
        total = total + part_loss(part)
    return total


def _own_loss(first: ReleaseEntry, second: ReleaseEntry) -> Loss:
    if first.kind == CHOICE and first.log_probabilities is not None and second.log_probabilities is not None:
        if first.log_probabilities.shape != second.log_probabilities.shape:
            return Loss(pure=math.inf, exact=False, reasons=(f"{first.site}: a choice among another number of items",))
        impossible = np.isneginf(first.log_probabilities) & np.isneginf(second.log_probabilities)
        with np.errstate(invalid="ignore"):
            worst = float(
                np.max(np.where(impossible, 0.0, np.abs(first.log_probabilities - second.log_probabilities)), initial=0.0)
            )
        return Loss(pure=worst if worst > 1e-12 else 0.0, one_sided=int(worst > 1e-12))
    if first.kind == DECLARED:
        return _declared_loss(first, second)
    return Loss()


def _declared_loss(first: ReleaseEntry, second: ReleaseEntry) -> Loss:
    if first.terms != second.terms:
        return Loss(
            pure=math.inf,
            exact=False,
            reasons=(f"{first.site}: a declared release has other parameters: {first.terms}, {second.terms}",),
        )
    sensitivity, metric, epsilon, sigma = first.terms
    if first.rows.value.shape != second.rows.value.shape:
        return Loss(pure=math.inf, exact=False, reasons=(f"{first.site}: the input of a declared release has another shape",))
    movement = np.abs(first.rows.value - second.rows.value)
    size = {"l1": movement.sum(), "l2": float(np.linalg.norm(movement)), "linf": movement.max(initial=0.0)}[metric]
    if not size > 0 and not np.isnan(size):
        return Loss()
    if not size <= sensitivity * (1 + 1e-9):
        return Loss(
            pure=math.inf,
            reasons=(f"{first.site}: an input moves by {size:.4g} in {metric}, declared {sensitivity:.4g}",),
            exact=False,
        )
    return Loss(mu=size / sigma) if sigma is not None else Loss(pure=epsilon * size / sensitivity)


def atom_differences(first: Sequence[tuple[str, object]], second: Sequence[tuple[str, object]]) -> list[str]:
    """Return the paths at which what two runs left differs, at most a few; the data themselves are no part of it."""
    tables = [{path: atom for path, atom in side if not path.startswith("data")} for side in (first, second)]
    paths = [path for path in {**tables[0], **tables[1]} if not is_same(tables[0].get(path), tables[1].get(path))]
    return paths[:_LIMIT]


def is_same(first: object, second: object) -> bool:
    """True for equal atoms; NaN equals NaN."""
    if isinstance(first, float) and isinstance(second, float):
        return first == second or (math.isnan(first) and math.isnan(second))
    return first == second
