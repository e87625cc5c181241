"""The server's sum: one client counts once, the denominator is a public constant, and nothing else comes out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.stats import noise_tests
from audit.step_checks.findings import Finding, finding, note
from audit.step_checks.rounds.bench import LOUD, SHAPES, RoundBench
from audit.step_checks.rounds.processing import SLACK, SMALL
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.tensors import distance, spread, zeros

SIGNIFICANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Weighting:
    """The step of the server, weights by records, denominator, metrics, and replies as any iterable."""

    def run(self, bench: RoundBench) -> list[Finding]:
        """Return the findings on the sum."""
        return [_server_step(bench), _records(bench), _denominator(bench), _metrics(bench), _iterable(bench)]


def _server_step(bench: RoundBench) -> Finding:
    if bench.processing.hides_client:
        message = "The released model is no mean plus noise; its noise hides a client as well as is claimed"
        return note("server.influence", message, bench.processing.noise_over_influence, bench.claim.noise_multiplier)
    gain = bench.server_gain
    message = (
        f"An update of norm C moves the released model by {gain * bench.unit:.4g} where C/n = {bench.unit:.4g} is what the "
        "noise is scaled for"
    )
    fix = "add the noise to the mean of the clipped updates, before the server's optimiser, median or other step"
    size = gain * bench.unit
    holds = gain <= 1 + bench.slack + SLACK or _noise_follows(bench, gain)
    return finding("server.influence", holds, message, fix=fix, measurement=size, claim=bench.unit)


def _noise_follows(bench: RoundBench, gain: float) -> bool:
    """Return whether the noise of every parameter is as much larger than claimed as an update moves the model further."""
    samples = list(bench.noise_samples.values())
    if bench.adaptive or not samples or not math.isfinite(gain):
        return False
    if noise_tests.variance_tail(np.concatenate([values.ravel() for values in samples]), 1.0) >= SIGNIFICANCE:
        return False
    return all(
        np.sqrt(np.mean(values**2)) >= gain or noise_tests.variance_tail(values, gain) >= SIGNIFICANCE for values in samples
    )


def _records(bench: RoundBench) -> Finding:
    """Let one client claim many records, and negative ones."""
    check, fix = "server.weights", "weight clients alike, or by min(records, cap) / cap over a constant denominator"
    count, clip = bench.claim.clients, bench.claim.clip_norm
    worst, worst_claim, worst_replies = -1.0, 0.0, None
    refusals = []
    for claim in (LOUD, -(count - 2.0)):
        records = [claim, *[1.0] * (count - 1)]
        influence, outcome, replies = bench.influence(
            bench.background("faint"), spread(SHAPES, clip * (1 - SLACK)), records=_whole(records)
        )
        if outcome.moved is None:
            refusals.append(outcome.refusal)
        elif influence > worst:
            worst, worst_claim, worst_replies = influence, claim, replies
    if worst_replies is None:
        return finding(check, True, f"Clients that claim other numbers of records are refused: {refusals[0]}")
    message = (
        f"A client that claims {worst_claim:g} records where others have 1 moves the released model by "
        f"{worst * bench.unit:.4g} where C/n = {bench.unit:.4g} is allowed"
    )
    size = worst * bench.unit
    return finding(check, bench.within(worst), message, fix=fix, witness=worst_replies, measurement=size, claim=bench.unit)


def _whole(records: list[float]) -> list[int]:
    return [round(value) for value in records]


def _denominator(bench: RoundBench) -> Finding:
    """Let most clients fail to reply."""
    check, count = "server.denominator", bench.claim.clients
    if count < 4:
        return finding(check, True, f"{count} clients are too few to leave some out")
    background = bench.background("faint")[: max(1, count // 5)]
    influence, outcome, replies = bench.influence(background, spread(SHAPES, bench.claim.clip_norm * (1 - SLACK)))
    if outcome.moved is None:
        return finding(check, True, f"A round with {len(background) + 1} replies of {count} is not released: {outcome.refusal}")
    message = (
        f"With {len(background) + 1} replies of {count}, one client moves the released model by {influence * bench.unit:.4g} "
        f"where C/n = {bench.unit:.4g} is what the noise is scaled for"
    )
    fix = "divide the sum by the planned number of clients, a public constant, or release nothing"
    size = influence * bench.unit
    return finding(check, bench.within(influence), message, fix=fix, witness=replies, measurement=size, claim=bench.unit)


def _metrics(bench: RoundBench) -> Finding:
    """Return whether metrics come out exactly: the client's own loss, and what mods add."""
    background, start = bench.background("faint", SMALL), zeros(SMALL)
    losses = [{"loss": 0.0}] * len(background)
    first, right = (
        bench.play(
            Replies(
                updates=[spread(SMALL, size * bench.claim.clip_norm), *background],
                start=start,
                metrics=[{"loss": loss}, *losses],
            ),
            quiet=False,
        )
        for size, loss in ((LOUD, 4.5), (1e-6, 0.0))
    )
    changes = _differences(first.metrics, right.metrics)
    check, fix = "server.metrics", "drop metrics that clients send along (train_metrics_aggr_fn), or clip and noise them"
    if not changes:
        return finding(check, True, "No metric of a client is released")
    names = ", ".join(f"{name} by {change:.4g}" for name, change in changes.items())
    message = f"One client moves released metrics without noise: {names}"
    return finding(check, False, message, measurement=max(changes.values()), claim=0.0, fix=fix)


def _differences(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, float]:
    changes = {name: abs(float(left[name]) - float(right[name])) for name in left if name in right}
    return {name: change for name, change in changes.items() if change > 0}


def _iterable(bench: RoundBench) -> Finding:
    """Hand replies over as a generator, which can be read once; Flower's interface promises no more."""
    updates, start = [spread(SMALL, 0.5 * bench.claim.clip_norm), *bench.background("alike", SMALL)], zeros(SMALL)
    lazy, listed = (bench.play(Replies(updates=updates, start=start, lazy=lazy)) for lazy in (True, False))
    change = math.inf if lazy.moved is None or listed.moved is None else distance(lazy.moved, listed.moved)
    if change <= SLACK * bench.unit:
        return finding("server.iterable", True, "Replies may be any iterable")
    message = f"Replies from a generator lose the round: {lazy.refusal or 'the release differs'}; no privacy is at stake"
    return finding("server.iterable", False, message, fix="make a list of the replies before they are first read")


PLUGIN = Weighting
