"""From bounds and checks to a verdict. Pure functions; nothing here can say "safe"."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from audit.core import event_reading
from audit.core.claims import Claim, LowerBound, Outcome, Verdict
from audit.core.data import Array
from audit.core.event_reading import NoisySteps
from audit.core.events import Event
from audit.core.results import Check, Status
from audit.core.training import Executed
from audit.engine.clip_check import RECOMPUTATION_LIMIT

SEVERITY = (Outcome.CONSISTENT, Outcome.OUT_OF_REACH, Outcome.INVALID, Outcome.VIOLATED)
Z_LIMIT = 5.0  # standard errors beyond which an executed quantity counts as different: false alarm below 1e-6


def judge(claim: Claim, bounds: Sequence[LowerBound], *, trusted: bool, executed: bool = True, inside: bool = True) -> Verdict:
    """The verdict on one claim.

    Args:
        claim: with the same delta and adjacency as the bounds.
        bounds: all bounds of the games that were played on this mechanism.
        trusted: every negative control passed.
        executed: no check of what was run against what was accounted for has failed.
        inside: nor has one that shows the run to lie outside of the families of trade-off curves (`outside_families`). Where it
            does, bounds inside a family decide nothing and their epsilon is not stated: it would not be the run's.

    Returns:
        VIOLATED where an admissible bound lies above the claim; INVALID where the control failed, or where
        nothing was refuted but the run was not the accounted one; OUT_OF_REACH where no admissible bound
        could have exceeded the claim; else CONSISTENT.
    """
    able = [bound for bound in bounds if claim.can_be_refuted_by(bound)]
    admissible = [bound for bound in able if inside or bound.family is None]
    best = _deciding(claim, admissible)
    reach = max((bound.ceiling for bound in admissible), default=0.0)
    if not trusted:
        return Verdict(
            claim=claim, outcome=Outcome.INVALID, bound=best, reason="the negative control found more than chance allows"
        )
    if best is not None and best.epsilon > claim.epsilon:
        return Verdict(claim=claim, outcome=Outcome.VIOLATED, bound=best, reason=_above(claim, best))
    if not executed:
        reason = "what was run is not what was accounted for"
        curves = sorted({_curve(bound.family) for bound in able if bound.family and bound.epsilon > claim.epsilon})
        if curves:
            reason += f"; its scores do not fit {' or '.join(curves)} either, which says nothing of the claimed epsilon"
        return Verdict(claim=claim, outcome=Outcome.INVALID, bound=best, reason=reason)
    if reach <= claim.epsilon:
        reason = f"even perfect scores would have proved at most {_down(reach)}, so this audit could not have refuted the claim"
        return Verdict(claim=claim, outcome=Outcome.OUT_OF_REACH, bound=best, reason=reason)
    reason = f"no bound lies above the claim; perfect scores would have proved up to {_down(reach)}"
    return Verdict(claim=claim, outcome=Outcome.CONSISTENT, bound=best, reason=reason)


def outside_families(checks: Sequence[Check]) -> bool:
    """Whether a failed check shows that no member of a family is what was run; noise of another size is another member's."""
    return any(check.status is Status.FAILED and check.code != "noise" for check in checks)


def _deciding(claim: Claim, bounds: Sequence[LowerBound]) -> LowerBound | None:
    """The bound to judge by: one for any mechanism where it refutes the claim, else the largest."""
    free = [bound for bound in bounds if bound.family is None and bound.epsilon > claim.epsilon]
    return max(free or bounds, key=lambda bound: bound.epsilon, default=None)


def of_mechanism(verdicts: Sequence[Verdict]) -> Outcome | None:
    """The outcome for a mechanism: any refuted or invalid claim decides, else the tightest claim; None without claims."""
    outcomes = {verdict.outcome for verdict in verdicts}
    for decisive in (Outcome.VIOLATED, Outcome.INVALID):
        if decisive in outcomes:
            return decisive
    tightest = min(verdicts, key=lambda verdict: verdict.claim.epsilon, default=None)
    return None if tightest is None else tightest.outcome


