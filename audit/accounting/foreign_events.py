"""Events of other libraries: dp-accounting's classes by name, Opacus' histories, jax-privacy's parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from audit import plugins
from audit.core.deployed_events import DiscreteLaplace, TreeAggregation
from audit.core.deployed_procedures import MixtureOfGaussians, TruncatedPoisson, Tuned
from audit.core.errors import DataError, UnsupportedMechanism
from audit.core.event_forms import number
from audit.core.events import (
    ApproximateDp,
    Composed,
    Concentrated,
    Event,
    Exponential,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    RandomizedResponse,
    Repeated,
    SampledWithoutReplacement,
    dp_sgd,
)


def _zero_concentrated(rho: float, xi: float = 0.0) -> Event:
    if xi:
        raise UnsupportedMechanism(f"ZCDpEvent with xi {xi}: (xi, rho)-zCDP has no proof here for xi above 0")
    return Concentrated(rho=rho)


def _sampling(sampling_probability: float, event: Event) -> Event:
    return PoissonSampled(mechanism=event, sample_rate=sampling_probability)


def _fixed_size(source_dataset_size: int, sample_size: int, event: Event) -> Event:
    return SampledWithoutReplacement(mechanism=event, population=source_dataset_size, batch=sample_size)


def _discrete_laplace(noise_parameter: float, sensitivity: int) -> Event:
    # their parameter is one over the scale
    return DiscreteLaplace(noise_multiplier=1 / (noise_parameter * sensitivity), sensitivity=sensitivity)


def _trees(noise_multiplier: float, step_counts: int | Sequence[int]) -> Event:
    """The largest of several trees: a record is in one of them."""
    steps = step_counts if isinstance(step_counts, int) else max(step_counts, default=0)
    return TreeAggregation(noise_multiplier=noise_multiplier, steps=steps)


def _truncated(dataset_size: int, sampling_probability: float, truncated_batch_size: int, noise_multiplier: float) -> Event:
    """One step; the library states the size of the larger data set as well."""
    return TruncatedPoisson(
        noise_multiplier=noise_multiplier,
        sample_rate=sampling_probability,
        steps=1,
        population=dataset_size,
        batch_limit=truncated_batch_size,
    )


def _mixture(standard_deviation: float, sensitivities: Sequence[float], sampling_probs: Sequence[float]) -> Event:
    """Equal to the library's, with noise in the unit of the sensitivities."""
    return MixtureOfGaussians(
        noise_multiplier=standard_deviation, shifts=tuple(sensitivities), probabilities=tuple(sampling_probs)
    )


# what builds our event from the fields of dp-accounting's, in their order
DP_EVENTS: Mapping[str, Callable[..., Event]] = {
    "NoOpDpEvent": lambda: Composed(parts=()),
    "NonPrivateDpEvent": NonPrivate,
    "GaussianDpEvent": lambda noise_multiplier: Gaussian(noise_multiplier=noise_multiplier),
    "LaplaceDpEvent": lambda noise_multiplier: Laplace(noise_multiplier=noise_multiplier),
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "SingleEpochTreeAggregationDpEvent": _trees,
    "RandomizedResponseDpEvent": lambda noise_parameter, num_buckets: RandomizedResponse(
        noise_parameter=noise_parameter, buckets=num_buckets
    ),
    "ExponentialMechanismDpEvent": lambda epsilon: Exponential(epsilon=epsilon),
    "EpsilonDeltaDpEvent": lambda epsilon, delta: ApproximateDp(epsilon=epsilon, delta=delta),
    "ZCDpEvent": _zero_concentrated,
    "PoissonSampledDpEvent": _sampling,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "SelfComposedDpEvent": lambda event, count: Repeated(mechanism=event, count=count),
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "MixtureOfGaussiansDpEvent": _mixture,
    "RepeatAndSelectDpEvent": lambda event, mean, shape: Tuned(mechanism=event, mean=mean, shape=shape),
    "ComposedDpEvent": lambda events: Composed(parts=tuple(events)),
}
_NAMES = ("class_name", "name", "type")


def is_dp_event(tree: Any) -> bool:
    """Return whether a mapping names a class of dp-accounting."""
    return isinstance(tree, Mapping) and any(str(tree.get(key, "")).endswith("DpEvent") for key in _NAMES)


