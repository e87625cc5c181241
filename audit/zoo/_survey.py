"""The claim of each entry of the zoo, its true epsilon, and which checks refute it at which cost."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit import plugins
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError
from audit.core.events import Event, dp_sgd
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.run import check_step
from audit.zoo import _loops, _releases
from audit.zoo._reference import DpSgdStep, small_parameters

STEPS, LOOPS, RELEASES = "audit.zoo.steps", "audit.zoo.loops", "audit.zoo.releases"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooClaim:
    """What every entry claims: DP-SGD with Poisson samples, and the delta at which it is compared with that."""

    noise_multiplier: float
    clip_norm: float
    divisor: float
    sample_rate: float
    steps: int
    delta: float

    @property
    def setting(self) -> dict[str, float]:
        """Return what a step is called with."""
        return {"noise_multiplier": self.noise_multiplier, "clip_norm": self.clip_norm, "divisor": self.divisor}

    def event(self, noise_multiplier: float | None = None) -> Event:
        """Return the training as accountants take it, at another noise multiplier if one is given."""
        noise = self.noise_multiplier if noise_multiplier is None else noise_multiplier
        return dp_sgd(noise_multiplier=noise, clip_norm=self.clip_norm, sample_rate=self.sample_rate, steps=self.steps)


PLAN = ZooClaim(noise_multiplier=2.0, clip_norm=2.0, divisor=16.0, sample_rate=0.1, steps=50, delta=1e-5)
LOOP_PLAN = _loops.LoopPlan()
STEP, LOOP, RELEASE = "`audit step`", "`audit.record`", "`audit mechanism`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry and the checks that refuted it.

    Attributes:
        name: of its file.
        audit: that an entry of this kind is for: of a step, a loop or a release.
        wrong: what is wrong, in a sentence; "" for a correct twin.
        visibility: where.
        claim: epsilon that is claimed.
        truth: lower and upper end of what the entry is worth. Of a step: 0 and an upper bound of the training that is claimed
            with the noise that is left, infinite if none is.
        checks: ids of the checks that failed.
        seconds: CPU time of all checks.
    """

    name: str
    audit: str = STEP
    wrong: str
    visibility: str
    claim: float
    truth: tuple[float, float]
    checks: tuple[str, ...]
    seconds: float


def survey(names: Sequence[str] = (), progress: Callable[[str], None] = lambda name: None) -> list[Entry]:
    """Return one row per entry, all of them if no names are given.

    Args:
        names: of entries; `package.module:Class` for one of your own, a subclass of `DpSgdStep`, `Loop` or `ZooRelease`.
        progress: called with each name.

    Raises:
        ConfigError: no entry has that name.
    """
    kinds = folders()
    entries = []
    for name in names or kinds:
        progress(name)
        kind = _foreign_kind(name) if ":" in name else kinds.get(name)
        if kind is None:
            raise ConfigError(f"the zoo has no '{name}'.{plugins.hint(name, tuple(kinds))} It has: {', '.join(kinds)}")
        entries.append(_KINDS[kind](name, plugins.find(kind, name)()))
    return entries


def folders() -> dict[str, str]:
    """Return the package of each entry, by name: steps, then loops, then releases."""
    return {name: kind for kind in _KINDS for name in plugins.names(kind)}


def _foreign_kind(name: str) -> str:
    """Return the package of the entries that a third party's class is like.

    Raises:
        ConfigError: it cannot be loaded, or is not a subclass of the entries' classes.
    """
    entry = plugins.find(STEPS, name)
    bases = {STEPS: DpSgdStep, LOOPS: _loops.Loop, RELEASES: _releases.ZooRelease}
    for package, base in bases.items():
        if issubclass(entry, base):
            return package
    names_of_bases = ", ".join(f"{base.__module__}:{base.__name__}" for base in bases.values())
    raise ConfigError(f"'{name}' is not a subclass of an entry's class; expected one of {names_of_bases}")


def _survey_step(name: str, step: Any) -> Entry:
    stream = np.random.default_rng(0)
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    start = time.process_time()
    report = check_step(
        step, small_parameters(), sample, noise_multiplier=PLAN.noise_multiplier, clip_norm=PLAN.clip_norm, divisor=PLAN.divisor
    )
    return Entry(
        name=name,
        wrong=step.wrong,
        visibility=step.visibility,
        claim=claim_epsilon(PLAN.noise_multiplier),
        truth=(0.0, claim_epsilon(step.effective_noise(**PLAN.setting))),
        checks=tuple(finding.check for finding in (*report.failures, *report.weaknesses)),
        seconds=time.process_time() - start,
    )


def _survey_loop(name: str, loop: _loops.Loop) -> Entry:
    start = time.process_time()
    log = _loops.observe(loop, LOOP_PLAN)
    findings = log.check(sample_rate=loop.accounted_rate(LOOP_PLAN), steps=loop.accounted_steps(LOOP_PLAN))
    return Entry(
        name=name,
        audit=LOOP,
        wrong=loop.wrong,
        visibility=loop.visibility,
        checks=tuple(finding.check for finding in findings if finding.status is PropertyStatus.FAILED),
        seconds=time.process_time() - start,
        claim=_loops.claim(loop, LOOP_PLAN),
        truth=loop.truth(LOOP_PLAN),
    )


def _survey_release(name: str, release: _releases.ZooRelease) -> Entry:
    start = time.process_time()
    report = _releases.audit_release(release)
    return Entry(
        name=name,
        audit=RELEASE,
        wrong=release.wrong,
        visibility=release.visibility,
        claim=release.epsilon,
        truth=release.exact(),
        checks=_releases.failures(release, report),
        seconds=time.process_time() - start,
    )


_KINDS: Mapping[str, Callable[[str, Any], Entry]] = {STEPS: _survey_step, LOOPS: _survey_loop, RELEASES: _survey_release}


def claim_epsilon(noise_multiplier: float) -> float:
    """Return the epsilon of the training with that noise multiplier; infinite without noise."""
    if noise_multiplier == 0:
        return math.inf
    accountant = plugins.build("audit.accounting.accountants", {"kind": "renyi"})
    return float(accountant.claim(PLAN.event(noise_multiplier), delta=PLAN.delta, adjacency=Adjacency.ADD_REMOVE).epsilon)