def worst(outcomes: Sequence[Outcome | None]) -> Outcome | None:
    """The outcome of a whole report: the gravest of its mechanisms'; None where nothing was claimed.

    >>> worst([Outcome.CONSISTENT, None, Outcome.OUT_OF_REACH])
    <Outcome.OUT_OF_REACH: 'out_of_reach'>
    """
    stated = [outcome for outcome in outcomes if outcome is not None]
    return max(stated, key=SEVERITY.index, default=None)


def exit_code(outcome: Outcome | None, gates_met: bool) -> int:
    """What the command answers: 1 for a finding, 3 where nothing could be tested, else 0."""
    if outcome is Outcome.VIOLATED or not gates_met:
        return 1
    return 3 if outcome in (Outcome.OUT_OF_REACH, Outcome.INVALID) else 0


def check_executed(mechanism: Event, executed: Executed) -> tuple[Check, ...]:
    """What the trainer measured of itself against the mechanism that the accountants were given.

    Steps must agree exactly. The batch law is compared through the mean and the dispersion of realised
    batch sizes, the noise through its realised standard deviation, each within five standard errors.
    """
    if not executed.measured:
        value = "nothing was measured: models were trained by the user's own function"
        return (Check(code="execution", item="What was run", value=value, status=Status.GAP),)
    checks = [_steps(mechanism, executed), *_batches(mechanism, executed)]
    claimed = event_reading.noisy_steps(mechanism)
    if claimed is not None:
        checks += [_noise(claimed, executed), _clip(executed), *_recomputed(executed), *_counts(executed)]
    else:
        checks += _recomputed_sums(executed)
    return tuple(checks)


def check_finite(diverged: Array) -> Check:
    """Whether all models `(N,)` stayed finite; signals of one that did not tell an attack nothing."""
    count = int(np.sum(diverged))
    if not count:
        value = f"all {len(diverged)} models stayed finite"
        return Check(code="finite", item="Training", value=value, status=Status.CHECKED)
    named = ", ".join(str(model) for model in np.flatnonzero(diverged)[:8])
    value = f"{count} of {len(diverged)} models diverged ({named}); their outputs count as the same for every record"
    return Check(code="finite", item="Training", value=value, status=Status.GAP)


def _steps(mechanism: Event, executed: Executed) -> Check:
    accounted = event_reading.steps(mechanism)
    value = f"{executed.steps} taken, {accounted} accounted"
    return _row("steps", "Steps", value, executed.steps == accounted)


def _batches(mechanism: Event, executed: Executed) -> list[Check]:
    rate, draws = event_reading.sample_rate(mechanism), executed.batch_sizes.size
    if draws == 0 or rate is None:  # None: no law of Poisson batches to hold them against
        return []
    expected = rate * executed.population[:, None]
    variance = expected * (1 - rate)
    found = float(executed.batch_sizes.mean() / executed.population.mean())
    if rate in (0.0, 1.0):
        exact = bool((executed.batch_sizes == expected).all())
        return [_row("sampling", "Sampling", f"every record in every step with probability {rate:g}", exact)]
    z = (executed.batch_sizes - expected) / np.sqrt(variance)
    mean_ok = abs(z.mean()) * math.sqrt(draws) < Z_LIMIT
    spread = float((z**2).mean())
    spread_ok = abs(spread - 1) * math.sqrt(draws / 2) < Z_LIMIT * (1 + 1 / float(variance.min()))
    return [
        _row("sampling", "Sampling rate", f"{found:.4g} realised, {rate:.4g} accounted", mean_ok),
        _row("sampling-law", "Sampling law", f"Poisson; realised variance {spread:.3f} of the law's", spread_ok),
    ]


