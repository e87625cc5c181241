"""What the step checks say of every entry of the zoo, beside what its claim is worth."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from audit import plugins
from audit.core.adjacency import Adjacency
from audit.core.events import dp_sgd
from audit.step_checks.run import check_step
from audit.zoo._reference import small_parameters

FOLDER = "audit.zoo"
NOISE, CLIP_NORM, DIVISOR = 1.0, 1.0, 16.0
SAMPLE_RATE, STEPS, DELTA = 0.01, 1000, 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One wrong step and the checks that refuted it.

    Attributes:
        name: of its file.
        wrong: what is wrong, in a sentence; "" for a correct twin.
        visibility: where.
        epsilon: of 1,000 steps at rate 0.01 with the noise that is left, at delta 1e-5; infinite where none is.
        checks: ids of the checks that failed.
        seconds: wall time of all checks.
    """

    name: str
    wrong: str
    visibility: str
    epsilon: float
    checks: tuple[str, ...]
    seconds: float


def survey(names: Sequence[str] = (), progress: Callable[[str], None] = lambda name: None) -> list[Entry]:
    """Return one row per entry, all of them where no names are given.

    Raises:
        ConfigError: no entry has that name.
    """
    stream = np.random.default_rng(0)
    sample = (stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16))
    entries = []
    for name in names or plugins.names(FOLDER):
        progress(name)
        step = plugins.find(FOLDER, name)()
        start = time.perf_counter()
        report = check_step(step, small_parameters(), sample, noise_multiplier=NOISE, clip_norm=CLIP_NORM, divisor=DIVISOR)
        entries.append(
            Entry(
                name=name,
                wrong=step.wrong,
                visibility=step.visibility,
                epsilon=epsilon_of(step.effective_noise(NOISE, CLIP_NORM, DIVISOR)),
                checks=tuple(finding.check for finding in report.failures),
                seconds=time.perf_counter() - start,
            )
        )
    return entries


def epsilon_of(noise_multiplier: float) -> float:
    """Return the epsilon of the training with that noise multiplier; infinite without noise."""
    if noise_multiplier == 0:
        return math.inf
    accountant = plugins.build("audit.accounting.accountants", {"kind": "renyi"})
    event = dp_sgd(noise_multiplier=noise_multiplier, clip_norm=CLIP_NORM, sample_rate=SAMPLE_RATE, steps=STEPS)
    return float(accountant.claim(event, delta=DELTA, adjacency=Adjacency.ADD_REMOVE).epsilon)


HEAD = """# The zoo: wrong DP-SGD steps, and what refutes them

Each entry is a step with one defect (`audit/zoo`, one file each). All claim the same: noise multiplier 1, clip norm 1, and for
{steps:,} steps at rate {rate} epsilon {claimed:.2f} at delta {delta:g} (Renyi accounting). Made by
`audit zoo --page docs/zoo.md`; a test fails where an entry is no longer refuted by the check that names its defect.

Refuted by `audit step`: {caught} of {wrong} wrong steps, and {accused} of {correct} correct twins.

Epsilon: what the noise that is left is worth against the worst neighbours in batches of {divisor:.0f}, an upper bound by the
same accountant; infinite where some coordinate, or some record, is released without effective noise. Entries at the claimed
{claimed:.2f} leak at other settings only (another noise multiplier or clip norm, to which the checks go), or add more noise
than claimed.

| Entry | What is wrong | Seen in | Epsilon | Failed checks |
|---|---|---|---|---|
"""
TAIL = """
Not in a step, and so not here: batches that are shuffled but accounted as Poisson samples, rates rounded by drop-last, steps
counted per epoch (`audit.record`, [step checks](step-checks.md)); accountants with the wrong adjacency or formula
(`audit accountant check`, [accountants](accountants.md)); tuning on private data, which no check can see.
"""


def page(entries: Sequence[Entry]) -> str:
    """Return docs/zoo.md."""
    wrong = [entry for entry in entries if entry.wrong]
    head = HEAD.format(
        steps=STEPS,
        rate=SAMPLE_RATE,
        claimed=epsilon_of(NOISE),
        delta=DELTA,
        divisor=DIVISOR,
        caught=sum(bool(entry.checks) for entry in wrong),
        wrong=len(wrong),
        accused=sum(bool(entry.checks) for entry in entries if not entry.wrong),
        correct=len(entries) - len(wrong),
    )
    return head + "".join(_row(entry) for entry in entries) + TAIL


def _row(entry: Entry) -> str:
    epsilon = "infinite" if math.isinf(entry.epsilon) else f"{entry.epsilon:.3g}"
    checks = ", ".join(entry.checks) or "none"
    return f"| `{entry.name}` | {entry.wrong or 'nothing'} | {entry.visibility} | {epsilon} | {checks} |\n"
