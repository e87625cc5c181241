"""The claim of each entry of the zoo, its true epsilon, and which audits refute it at which cost."""

import dataclasses
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.core import files
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, OutputError
from audit.execution import code
from audit.step_checks.findings import PropertyStatus
from audit.step_checks.run import check_step
from audit.zoo import _loops, _releases
from audit.zoo._reference import DpSgdStep, small_parameters
from audit.zoo._trainings import Proof, ZooClaim, prove

STEPS, LOOPS, RELEASES = "audit.zoo.steps", "audit.zoo.loops", "audit.zoo.releases"
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
        proofs: what audits that train prove of a step; none if they were not asked for.
    """

    name: str
    audit: str = STEP
    wrong: str
    visibility: str
    claim: float
    truth: tuple[float, float]
    checks: tuple[str, ...]
    seconds: float
    proofs: tuple[Proof, ...] = ()

    @property
    def doubles(self) -> bool:
        """Return whether the entry is worth twice its claim: a step by its upper bound, what is bracketed by the lower end."""
        return bool(self.wrong) and self.truth[self.audit == STEP] >= 2 * self.claim

    def refutations(self) -> dict[str, bool]:
        """Return which audits refute the claim, the checks first."""
        return {self.audit: bool(self.checks)} | {proof.audit: proof.epsilon > self.claim for proof in self.proofs}


def survey(
    names: Sequence[str] = (),
    progress: Callable[[str], None] = lambda name: None,
    *,
    trainings: bool = False,
    folder: Path | None = None,
) -> list[Entry]:
    """Return one row per entry, all of them if no names are given; with audits that train if `trainings` says so.

    Args:
        names: of entries; `package.module:Class` for one of your own, a subclass of `DpSgdStep`, `Loop` or `ZooRelease`.
        progress: called with each name.
        trainings: whether audits that train are run on steps.
        folder: in which each finished entry is kept, and from which those are taken that the same code left there.

    Raises:
        ConfigError: no entry has that name.
    """
    kinds = folders()
    identity = code.digest()[:12] if folder is not None else ""
    entries = []
    for name in names or kinds:
        progress(name)
        kind = _foreign_kind(name) if ":" in name else kinds.get(name)
        if kind is None:
            raise ConfigError(f"the zoo has no '{name}'.{plugins.hint(name, tuple(kinds))} It has: {', '.join(kinds)}")
        # an entry of a third party may change while this project's code does not: it is never kept
        path = None if folder is None or ":" in name else folder / f"{name}-{'trained-' if trainings else ''}{identity}.json"
        if path is not None and (row := _read(path, name)) is not None:
            entries.append(row)
            continue
        entries.append(_KINDS[kind](name, plugins.find(kind, name)(), trainings))
        if path is not None:
            _write(path, entries[-1])
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


def _write(path: Path, entry: Entry) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(path, json.dumps(dataclasses.asdict(entry)).encode())
    except OSError as error:
        raise OutputError(f"cannot keep '{path}': {error.strerror}; name another folder with --keep") from error


def _read(path: Path, name: str) -> Entry | None:
    """Return the entry of that name that was kept in a file; None, to be computed again, if the file holds no such."""
    try:
        row = files.read_json(path)
    except (OSError, ValueError):  # absent, cut short, or something else
        return None
    if not _is_entry(row) or row["name"] != name:
        return None
    tuples = {"truth": tuple(row["truth"]), "checks": tuple(row["checks"])}
    return Entry(**{**row, **tuples, "proofs": tuple(Proof(**proof) for proof in row["proofs"])})


def _is_entry(row: Any) -> bool:
    """Return whether a JSON value has the keys of an entry and values of their types."""
    if not _has_types(row, _ENTRY_TYPES):
        return False
    return (
        len(row["truth"]) == 2
        and all(isinstance(end, int | float) for end in row["truth"])
        and all(isinstance(check, str) for check in row["checks"])
        and all(_has_types(proof, _PROOF_TYPES) for proof in row["proofs"])
    )


def _has_types(row: Any, types: Mapping[str, Any]) -> bool:
    return isinstance(row, dict) and row.keys() == types.keys() and all(isinstance(row[key], types[key]) for key in types)


_ENTRY_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("name", "audit", "wrong", "visibility"), str),
    **dict.fromkeys(("claim", "seconds"), int | float),
    **dict.fromkeys(("truth", "checks", "proofs"), list),
}
_PROOF_TYPES: Mapping[str, Any] = {"audit": str, "epsilon": int | float, "seconds": int | float}


def _survey_step(name: str, step: Any, trainings: bool) -> Entry:
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
        proofs=tuple(prove(step, PLAN)) if trainings else (),
    )


def _survey_loop(name: str, loop: _loops.Loop, trainings: bool) -> Entry:
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


def _survey_release(name: str, release: _releases.ZooRelease, trainings: bool) -> Entry:
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


_KINDS: Mapping[str, Callable[[str, Any, bool], Entry]] = {STEPS: _survey_step, LOOPS: _survey_loop, RELEASES: _survey_release}


def claim_epsilon(noise_multiplier: float) -> float:
    """Return the epsilon of the training with that noise multiplier; infinite without noise."""
    if noise_multiplier == 0:
        return math.inf
    accountant = plugins.build("audit.accounting.accountants", {"kind": "renyi"})
    return float(accountant.claim(PLAN.event(noise_multiplier), delta=PLAN.delta, adjacency=Adjacency.ADD_REMOVE).epsilon)