def _noise(mechanism: NoisySteps, executed: Executed) -> Check:
    found = executed.noise_multiplier
    error = mechanism.noise_multiplier / math.sqrt(2 * max(executed.noise_draws, 1))
    off = float(np.abs(found - mechanism.noise_multiplier).max())
    value = f"noise multiplier {found.min():.4f} to {found.max():.4f} realised, {mechanism.noise_multiplier:.4f} accounted"
    return _row("noise", "Noise", value, off <= Z_LIMIT * error + 1e-4 * mechanism.noise_multiplier)


def _clip(executed: Executed) -> Check:
    largest = float(executed.largest_norm.max(initial=0.0))
    return _row("clipping", "Clipping", f"largest clipped gradient {largest:.6f} of the clip norm", largest <= 1 + 1e-4)


def _counts(executed: Executed) -> list[Check]:
    found = executed.count_noise
    if not len(found):
        return []
    value = f"noise on the counts of clipped examples {found.min():.3f} to {found.max():.3f} of the accounted"
    off = float(np.abs(found - 1).max())
    return [_row("count-noise", "Noise on counts", value, off <= Z_LIMIT / math.sqrt(2 * executed.steps))]


def _recomputed(executed: Executed) -> list[Check]:
    found = executed.recomputed[executed.recomputed >= 0]
    if not len(found):
        return []
    value = (
        f"clipped gradients of {len(found)} examples recomputed one at a time by plain autograd; "
        f"largest difference {_decade(float(found.max()))} of the clip norm"
    )
    return [_row("clipping-recomputed", "Clipping, recomputed", value, bool(found.max() <= RECOMPUTATION_LIMIT))]


def _recomputed_sums(executed: Executed) -> list[Check]:
    found = executed.recomputed[executed.recomputed >= 0]
    if not len(found):
        return []
    value = (
        f"summed gradients of {len(found)} models recomputed by plain autograd; "
        f"largest difference {_decade(float(found.max()))} of their norm"
    )
    return [_row("gradients-recomputed", "Gradients, recomputed", value, bool(found.max() <= RECOMPUTATION_LIMIT))]


def _decade(value: float) -> str:
    """The next power of ten, at least 1e-6: the last digits of rounding errors are not the same on every machine."""
    return f"below {10.0 ** max(-6, math.floor(math.log10(value)) + 1):.0e}" if 0 < value < math.inf else f"{value:g}"


def _row(code: str, item: str, value: str, holds: bool) -> Check:
    return Check(code=code, item=item, value=value, status=Status.CHECKED if holds else Status.FAILED)


def _above(claim: Claim, bound: LowerBound) -> str:
    """What a bound above the claim shows; inside a family that is the claimed curve refuted, not an epsilon proved."""
    if bound.family is None:
        return (
            f"{bound.estimator} proves epsilon of at least {_down(bound.epsilon)} at confidence {bound.confidence:.6g}, "
            f"above the claimed {claim.epsilon:.4g}"
        )
    return (
        f"{bound.estimator} refutes {_curve(bound.family)} at confidence {bound.confidence:.6g}{_parameter(bound)}; inside the "
        f"family '{bound.family}', and only there, that is an epsilon of at least {_down(bound.epsilon)}, above the claimed "
        f"{claim.epsilon:.4g}"
    )


def _curve(family: str) -> str:
    names = {"gdp": "the claimed curve of Gaussian DP", "dp_sgd": "the claimed curve of DP-SGD"}
    return names.get(family, f"the claimed curve of the family '{family}'")


def _parameter(bound: LowerBound) -> str:
    if bound.parameter is None:
        return ""
    if bound.family == "gdp":
        return f": mu at least {_down(bound.parameter)}"
    return f": effective noise multiplier at most {math.ceil(bound.parameter * 1000) / 1000:.3f}"


def _down(value: float) -> str:
    return "unbounded" if math.isinf(value) else f"{math.floor(value * 100) / 100:.2f}"
