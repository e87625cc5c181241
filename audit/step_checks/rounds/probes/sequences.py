"""Over several rounds of one live strategy, one client is hidden by the noise that is claimed: noise over influence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.step_checks.findings import Finding, finding, gap
from audit.step_checks.rounds.bench import SLACK, RoundBench
from audit.step_checks.rounds.sequences import SEQUENCES, RoundSequence, compare_sequences, play_sequence

_SMALLEST_RATIO = 1e-2


@dataclass(frozen=True, slots=True)
class Sequences:
    """The noise of whole sequences over what one client changes in them."""

    def run(self, bench: RoundBench) -> list[Finding]:
        """Return the finding on the worst sequence; none if no noise is claimed or the clip norm adapts."""
        if bench.adaptive or not bench.claim.noise_multiplier:
            return []
        check, claim, ratios = "noise.influence", bench.claim.noise_multiplier, compare_sequences(bench)
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


PLUGIN = Sequences
