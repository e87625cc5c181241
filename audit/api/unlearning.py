"""How far forgetting is from never having seen: canaries that are trained on and then forgotten, or never there, by coins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from audit.api.training import CheckTerms, TrainingReport, check_system, make_claim, minus_loss, remark_repeats
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed, new_seed
from audit.data import loaders

NEAR = 0.01  # how far canaries are moved to be asked about beside, in standard deviations of each column of the data
CANARY = "records that are trained on and then forgotten, or never there"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnlearningReport(TrainingReport):
    """What canaries prove of a method of unlearning."""

    @property
    def distance(self) -> tuple[float, float]:
        """The (epsilon, delta) that forgetting is at least away from never having seen; epsilon 0 if nothing is proven.

        Between two requests there are two such distances: if forgetting were (e, d)-close to training without, they would be
        (2 e, (1 + e^e) d)-close to each other.
        """
        bound = self.bound
        if bound is None:
            return 0.0, self.verdict.claim.delta
        if self.game.canaries == 1:
            return bound.epsilon, bound.delta
        return bound.epsilon / 2, bound.delta / (1 + math.exp(bound.epsilon / 2))


def check_unlearning(
    train: Callable[..., Any],
    forget: Callable[..., Any],
    data: Any,
    canaries: Any,
    *,
    epsilon: float,
    delta: float = 1e-5,
    runs: int = 1,
    references: int = 8,
    together: bool = False,
    confidence: float = 0.95,
    seed: int | None = None,
    score: Callable[..., Any] | None = None,
    title: str = "",
    command: str = "audit.check_unlearning",
) -> UnlearningReport:
    """Hold a method of unlearning against a certified claim: after forgetting, a system is as if it never saw the records.

    Each run trains on the data and the canaries with true coins, asks for these to be forgotten, and scores all canaries. A
    retrained twin, trained on the data alone, is the control: coins that predict its scores make the audit invalid.

    Args:
        train, data, canaries, score, references: as of `audit.check_training`. References also train and forget, so that
            forgetting too much, such as never naming a forgotten label again, is found as well. With them, canaries of
            numbers are also scored a little moved (`NEAR`), which finds answers that change for the forgotten records alone.
        forget: `forget(system, request, data, seed) -> system`: `request` holds the canaries that were trained on, `data` all
            other records. Nothing is asked of it if no coin fell on trained.
        epsilon, delta: claimed for any request, compared with training on the remaining records (certified removal).
        together: one coin a run for all canaries, so that each run is a request or a plain training. Many runs are needed;
            the claim is put to the test as it is. Without it coins of one run decide who is in one request, and two requests
            may each be epsilon from never having seen: the claim allows `2 epsilon` at `(1 + e^epsilon) delta` between them.

    Guarantee: as of `audit.check_training`; the claim of two requests is in docs/theory/groups.md, "Two requests to forget".

    Raises:
        DataError: as of `audit.check_training`, or a coin a run and fewer than two runs.
        ConfigError: no data to train a twin on.
    """
    from audit.bounds import group_privacy
    from audit.data.row_containers import read_rows
    from audit.experiment.external.system_game import Rounds, SystemUnderTest

    if data is None:
        raise ConfigError("data is None, so that nothing is left to train a twin on; give the records that are never forgotten")
    alone = together or len(read_rows(canaries, "canaries")) == 1
    if alone and runs < 2:
        reason = "together is True" if together else "canaries hold a single record"
        raise DataError(f"runs is {runs} with one coin a run, since {reason}; a bound needs many runs, such as 60")
    claim = replace(make_claim(epsilon, delta), unit="forgotten record")
    if not alone:
        stated = claim
        claim = replace(
            group_privacy.claim(claim, 2),
            unit="forgotten record",
            note=f"what a claim of {stated.epsilon:g} at delta {stated.delta:g} allows between two requests",
        )
        if not claim.delta < 1 or not math.isfinite(claim.epsilon):
            raise ConfigError(f"a claim of epsilon {epsilon:g} at delta {delta:g} allows anything between two requests")
    root = new_seed() if seed is None else seed
    near = _move(canaries, data, Seed(root).child("near").numpy()) if references else None
    system = SystemUnderTest(train=train, score=score or minus_loss, data=data, canaries=canaries, forget=forget, near=near)
    terms = CheckTerms(
        claim=claim,
        confidence=confidence,
        seed=root,
        title=title,
        command=command,
        canary=CANARY,
        remarks=remark_repeats(data, canaries),
    )
    report = check_system(system, Rounds(runs=runs, references=references, together=together), terms)
    return UnlearningReport(**{field.name: getattr(report, field.name) for field in fields(report)})


def _move(canaries: Any, data: Any, generator: np.random.Generator) -> Any:
    """Return the canaries with fractional numbers moved by noise, the inputs alone of a pair.

    None if they hold none, or are not of the data's form, which is refused where the game reads both.
    """
    if isinstance(canaries, tuple):
        first = _move(canaries[0], data[0], generator) if isinstance(data, tuple) and data and canaries else None
        return None if first is None else (first, *canaries[1:])
    if not _can_move(canaries, data):
        return None
    if hasattr(canaries, "select_dtypes"):
        frame = canaries.copy()
        for name in canaries.select_dtypes("floating"):
            frame[name] += generator.normal(size=len(frame)) * NEAR * data[name].std()
        return frame
    noise = generator.normal(size=tuple(canaries.shape)) * NEAR * np.nanstd(loaders.array(data), axis=0)
    if isinstance(canaries, np.ndarray):
        return (canaries + noise).astype(canaries.dtype)
    return canaries + canaries.new_tensor(noise)


def _can_move(canaries: Any, data: Any) -> bool:
    """Return whether canaries hold fractional numbers, and the data numbers in the same places."""
    if hasattr(canaries, "select_dtypes"):
        columns = set(canaries.select_dtypes("floating"))
        return bool(columns) and hasattr(data, "select_dtypes") and columns <= set(data.select_dtypes("number"))
    if not hasattr(canaries, "dtype") or not hasattr(data, "dtype") or data.shape[1:] != canaries.shape[1:]:
        return False
    return loaders.array(canaries).dtype.kind == "f" and loaders.array(data).dtype.kind in "fiu"
