"""A clip norm that adapts goes up if updates are longer, and its noisy count is paid for."""

import math
from dataclasses import dataclass

import numpy as np

from audit.step_checks.findings import Finding, finding, gap
from audit.step_checks.rounds.bench import FEWEST, LOUD, RoundBench
from audit.step_checks.rounds.processing import SLACK, SMALL
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.rounds.sequences import SEQUENCES, RoundSequence, compare_sequences, play_sequence
from audit.step_checks.tensors import spread, zeros

HUGE = 1e25  # of an update whose square single precision does not hold, over the clip norm
_SAFETY = 6.0  # standard errors of a deviation that is estimated from the rounds


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Direction of the clip norm, and what the count of clipped updates costs."""

    def run(self, bench: RoundBench) -> list[Finding]:
        """Return the findings on an adaptive clip norm; none if it is fixed."""
        return [_direction(bench), _count(bench)] if bench.adaptive else []


def _after(bench: RoundBench, long: int, size: float = LOUD) -> float:
    """Return the factor on the clip norm in a quiet round with so many updates of that size; NaN for a lost round."""
    clip = bench.claim.clip_norm
    sizes = [size * clip] * long + [1e-3 * clip] * (bench.claim.clients - long)
    outcome = bench.play(Replies(updates=[spread(SMALL, size) for size in sizes], start=zeros(SMALL)))
    return math.nan if outcome.moved is None else outcome.clip_norm / clip


def _direction(bench: RoundBench) -> Finding:
    longer, shorter = _after(bench, bench.claim.clients), _after(bench, 0)
    message = (
        f"The clip norm goes to {longer:.3g} C in a round where all updates are longer, and to {shorter:.3g} C where all are "
        "shorter"
    )
    fix = "multiply C by exp(-rate (share not clipped - quantile)): the share of updates within C, not beyond it"
    return finding("adaptive.direction", shorter < 1 < longer, message, measurement=longer, claim=1.0, fix=fix)


def _count(bench: RoundBench) -> Finding:
    """Return whether updates and count together cost what is claimed: mu^2 = 1 / z_updates^2 + (influence / deviation)^2."""
    check, clients = "adaptive.count", bench.claim.clients
    half = clients // 2
    # one update more beyond the clip norm, or one of any size beside none
    pairs = [(_after(bench, half + 1), _after(bench, half)), (_after(bench, 1, HUGE), _after(bench, 0))]
    influence = max(abs(math.log(first) - math.log(second)) for first, second in pairs)
    logs = np.diff(np.log([bench.claim.clip_norm, *(outcome.clip_norm for outcome in bench.loud_rounds)]))
    if len(logs) < FEWEST:
        return gap(check, "rounds with noise are not released, so the noise of the count cannot be measured")
    deviation = float(np.std(logs, ddof=1)) * (1 + _SAFETY / math.sqrt(2 * len(logs)))
    if not math.isfinite(influence):
        return gap(check, "quiet rounds are not released, so a client's influence on the count cannot be measured")
    of_count = influence / deviation if deviation else math.inf
    total = math.hypot(1 / bench.strategy.noise_multiplier, of_count) if bench.strategy.noise_multiplier else math.inf
    budget = 1 / bench.claim.noise_multiplier if bench.claim.noise_multiplier else math.inf
    message = (
        f"One client moves the noisy count by at least {of_count:.3g} of its deviation; with the updates' noise that is mu = "
        f"{total:.4g} a round where {budget:.4g} is claimed"
    )
    fix = "a bit of 0 or 1 has sensitivity 1, not 1/2: z_updates = (z^-2 - deviation^-2)^-1/2"
    return finding(check, total <= budget * (1 + 1e-9), message, measurement=total, claim=budget, fix=fix)


_SMALLEST_RATIO = 1e-2


@dataclass(frozen=True, slots=True)
class Sequences:
    """The noise of whole sequences over what one client changes in them."""

    def run(self, bench: RoundBench) -> list[Finding]:
        """Return the finding on the worst sequence; none if no noise is claimed."""
        if not bench.claim.noise_multiplier:
            return []
        check, claim, ratios = "noise.influence", bench.update_multiplier, compare_sequences(bench)
        if not ratios:
            return [gap(check, "no sequence of rounds with noise is released")]
        name = min(ratios, key=lambda name: ratios[name])
        if ratios[name] < _SMALLEST_RATIO * claim and _hides_generator(bench):
            message = "The noise comes from a state that copies of the strategy share, so no sequence of rounds can be repeated"
            return [
                gap(check, f"{message}; let the strategy hold its generator (numpy's, torch's or Python's) as an attribute")
            ]
        holds = ratios[name] >= claim * (1 - 2 * SLACK)
        message = f"In {len(ratios)} sequences of rounds one client changes no more than the claimed noise hides"
        if not holds:
            message = (
                f"In {name}, the noise of the released models is at most {ratios[name]:.3g} times what one client changes in "
                f"them, where {claim:g} is claimed"
            )
        fix = (
            "clip each update by itself; add fresh noise of z C / n in every released round, whatever replies come, before any "
            "momentum of the server; keep nothing of a client beyond its round"
        )
        return [finding(check, holds, message, measurement=ratios[name], claim=claim, fix=fix)]


def _hides_generator(bench: RoundBench) -> bool:
    """Return whether copies have the same noise after all their generators were given other states, and one copy has not."""
    first, second = (play_sequence(bench, SEQUENCES[0], takes_part=False, noise_seed=seed) for seed in (1, 2))
    again = play_sequence(bench, RoundSequence(name="round 1 twice", numbers=(1, 1)), takes_part=False, noise_seed=1)
    if first is None or second is None or again is None:
        return False
    return all(np.array_equal(first[name], second[name]) for name in first) and any(
        not np.allclose(rows[0], rows[1], atol=1e-3 * bench.unit) for rows in again.values()
    )
