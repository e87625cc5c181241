"""What the step checks, and audits that train, say of every entry of the zoo, beside what its claim is worth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from audit import plugins
from audit.core.adjacency import Adjacency
from audit.step_checks.run import check_step
from audit.zoo._reference import small_parameters
from audit.zoo._trainings import Proof, ZooClaim, prove

FOLDER = "audit.zoo"
PLAN = ZooClaim(noise_multiplier=2.0, clip_norm=2.0, divisor=16.0, sample_rate=0.1, steps=50, delta=1e-5)
STEP = "`audit step`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One wrong step and the checks that refuted it.

    Attributes:
        name: of its file.
        wrong: what is wrong, in a sentence; "" for a correct twin.
        visibility: where.
        epsilon: of the training that is claimed with the noise that is left, at delta 1e-5; infinite where none is.
        checks: ids of the checks that failed.
        seconds: CPU time of all checks.
        proofs: what audits that train prove; none where they were not asked for.
    """

    name: str
    wrong: str
    visibility: str
    epsilon: float
    checks: tuple[str, ...]
    seconds: float
    proofs: tuple[Proof, ...] = ()

    def refutations(self) -> dict[str, bool]:
        """Return which audits refute the claim, the step checks first."""
        claim = epsilon_of(PLAN.noise_multiplier)
        return {STEP: bool(self.checks)} | {proof.audit: proof.epsilon > claim for proof in self.proofs}


def survey(
    names: Sequence[str] = (), progress: Callable[[str], None] = lambda name: None, *, trainings: bool = False
) -> list[Entry]:
    """Return one row per entry, all of them where no names are given; with audits that train where `trainings` says so.

    Raises:
        ConfigError: no entry has that name.
    """
    stream = np.random.default_rng(0)
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    entries = []
    for name in names or plugins.names(FOLDER):
        progress(name)
        step = plugins.find(FOLDER, name)()
        start = time.process_time()
        report = check_step(
            step,
            small_parameters(),
            sample,
            noise_multiplier=PLAN.noise_multiplier,
            clip_norm=PLAN.clip_norm,
            divisor=PLAN.divisor,
        )
        entries.append(
            Entry(
                name=name,
                wrong=step.wrong,
                visibility=step.visibility,
                epsilon=epsilon_of(step.effective_noise(**PLAN.setting)),
                checks=tuple(finding.check for finding in report.failures),
                seconds=time.process_time() - start,
                proofs=tuple(prove(step, PLAN)) if trainings else (),
            )
        )
    return entries


def epsilon_of(noise_multiplier: float) -> float:
    """Return the epsilon of the training with that noise multiplier; infinite without noise."""
    if noise_multiplier == 0:
        return math.inf
    accountant = plugins.build("audit.accounting.accountants", {"kind": "renyi"})
    return float(accountant.claim(PLAN.event(noise_multiplier), delta=PLAN.delta, adjacency=Adjacency.ADD_REMOVE).epsilon)
