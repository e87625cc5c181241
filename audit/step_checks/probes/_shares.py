"""The share of a crafted record in the release: what it releases alone, if it adds just that to the batches that are tried.

Pairs of batches then move as far as records alone do. If a step is no such sum, each pair is tried.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from audit.step_checks.batches import Batch
from audit.step_checks.step_under_test import StepUnderTest
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors, norm

EVERY, SOME, FEW = 0, 1, 4  # pairs: all; each record once in each position; each fourth of these
Pair = tuple[str, Batch, str, str, Batch]  # name of the batch, the batch, name of the record, its position, the neighbour


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """A record that was added to a batch.

    Attributes:
        location: in words.
        record: its name.
        base, neighbour: the batch without it and with it.
        release: of the batch without it.
        rest: norm of what its release moves beside what the record releases alone.
    """

    location: str
    record: str
    base: Batch
    neighbour: Batch
    release: Tensors
    total: Tensors
    rest: float


def pairs(bench: StepUnderTest, kind: int) -> Iterator[Pair]:
    """Yield batches with a record added to them: all, or each record first in one batch and last in another."""
    bases = [named for named in bench.bases() if kind == EVERY or len(named[1][0])]
    for at, (name, record) in enumerate(bench.records.items()):
        for i in range(2) if kind else ():
            if (2 * at + i) % kind == 0:
                base_name, base = bases[(2 * at + i) % len(bases)]
                yield base_name, base, name, *list(bench.additions(base, record))[i]
    for base_name, base in bases if kind == EVERY else ():
        for name, record in bench.records.items():
            for position, neighbour in bench.additions(base, record):
                yield base_name, base, name, position, neighbour


def additions(bench: StepUnderTest, setting: Setting, alone: dict[str, Tensors], tried: Iterable[Pair]) -> Iterator[Addition]:
    """Yield what each pair's release moves, beside what its record releases alone."""
    releases: dict[str, Tensors] = {}
    for base_name, base, name, position, neighbour in tried:
        if base_name not in releases:
            releases[base_name] = bench.release(base, setting)
        release, total = releases[base_name], bench.release(neighbour, setting)
        rest = norm({key: total[key] - release[key] - alone[name][key] for key in total})
        location = f"{name} record put {position} to {base_name}"
        yield Addition(location=location, record=name, base=base, neighbour=neighbour, release=release, total=total, rest=rest)


def shares(bench: StepUnderTest, setting: Setting, kind: int) -> dict[str, Tensors] | None:
    """Return what each crafted record releases alone, if that is what it adds in the pairs that are tried; else None."""
    if bench.random or not bench.adjusts("noise_multiplier"):
        return None
    alone = {name: bench.release(record, setting) for name, record in bench.records.items()}
    if not all(norm(share) < float("inf") for share in alone.values()):
        return None
    moved = additions(bench, setting, alone, pairs(bench, kind))
    holds = all(addition.rest <= bench.tolerance(setting, addition.neighbour) for addition in moved)
    return alone if holds else None
