"""One client's update, whatever it holds, moves the released model by the clip norm over the clients at most."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from audit.step_checks.findings import Finding, PropertyStatus, finding
from audit.step_checks.rounds.bench import FAINT, LOUD, SHAPES, RoundBench, RoundRelease
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.tensors import Tensors, distance, norm, spread, zeros

_CONSEQUENCE = "so whether the round is released tells of one client, and any client can stop the training"


@dataclass(frozen=True, slots=True)
class UpdateClipping:
    """Long updates, single parameters, values that are not finite, zero, order of names, integer buffers, trust in clients."""

    def run(self, bench: RoundBench) -> list[Finding]:
        findings = [_whole(bench), _each_parameter(bench), _non_finite(bench), _zero(bench), _names(bench), _integers(bench)]
        return findings + ([_trust(bench)] if bench.mods else [])


def _moves(bench: RoundBench, influence: float) -> str:
    return f"moves the released model by {influence * bench.unit:.4g} where C/n = {bench.unit:.4g} is allowed"


def _long(bench: RoundBench) -> Tensors:
    """Return a long update of all parameters with a dimension; scalars are looked at one by one."""
    tensors = {name: shape for name, shape in SHAPES.items() if shape}
    return {**zeros(SHAPES), **spread(tensors, LOUD * bench.claim.clip_norm)}


def _whole(bench: RoundBench) -> Finding:
    places = [bench.influence(bench.background("faint"), _long(bench), is_last=is_last) for is_last in (False, True)]
    influence, outcome, replies = max(places, key=lambda place: place[0])
    fix = "clip the whole update to the clip norm before it enters the sum"
    if not bench.mods:
        fix += "; if clients are to clip, put the mod into every client's app and name it here"
    message = outcome.refusal or f"An update of norm {LOUD:g} C {_moves(bench, influence)}"
    size = influence * bench.unit
    return finding(
        "clip.update", bench.within(influence), message, fix=fix, witness=replies, measurement=size, claim=bench.unit
    )


def _each_parameter(bench: RoundBench) -> Finding:
    """Return the finding on the parameter that goes furthest alone."""
    worst: tuple[float, str, str, Replies | None] = (-1.0, "", "", None)
    for name, shape in SHAPES.items():
        update = {parameter: np.full(value.shape, 0, np.float32) for parameter, value in zeros(SHAPES).items()}
        update[name] = spread({name: shape}, LOUD * bench.claim.clip_norm)[name]
        influence, outcome, replies = bench.influence(bench.background("faint"), update)
        if influence > worst[0]:
            worst = (influence, name, outcome.refusal, replies)
    influence, name, refusal, witness = worst
    kind = "a scalar" if SHAPES[name] == () else f"of shape {SHAPES[name]}"
    message = refusal or f"Parameter '{name}' ({kind}) alone, {LOUD:g} C long, {_moves(bench, influence)}"
    fix = "assign the scaled array instead of multiplying in place: numpy scalars of 0-dimensional parameters are not changed"
    size = influence * bench.unit
    return finding(
        "clip.parameter", bench.within(influence), message, fix=fix, witness=witness, measurement=size, claim=bench.unit
    )


def _non_finite(bench: RoundBench) -> Finding:
    fix = "let an update with an entry that is not finite count as zero"
    worst: tuple[float, str, RoundRelease, Replies] | None = None
    # after loud ones it may be taken for their total, or for the last of them
    for (label, value), kind in product((("NaN", np.nan), ("infinity", np.inf)), ("faint", "loud")):
        update = _long(bench)
        update["bias"][0] = value
        influence, outcome, replies = bench.influence(bench.background(kind), update, is_last=kind == "loud")
        if worst is None or influence > worst[0]:
            worst = influence, label, outcome, replies
    assert worst is not None  # noqa: S101  two values were tried
    influence, label, outcome, replies = worst
    if outcome.moved is None:
        message = f"An update with {label} in one entry loses the round: {outcome.refusal}; {_CONSEQUENCE}"
    elif bench.within(influence):
        message = "An update with NaN or infinity in one entry is clipped or dropped"
    else:
        finite = {name: array[np.isfinite(array)] for name, array in outcome.moved.items()}
        missing = sum(array.size for array in outcome.moved.values()) - sum(array.size for array in finite.values())
        message = (
            f"An update with {label} in one entry passes: released entries that are not finite: {missing}; the others move by "
            f"{norm(finite):.4g} where C/n = {bench.unit:.4g} is allowed"
        )
    return finding(
        "clip.non_finite", bench.within(influence), message, measurement=influence, claim=1.0, fix=fix, witness=replies
    )


def _zero(bench: RoundBench) -> Finding:
    start = zeros(SHAPES)
    replies = Replies(updates=[zeros(SHAPES), *bench.background("faint")], start=start)
    outcome = bench.play(replies)
    if outcome.moved is not None:
        return finding("clip.zero", True, "An update of exactly zero is legal")
    message = f"An update of exactly zero loses the round: {outcome.refusal}; {_CONSEQUENCE}"
    return finding(
        "clip.zero", False, message, fix="guard the division by the norm: min(1, C / max(norm, tiny))", witness=replies
    )


def _names(bench: RoundBench) -> Finding:
    """Send a model with its parameters of equal shapes in another order than they came."""
    clip = bench.claim.clip_norm
    start = {"first": np.full(50, 100 * clip, np.float32), "second": np.zeros(50, np.float32)}
    faint = {name: np.full(50, FAINT * clip, np.float32) for name in start}
    updates = [faint] * bench.claim.clients
    swapped = {name: faint[name] for name in ("second", "first")}
    replies = Replies(updates=[swapped, *updates[1:]], start=start)
    outcome, straight = bench.play(replies), bench.play(Replies(updates=updates, start=start))
    fix = "match parameters by name before clipping"
    if outcome.moved is None or straight.moved is None:
        return finding("clip.names", True, f"Parameters in another order are refused: {outcome.refusal or straight.refusal}")
    influence = distance(outcome.moved, straight.moved) / bench.unit
    message = f"A client that returns its parameters in another order {_moves(bench, influence)}"
    size = influence * bench.unit
    return finding("clip.names", bench.within(influence), message, fix=fix, witness=replies, measurement=size, claim=bench.unit)


def _integers(bench: RoundBench) -> Finding:
    """Send a model with a counter, as BatchNorm has one."""
    check, fix = "clip.integer", "leave integer buffers out of what is clipped, noised and released"
    start: Tensors = {"weight": np.zeros((12, 5), np.float32), "counter": np.array([3], np.int64)}
    update: Tensors = {
        "weight": np.full((12, 5), FAINT * bench.claim.clip_norm, np.float32),
        "counter": np.array([5], np.int64),
    }
    replies = Replies(updates=[update] * bench.claim.clients, start=start)
    outcome = bench.play(replies, quiet=False)
    if outcome.moved is None:
        message = f"A model with an integer buffer loses the round: {outcome.refusal}"
        return finding(check, False, message, fix=fix, witness=replies)
    change = float(outcome.moved["counter"][0])
    exact = change == round(change) and change != 0
    message = (
        f"An integer buffer is released without noise: it moved by exactly {change:g}"
        if exact
        else ("An integer buffer stays as it was" if change == 0 else "An integer buffer is released with noise")
    )
    return finding(check, not exact, message, measurement=change, fix=fix, witness=replies)


def _trust(bench: RoundBench) -> Finding:
    """Return what a client with an app without the mods can do: nothing if the server clips as well."""
    influence, outcome, _ = bench.influence(bench.background("faint"), _long(bench), unmodded=(0,))
    if outcome.moved is None:
        return finding("clip.trust", True, f"A reply of a client without the mod is refused: {outcome.refusal}")
    if bench.within(influence):
        return finding("clip.trust", True, "A client without the mod gains nothing: the server clips too")
    return Finding(
        check="clip.trust",
        status=PropertyStatus.QUESTION,
        message=f"The server trusts its clients to clip: one whose app lacks the mod {_moves(bench, influence)}, and no "
        "accountant notices. Does every client run it?",
        measured=influence * bench.unit,
        claimed=bench.unit,
        witness=None,
    )


PLUGIN = UpdateClipping
