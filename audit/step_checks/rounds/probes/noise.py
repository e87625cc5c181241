"""The noise of a round is normal with deviation z C / n in every parameter, fresh in every round, from a secret source."""

from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.stats import noise_tests
from audit.step_checks.findings import Finding, PropertyStatus, finding, gap, note
from audit.step_checks.rounds.bench import SHAPES, RoundBench
from audit.step_checks.rounds.global_generators import seeded
from audit.step_checks.rounds.processing import SLACK, SMALL
from audit.step_checks.rounds.replies import Replies
from audit.step_checks.rounds.sequences import compare_sequences
from audit.step_checks.tensors import norm, spread, zeros

SIGNIFICANCE = 1e-9
_PROCESSING = "The server processes the noisy mean, so noise in the model need not be normal, nor as large in every parameter;"
_NEGLIGIBLE = 1e-3  # deviations of noise, below which there is none to look at


@dataclass(frozen=True, slots=True)
class Noise:
    """Deviation by parameter, law, repetition, and the generator that it comes from."""

    def run(self, bench: RoundBench) -> list[Finding]:
        """Return the findings on the noise; one gap if none is claimed."""
        if bench.claim.noise_multiplier == 0:
            return [gap("noise.scale", "no noise is claimed (noise multiplier 0): the strategy has no guarantee of privacy")]
        return [_scale(bench), _law(bench), _fresh(bench), _generator(bench)]


def _scale(bench: RoundBench) -> Finding:
    """Return whether each parameter has the noise that its influence needs: a server's learning rate scales both."""
    samples, check = bench.noise_samples, "noise.scale"
    if not samples:
        return gap(check, "rounds with noise are not released, so the noise cannot be measured")
    if bench.processing.hides_client:
        return note(check, f"{_PROCESSING} `server.influence` judges it by what it hides")
    gains = {name: 1.0 if bench.adaptive else min(1.0, _gain(bench, name)) for name in samples}
    samples = {name: values / gains[name] for name, values in samples.items() if gains[name] > _NEGLIGIBLE}
    if not samples:
        return gap(check, "no update moves the released model, so no noise is necessary")
    ratios = {name: float(np.sqrt(np.mean(values**2))) for name, values in samples.items()}
    tails = {name: noise_tests.variance_tail(values, 1.0) for name, values in samples.items()}
    quiet_names = [name for name in samples if tails[name] < SIGNIFICANCE and not ratios[name] > 1]
    loud_names = [name for name in samples if tails[name] < SIGNIFICANCE and ratios[name] > 1]
    name = min(quiet_names or loud_names or samples, key=lambda name: (tails[name], ratios[name]))
    message = f"Noise of parameter '{name}' has {ratios[name]:.3g} times the deviation z C / n that is claimed"
    fix = "add N(0, (z C / n)^2) to every released entry once, with the clip norm C at which this round's updates were clipped"
    if bench.adaptive and quiet_names:
        message += " at the clip norm of the round"
    if loud_names and not quiet_names:
        return note(check, message, ratios[name], 1.0)
    return finding(check, not quiet_names, message, measurement=ratios[name], claim=1.0, fix=fix)


def _gain(bench: RoundBench, name: str) -> float:
    """Return how far an update of one parameter, of norm C, moves the model, at first or after many rounds, over C / n."""
    size = bench.claim.clip_norm * (1 - SLACK)
    first = bench.influence(bench.background("faint"), zeros(SHAPES) | spread({name: SHAPES[name]}, size))[0]
    late = bench.late_gain(zeros(SMALL) | spread({name: SMALL[name]}, size))
    return min(first, late) / (1 - SLACK)


def _law(bench: RoundBench) -> Finding:
    samples = bench.noise_samples
    if bench.processing.hides_client:
        return note("noise.law", f"{_PROCESSING} the law before that is not tested")
    values = np.concatenate([array.ravel() for array in samples.values()]) if samples else np.zeros(1)
    if not np.isfinite(values).all() or values.std() < _NEGLIGIBLE:
        return gap("noise.law", "the noise is missing or not finite, so its law cannot be tested")
    joint = np.concatenate(list(samples.values()), axis=1)
    shape, extreme = _law_tails(values)
    if min(shape, extreme) < SIGNIFICANCE and _hides_in_sequences(bench):  # a server may listen to some rounds less
        shape, extreme = _law_tails(joint / np.maximum(joint.std(axis=1, keepdims=True), _NEGLIGIBLE))
    message = f"{values.size} noise numbers: p = {shape:.2g} for a normal law, p = {extreme:.2g} for its largest value"
    return finding("noise.law", min(shape, extreme) >= SIGNIFICANCE, message, fix="draw normal noise")


def _law_tails(values: Array) -> tuple[float, float]:
    """Return p-values that numbers are normal, by their shape and by the largest."""
    values = values.ravel() / values.std()
    return noise_tests.normal_tail(values), noise_tests.extreme_tail(values)


def _hides_in_sequences(bench: RoundBench) -> bool:
    """Return whether noise hides what one client changes in all rounds of each sequence as well as is claimed."""
    ratios = compare_sequences(bench)
    return bool(ratios) and min(ratios.values()) >= bench.update_multiplier


def _fresh(bench: RoundBench) -> Finding:
    """Return whether consecutive rounds and parameters have their own noise."""
    check, fix = "noise.fresh", "draw noise anew for every parameter and round"
    first, second = ([outcome.moved for outcome in bench.loud_rounds[:2]] + [None, None])[:2]
    if first is None or second is None or norm(first) < _NEGLIGIBLE * bench.unit:
        return gap(check, "there is no noise")
    if all(np.array_equal(first[name], second[name]) for name in first):
        return finding(check, False, "Two consecutive rounds have the same noise", fix=fix)
    joint = np.concatenate(list(bench.noise_samples.values()), axis=1)
    rounds = joint[: len(joint) // 2 * 2]
    if noise_tests.correlation_tail(rounds[::2].ravel(), rounds[1::2].ravel()) < SIGNIFICANCE:
        message = "The noise of consecutive rounds is correlated"
        if _hides_in_sequences(bench):
            return note(check, f"{message}, as behind a server's momentum, and hides what one client changes in all rounds")
        return finding(check, False, message, fix=fix)
    if bench.processing.is_plain and bench.processing.lacks_noise:
        return finding(check, False, "Some combination of entries has no noise: entries share theirs", fix=fix)
    return finding(check, True, "The noise of consecutive rounds is fresh")


def _generator(bench: RoundBench) -> Finding:
    """Return whether a seed that user code sets decides the noise."""
    updates, start = bench.background("alike", SMALL), zeros(SMALL)
    replies = Replies(updates=[spread(SMALL, 0.5 * bench.claim.clip_norm), *updates], start=start)
    moves = []
    for seed in (0, 0, 1):
        with seeded(seed):
            moves.append(bench.play(replies, quiet=False).moved)
    first, second, third = moves
    check = "noise.generator"
    if first is None or second is None or third is None:
        return gap(check, "rounds with noise are not released")

    def equal(left: dict[str, Array], right: dict[str, Array]) -> bool:
        return all(np.array_equal(left[name], right[name]) for name in SMALL)

    if not equal(first, second) or equal(first, third):
        return finding(check, True, "No seed of a global generator decides the noise")
    return Finding(
        check=check,
        status=PropertyStatus.QUESTION,
        message="The noise comes from a global generator: where user code seeds it (numpy.random.seed, as training scripts do) "
        "rounds have known noise, or the same. Does any code of the server seed it?",
        measured=1.0,
        claimed=0.0,
    )


PLUGIN = Noise