def dp_event(tree: Mapping[str, Any]) -> Event:
    """Return the event that a mapping describes in dp-accounting's names: `class_name` and the fields of that class;
    `DataError` for other fields than the class has, `UnsupportedMechanism` for a class that has no event here.
    """
    name = next(str(tree[key]) for key in _NAMES if str(tree.get(key, "")).endswith("DpEvent"))
    fields = {key: _value(value) for key, value in tree.items() if key not in (*_NAMES, "module_name")}
    return build(name, (), fields)


def _value(value: Any) -> Any:
    if is_dp_event(value):
        return dp_event(value)
    return [_value(item) for item in value] if isinstance(value, list) else number(value)


def build(name: str, positional: Sequence[Any], fields: Mapping[str, Any]) -> Event:
    """Return our event for a class of dp-accounting and its fields; `DataError` for other fields than the class has,
    `UnsupportedMechanism` for a class that has no event here.
    """
    if name not in DP_EVENTS:
        raise UnsupportedMechanism(
            f"dp-accounting's {name} has no event here.{plugins.hint(name, tuple(DP_EVENTS))} "
            f"Those that have: {', '.join(DP_EVENTS)}"
        )
    try:
        return DP_EVENTS[name](*positional, **fields)
    except TypeError as error:
        raise DataError(f"cannot read {name}: {str(error).replace('<lambda>()', 'it')}") from error


def is_history(tree: Any) -> bool:
    """Return whether a value looks like an Opacus accountant's history, or its state with one."""
    return (isinstance(tree, Mapping) and "history" in tree) or (
        isinstance(tree, list) and all(isinstance(entry, list) for entry in tree)
    )


def opacus_history(tree: Any) -> Event:
    """Return the event of an Opacus accountant: a list of `[noise multiplier, sample rate, steps]`, or its `state_dict`;
    `DataError` if an entry is something else.
    """
    history = tree["history"] if isinstance(tree, Mapping) else tree
    phases = []
    for place, entry in enumerate(history if isinstance(history, list) else [None]):
        is_phase = isinstance(entry, list) and len(entry) == 3 and all(_is_number(value) for value in entry)
        if not is_phase or entry[2] != int(entry[2]):
            raise DataError(f"entry {place} of the history is {entry!r}; expected [noise multiplier, sample rate, steps]")
        noise, rate, steps = entry
        phases.append(dp_sgd(noise_multiplier=float(noise), clip_norm=1.0, sample_rate=float(rate), steps=int(steps)))
    return phases[0] if len(phases) == 1 else Composed(parts=tuple(phases))


def is_jax_parameters(tree: Any) -> bool:
    """Return whether a mapping has the fields of jax-privacy's `DpParams`."""
    return isinstance(tree, Mapping) and {"noise_multipliers", "num_samples", "batch_size"} <= tree.keys()


def jax_parameters(tree: Mapping[str, Any]) -> Event:
    """Return the event of jax-privacy's `DpParams` as a mapping, with its `num_updates` beside; `DataError` for a missing
    field or a schedule that is none, `UnsupportedMechanism` for another sampling method.
    """
    updates = tree.get("num_updates")
    if not isinstance(updates, int):
        raise DataError(f"num_updates is {updates!r}; expected the number of steps beside the fields of DpParams")
    noise, method = tree["noise_multipliers"], str(tree.get("sampling_method", "POISSON")).rpartition(".")[2]
    schedule = noise if isinstance(noise, list) else [[0, noise]]
    if not schedule or any(not isinstance(entry, list) or len(entry) != 2 for entry in schedule) or schedule[0][0] != 0:
        raise DataError(f"noise_multipliers is {noise!r}; expected a number, or [[0, noise], [first step, noise], ...]")
    ends = [*(int(start) for start, _ in schedule[1:]), updates]
    counts = [end - int(start) for (start, _), end in zip(schedule, ends, strict=True)]
    parts = tuple(
        Repeated(mechanism=_jax_step(tree, method, float(value)), count=count)
        for (_, value), count in zip(schedule, counts, strict=True)
    )
    return parts[0] if len(parts) == 1 else Composed(parts=parts)


def _jax_step(tree: Mapping[str, Any], method: str, noise: float) -> Event:
    population, batch, release = tree["num_samples"], tree["batch_size"], Gaussian(noise_multiplier=noise)
    if method == "POISSON":
        return PoissonSampled(mechanism=release, sample_rate=batch / population)
    if method == "FIXED_BATCH_SIZE":
        return SampledWithoutReplacement(mechanism=release, population=population, batch=batch)
    raise UnsupportedMechanism(f"sampling_method is {method}; expected POISSON or FIXED_BATCH_SIZE")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
