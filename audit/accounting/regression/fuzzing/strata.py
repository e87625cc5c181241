"""Questions of every kind that an accountant can be asked, by stratum: some about one event, some about how two compare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from audit.accounting.regression.fuzzing.draws import Draws
from audit.accounting.regression.fuzzing.schema import SCHEMA_STRATA
from audit.accounting.regression.suite import ClaimQuestion
from audit.core.adjacency import Adjacency
from audit.core.events import (
    ApproximateDp,
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Grouped,
    Laplace,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
    dp_sgd,
)

ADD_REMOVE, REPLACE_ONE, ZERO_OUT = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
_MONOTONE = 1e-2  # relative: what a grid that is chosen anew may cost where the truth hardly moves


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionPair:
    """Two questions, and what their claims have to do with each other."""

    first: ClaimQuestion
    second: ClaimQuestion
    low: float
    high: float
    relation: str
    tolerance: float = 1e-6
    differ: bool = False


Drawn = ClaimQuestion | QuestionPair
Stratum = Callable[[Draws], Drawn]


def _training(draws: Draws, *, most_steps: int = 3000, least_rate: float = 1e-8) -> Repeated:
    return dp_sgd(
        noise_multiplier=draws.noise(), clip_norm=1.0, sample_rate=draws.rate(least_rate), steps=draws.count(most_steps)
    )


def _ask(draws: Draws, event: Event, adjacency: Adjacency = ADD_REMOVE) -> ClaimQuestion:
    return ClaimQuestion(event=event, delta=draws.delta(), adjacency=adjacency)


def _release(draws: Draws) -> Gaussian:
    return Gaussian(noise_multiplier=draws.noise())


def _releases(draws: Draws) -> Event:
    return Repeated(mechanism=PoissonSampled(mechanism=_release(draws), sample_rate=1.0), count=draws.count(100_000))


def _one_sampling(draws: Draws) -> ClaimQuestion:
    """One step, at deltas at which a small rate is not yet free."""
    rate = draws.rate(1e-10)
    event = dp_sgd(noise_multiplier=draws.log_uniform(0.2, 5.0), clip_norm=1.0, sample_rate=rate, steps=1)
    # from the rate on, delta alone pays for the record whenever it is drawn
    return ClaimQuestion(event=event, delta=rate * draws.log_uniform(1e-9, 0.1), adjacency=ADD_REMOVE)


def _much_noise(draws: Draws) -> ClaimQuestion:
    """Noise beyond what anyone uses, over so many steps that it does not hide everything."""
    noise, rate = draws.log_uniform(20.0, 3000.0), 1.0 if draws.chance(0.5) else draws.log_uniform(0.01, 1.0)
    steps = (noise / rate) ** 2 * draws.log_uniform(0.05, 5.0)  # so that rate * sqrt(steps) / noise is 0.2 to 2.2
    event = dp_sgd(
        noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=int(min(max(steps, 1), 1e8 if rate == 1 else 1e6))
    )
    return _ask(draws, event)


def _few_steps(draws: Draws) -> ClaimQuestion:
    event = dp_sgd(
        noise_multiplier=draws.log_uniform(0.3, 3.0), clip_norm=1.0, sample_rate=draws.rate(0.01), steps=draws.count(99)
    )
    return _ask(draws, event)


def _rare(draws: Draws) -> ClaimQuestion:
    """Many steps at rates that a shortcut may take for none."""
    event = dp_sgd(
        noise_multiplier=draws.log_uniform(0.4, 1.2),
        clip_norm=1.0,
        sample_rate=draws.log_uniform(1e-9, 1e-4),
        steps=draws.count(10_000),
    )
    return ClaimQuestion(event=event, delta=draws.log_uniform(1e-15, 1e-9), adjacency=ADD_REMOVE)


def _phases(draws: Draws) -> ClaimQuestion:
    parts = tuple(_training(draws, most_steps=300, least_rate=1e-3) for _ in range(2))
    return _ask(draws, Composed(parts=(*parts, Repeated(mechanism=parts[0].mechanism, count=0))))


def _laplace(draws: Draws) -> ClaimQuestion:
    event = Repeated(mechanism=Laplace(noise_multiplier=draws.log_uniform(0.05, 20.0)), count=draws.count(200))
    return _ask(draws, event, REPLACE_ONE if draws.chance(0.3) else ADD_REMOVE)


def _sampled_laplace(draws: Draws) -> ClaimQuestion:
    step = PoissonSampled(mechanism=Laplace(noise_multiplier=draws.log_uniform(0.1, 5.0)), sample_rate=draws.rate(1e-3))
    return _ask(draws, Repeated(mechanism=step, count=draws.count(200)))


def _response(draws: Draws) -> ClaimQuestion:
    leaf = RandomizedResponse(noise_parameter=draws.log_uniform(0.05, 0.9), buckets=draws.count(20, 2))
    return _ask(draws, Repeated(mechanism=leaf, count=draws.count(100)), REPLACE_ONE)


def _approximate(draws: Draws) -> ApproximateDp:
    delta = draws.pick(0.0, draws.log_uniform(1e-12, 1e-4))
    return ApproximateDp(epsilon=draws.log_uniform(0.01, 2.0), delta=delta)


def _pairs(draws: Draws) -> ClaimQuestion:
    return _ask(draws, Repeated(mechanism=_approximate(draws), count=draws.count(500)))


def _pairs_in_a_group(draws: Draws) -> ClaimQuestion:
    leaf, size = _approximate(draws), draws.count(8, 2)
    event = Grouped(mechanism=leaf, size=size)
    delta = min(max(leaf.delta, 1e-12) * size * draws.log_uniform(1, 1e4), 0.5)
    return ClaimQuestion(event=event, delta=delta, adjacency=ADD_REMOVE)


def _group(draws: Draws) -> ClaimQuestion:
    inner: Event = _training(draws, most_steps=100, least_rate=1e-2) if draws.chance(0.5) else _releases(draws)
    return _ask(draws, Grouped(mechanism=inner, size=draws.count(6, 2)))


def _mixture(draws: Draws) -> ClaimQuestion:
    """Gaussian releases beside something else, at a delta that the other part may have spent."""
    part, delta = _approximate(draws), draws.delta()
    beside: Event = replace(part, delta=delta * draws.log_uniform(0.05, 0.9)) if draws.chance(0.6) else _release(draws)
    laplace = Laplace(noise_multiplier=draws.log_uniform(0.5, 20.0))
    parts = (Repeated(mechanism=_release(draws), count=draws.count(50)), beside, laplace)
    return ClaimQuestion(event=Composed(parts=parts[: draws.count(3, 2)]), delta=delta, adjacency=ADD_REMOVE)


def _replacement(draws: Draws) -> ClaimQuestion:
    event: Event = _releases(draws) if draws.chance(0.5) else _training(draws, most_steps=100, least_rate=1e-2)
    return _ask(draws, event, REPLACE_ONE)


def _zeroing(draws: Draws) -> ClaimQuestion:
    return _ask(draws, _releases(draws), ZERO_OUT)


def _fixed_batches(draws: Draws) -> ClaimQuestion:
    population = draws.count(10_000, 10)
    step = SampledWithoutReplacement(mechanism=_release(draws), population=population, batch=draws.count(population))
    return _ask(draws, Repeated(mechanism=step, count=draws.count(50)), REPLACE_ONE)


def _zero_concentrated_claim(draws: Draws) -> ClaimQuestion:
    return _ask(draws, Repeated(mechanism=Concentrated(rho=draws.log_uniform(1e-4, 1.0)), count=draws.count(100)))


def _exponential(draws: Draws) -> ClaimQuestion:
    return _ask(draws, Repeated(mechanism=Exponential(epsilon=draws.log_uniform(0.01, 1.0)), count=draws.count(8)))


def _sampled_together(draws: Draws) -> ClaimQuestion:
    inner = Repeated(mechanism=_release(draws), count=draws.count(9))
    step = PoissonSampled(mechanism=inner, sample_rate=draws.rate(1e-2))
    return _ask(draws, Repeated(mechanism=step, count=draws.count(30)))


# ---- comparisons ------------------------------------------------------------------------------------------------------


def _dearer_pair(draws: Draws) -> QuestionPair:
    """One argument changed by a little, in the direction that costs more."""
    noise, rate, steps = draws.log_uniform(0.4, 5.0), draws.log_uniform(1e-5, 0.5), draws.count(10_000)
    delta = draws.log_uniform(1e-9, 1e-3)
    dearer = (noise, rate, steps, delta)
    argument = draws.count(4) - 1
    if argument == 0:
        dearer = (draws.close_to(noise), rate, steps, delta)
    elif argument == 1:
        dearer = (noise, min(draws.close_to(rate), 1.0), steps, delta)
    elif argument == 2:
        dearer = (noise, rate, steps + draws.count(max(steps // 10, 1)), delta)
    else:
        dearer = (noise, rate, steps, draws.close_to(delta))
    name = ("less noise", "a higher rate", "more steps", "a smaller delta")[argument]
    cheap, dear = (dearer, (noise, rate, steps, delta)) if argument in (0, 3) else ((noise, rate, steps, delta), dearer)
    return QuestionPair(
        first=_describe_numbers(*cheap),
        second=_describe_numbers(*dear),
        low=1.0,
        high=float("inf"),
        relation=f"{name} costs more",
        tolerance=_MONOTONE,
        differ=True,
    )


def _describe_numbers(noise: float, rate: float, steps: int, delta: float) -> ClaimQuestion:
    event = dp_sgd(noise_multiplier=noise, clip_norm=1.0, sample_rate=rate, steps=steps)
    return ClaimQuestion(event=event, delta=delta, adjacency=ADD_REMOVE)


def _scaling(draws: Draws) -> QuestionPair:
    noise, steps, delta = draws.noise(), draws.count(10_000, 2), draws.delta()
    return QuestionPair(
        first=_describe_numbers(noise, 1.0, steps, delta),
        second=_describe_numbers(noise / steps**0.5, 1.0, 1, delta),
        low=1.0,
        high=1.0,
        relation="so many Gaussian releases cost what one with the noise over the root of their number does",
        tolerance=_MONOTONE,
    )


def _split(draws: Draws) -> QuestionPair:
    training, ask = _training(draws, most_steps=300, least_rate=1e-3), draws.delta()
    first = draws.count(training.count)
    parts = tuple(Repeated(mechanism=training.mechanism, count=count) for count in (first, training.count - first) if count)
    return _as_much(training, parts, ask, "a run in two parts costs what the whole one does (composition)", _MONOTONE)


def _nothing_added(draws: Draws) -> QuestionPair:
    training, delta = _training(draws, most_steps=300, least_rate=1e-3), draws.delta()
    idle = Repeated(mechanism=PoissonSampled(mechanism=_release(draws), sample_rate=0.0), count=draws.count(100))
    parts = (training, idle) if draws.chance(0.5) else (idle, training)
    return _as_much(training, parts, delta, "a part that releases nothing about anybody costs nothing (post-processing)", 1e-3)


def _as_much(whole: Event, parts: tuple[Event, ...], delta: float, relation: str, tolerance: float) -> QuestionPair:
    """Return the questions whether parts one after the other cost what the whole does."""
    first, second = (ClaimQuestion(event=event, delta=delta, adjacency=ADD_REMOVE) for event in (whole, Composed(parts=parts)))
    return QuestionPair(first=first, second=second, low=1.0, high=1.0, relation=relation, tolerance=tolerance)


STRATA: Mapping[str, Stratum] = {
    "Gaussian releases": lambda draws: _ask(draws, _releases(draws)),
    "one step": _one_sampling,
    "few steps": _few_steps,
    "training": lambda draws: _ask(draws, _training(draws, least_rate=1e-4)),
    "rare records": _rare,
    "more costs more": _dearer_pair,
    "scaling": _scaling,
    "composition": _split,
    "post-processing": _nothing_added,
    "phases": _phases,
    "Laplace": _laplace,
    "sampled Laplace": _sampled_laplace,
    "randomised response": _response,
    "approximate": _pairs,
    "groups of pairs": _pairs_in_a_group,
    "groups": _group,
    "mixtures": _mixture,
    "replaced records": _replacement,
    "zeroed records": _zeroing,
    "fixed batches": _fixed_batches,
    "concentrated": _zero_concentrated_claim,
    "exponential": _exponential,
    "sampled together": _sampled_together,
    "much noise": _much_noise,
    **SCHEMA_STRATA,
}
