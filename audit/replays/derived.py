"""Noise that a program computes from other noise by an operation that is not linear: an inverse transform, Box-Muller, a
random sign.

Such an expression of draws alone is a separate base draw; exact forms name its law
(`audit.stats.unit_laws.name_law`): the
expression is evaluated again at chosen draws and compared with quantile functions to the last digits, never by a sample.
What has no
name stays a draw of an unknown law, and what depends on it is not followed.
"""

from typing import Any

import numpy as np

from audit.replays.noisy import NoisyArray, holds_noise, lift
from audit.replays.recording import Recording
from audit.stats import unit_laws

_SOURCES = ("uniform", "exponential", "sign", "derived")  # draws that serve to make noise rather than being it


def is_derivable(recording: Recording, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...]) -> bool:
    """True if the operation is one of draws alone that serve to make noise."""
    if method != "__call__" or ufunc.nout != 1 or any(kind.endswith("d->?") for kind in ufunc.types):
        return False
    laws = {recording.laws[i] for item in inputs if holds_noise(item) for i in _names(lift(recording, item)).tolist()}
    noisy = [item for item in inputs if holds_noise(item)]
    single = all(lift(recording, item).weight.shape[-1] == 1 for item in noisy)
    product = ufunc is np.multiply and len(noisy) == 2 and all(not np.any(lift(recording, item).value) for item in noisy)
    return bool(laws) and single and (laws <= set(_SOURCES) or (product and laws <= {*_SOURCES, "normal"}))


def is_at_the_edge(recording: Recording, inputs: tuple[Any, ...]) -> bool:
    """True if a draw is asked whether it equals an end of its range, as before a logarithm: that has probability 0."""
    first, second = inputs
    array, number = (lift(recording, first), second) if holds_noise(first) else (lift(recording, second), first)
    if holds_noise(number) or array.weight.shape[-1] != 1 or not array.weight.all():
        return False
    ends = {"uniform": (0.0, 1.0), "exponential": (0.0,)}
    points = (np.asarray(number, dtype=np.float64) - array.value) / array.weight[..., 0]
    laws = [recording.laws[i] for i in array.index.ravel().tolist()]
    points = np.broadcast_to(points, array.shape).ravel()
    return all(point in ends.get(law, ()) for point, law in zip(points.tolist(), laws, strict=True))


def _names(array: NoisyArray) -> Any:
    return np.unique(array.index[array.weight != 0])


def derive(recording: Recording, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> NoisyArray:
    """Return `ufunc(*inputs)` as new base draws, with its expression kept.

    In every entry the inputs have the form `value + weight * draw`, so the expression is known entry by entry.
    """
    arrays = [lift(recording, item) for item in inputs]
    shape = np.broadcast_shapes(*(item.shape for item in arrays))
    arrays = [item if item.shape == shape else item._gather(np.broadcast_to, shape) for item in arrays]
    values = np.ravel(ufunc(*(recording.evaluate(item.rows) for item in arrays)))
    keys: list[Any] = []
    for place in range(len(values)):
        forms = []
        for item in arrays:
            row = item.rows
            source = int(row.index[place, 0]) if row.weight[place].any() else None
            forms.append((float(row.value[place]), float(row.weight[place, 0]) if source is not None else 0.0, source))
        keys.append((ufunc, tuple(forms)))
    fresh = {key: value for key, value in zip(keys, values.tolist(), strict=True) if key not in recording.expression_draws}
    names = recording.draw("derived", np.array(list(fresh.values()))).tolist() if fresh else []
    recording.expression_draws |= dict(zip(fresh, names, strict=True))  # one expression of the same draws is one draw
    recording.expressions |= {str(name): key for key, name in zip(fresh, names, strict=True)}
    index = np.array([recording.expression_draws[key] for key in keys], dtype=np.int64).reshape(*shape, 1)
    return NoisyArray(recording, np.zeros(shape), index, np.ones((*shape, 1)), pure=True)


def evaluate(recording: Recording, draw: int, points: dict[int, Any]) -> Any:
    """Return the values of a base draw at chosen values of the draws that it is made of."""
    if draw in points:
        return points[draw]
    ufunc, forms = recording.expressions[str(draw)]
    return ufunc(
        *(
            value + weight * evaluate(recording, source, points) if source is not None else value
            for value, weight, source in forms
        )
    )


def sources(recording: Recording, draw: int) -> list[int]:
    """Return the base draws that a draw is made of, ascending."""
    if recording.laws[draw] != "derived":
        return [draw]
    return sorted(
        {i for _, _, source in recording.expressions[str(draw)][1] if source is not None for i in sources(recording, source)}
    )


def name_law(recording: Recording, draw: int) -> tuple[str, float] | None:
    """Return the law and scale of a derived draw, or None if it is none that is known."""
    parts = sources(recording, draw)
    laws = tuple(recording.laws[i] for i in parts)
    return unit_laws.name_expression(laws, lambda *points: evaluate(recording, draw, dict(zip(parts, points, strict=True))))


def dependent(recording: Recording, draws: list[int]) -> bool:
    """True if two draws are made of one draw and not known to be independent, as the numbers of Box and Muller are."""
    owners: dict[int, list[int]] = {}
    for draw in draws if recording.expressions else []:
        for source in sources(recording, draw):
            earlier = owners.setdefault(source, [])
            if any(not _is_polar(recording, first, draw) for first in earlier):
                return True
            earlier.append(draw)
    return False


def _is_polar(recording: Recording, first: int, second: int) -> bool:
    """True if two normal draws are the coordinates of a point with a radius of one uniform draw and an angle of another."""
    parts, laws = sources(recording, first), [name_law(recording, draw) for draw in (first, second)]
    are_normal = all(law is not None and law[0] == "normal" for law in laws)
    if sources(recording, second) != parts or len(parts) != 2 or not are_normal:
        return False
    grid = np.meshgrid(np.linspace(0.05, 0.95, 19), np.linspace(0.03, 0.97, 23))
    points = dict(zip(parts, grid, strict=True))
    coordinates = [evaluate(recording, draw, points) / law[1] for draw, law in zip((first, second), laws, strict=True) if law]
    radius = coordinates[0] ** 2 + coordinates[1] ** 2
    return bool(np.allclose(radius, radius[:1]) or np.allclose(radius, radius[:, :1]))
