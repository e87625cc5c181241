"""Location and spread of a signal over reference models, with and without each record.

All functions take signals `(k, m)` of `k` models for `m` records and the models' memberships
`(k, m)`, and never loop over records.
"""

from dataclasses import dataclass, replace

import numpy as np

from audit.stats.arrays import AnyArray
from audit.stats.spread import evenly, parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One side (models with, or models without, each record).

    Attributes:
        count: `(m,)` models on this side.
        mean: `(m,)` mean signal; taken from the other side and moved where `count` is zero.
        squares: `(m,)` sum of squared deviations from the mean.
        fixed_std: standard deviation of all residuals after centring each record on its own mean:
            `sqrt(sum(squares) / sum(count - 1))` over records with two or more models.
    """

    count: AnyArray
    mean: AnyArray
    squares: AnyArray
    fixed_std: float


def memberships(included: AnyArray) -> AnyArray:
    """Memberships as true and false: as they are if they say of themselves that they are, such as bits, else as an array."""
    return included if np.dtype(getattr(included, "dtype", float)).kind == "b" else np.asarray(included, dtype=bool)


def sides(values: AnyArray, included: AnyArray) -> tuple[Side, Side]:
    """The member and the nonmember side of signals `(k, m)`; `ValueError` for signals and memberships of different shapes.

    A record that no model of one side saw takes its mean from the other side plus the average difference of sides (over
    records that have both; zero if none has). A side without any residual takes the other side's standard deviation, and where
    neither has one, that of all signals around each record's mean or, failing that, overall.

    >>> member, nonmember = sides(np.array([[1.0], [3.0], [0.0]]), np.array([[True], [True], [False]]))
    >>> member.mean.tolist(), nonmember.mean.tolist(), round(member.fixed_std, 4)
    ([2.0], [0.0], 1.4142)
    """
    values, included = np.asarray(values), memberships(included)
    if values.shape != included.shape:
        raise ValueError(f"signals of shape {values.shape} with memberships of shape {included.shape}; expected equal shapes")
    parts = _both_moments(values, included)
    means = _fill_means(parts[0], parts[1])
    stds = _fixed_stds(values, parts)
    member, nonmember = (
        Side(count=count, mean=mean, squares=squares, fixed_std=std)
        for (count, _, squares), mean, std in zip(parts, means, stds, strict=True)
    )
    return member, nonmember


def leave_one_out(
    values: AnyArray, included: AnyArray, models: int | None = None, everyone: tuple[Side, Side] | None = None
) -> tuple[Side, Side]:
    """For each model the sides of signals `(k, m)` of all other models, member and nonmember: `Side`s with arrays `(used, m)`.

    Lets every reference play the target. Means of sides that are empty without the model are filled as
    in `sides`; `fixed_std` and the shift used for filling are those of all models.

    Args:
        models: of the first so many models; all by default.
    """
    values = np.asarray(values, dtype=np.float64)
    included = memberships(included)
    everyone = sides(values, included) if everyone is None else everyone
    shift = float(np.mean(everyone[0].mean - everyone[1].mean))
    subset, coins = values[:models], np.asarray(included[:models])
    parts = [_without_self(subset, mask, side) for mask, side in zip((coins, ~coins), everyone, strict=True)]
    (n_in, mean_in, squares_in), (n_out, mean_out, squares_out) = parts
    filled_in = np.where(n_in > 0, mean_in, mean_out + shift)
    filled_out = np.where(n_out > 0, mean_out, mean_in - shift)
    return (
        Side(count=n_in, mean=filled_in, squares=squares_in, fixed_std=everyone[0].fixed_std),
        Side(count=n_out, mean=filled_out, squares=squares_out, fixed_std=everyone[1].fixed_std),
    )


def training_pairs(included: AnyArray, rows: int) -> tuple[int, AnyArray]:
    """Return of how many references, from the first on, and of which records the pairs are that a fit learns from.

    Whole references, `rows` pairs at most; of more records than that an evenly spread part. More references if the first
    ones trained on all of these records or on none.

    >>> training_pairs(np.array([[False, False], [True, False]]), 2)
    (2, array([0, 1]))
    """
    columns = evenly(included.shape[1], max(rows, 2))
    coins = included[:, columns]
    has_both = np.logical_or.accumulate(coins.any(axis=1)) & np.logical_or.accumulate(~coins.all(axis=1))
    return max(min(len(included), rows // max(len(columns), 1)), int(np.argmax(has_both)) + 1), columns


def at(sides: tuple[Side, Side], columns: AnyArray | slice) -> tuple[Side, Side]:
    """The same sides for some of the records; what holds for all, their standard deviation, stays."""
    member, nonmember = (
        replace(side, count=side.count[columns], mean=side.mean[columns], squares=side.squares[columns]) for side in sides
    )
    return member, nonmember


def per_example_std(side: Side) -> AnyArray:
    """Standard deviation of each record's own signals (`count - 1` in the denominator), `(m,)`.

    The fixed one if a record has fewer than two models; never below a thousandth of the fixed one.
    """
    own = np.sqrt(side.squares / np.maximum(side.count - 1, 1))
    return np.where(side.count >= 2, np.maximum(own, side.fixed_std * 1e-3), side.fixed_std)


def with_shrunk_shift(member: Side, nonmember: Side) -> tuple[Side, Side]:
    """Both sides, with the difference of their means shrunk towards the average difference, as far as it is noise.

    Record i's difference is normal around a common mean with variance `t`, its estimate has the further variance `v_i =
    fixed_std_member^2 / n_member + fixed_std_nonmember^2 / n_nonmember`. `t` is estimated by moments (never below zero) and
    each difference replaced by its posterior mean, weight `t / (t + v_i)` on its own. The level of a record is then the
    precision-weighted mean of all its models.

    References: Efron and Morris 1973 (shrinkage); estimate of `t`: DerSimonian and Laird 1986, in its unweighted form.
    """
    usable = (member.count > 0) & (nonmember.count > 0)
    weights = member.count / member.fixed_std**2, nonmember.count / nonmember.fixed_std**2
    own = member.mean - nonmember.mean
    if usable.any():
        noise = 1 / weights[0][usable] + 1 / weights[1][usable]
        centre = float(own[usable].mean())
        between = max(float(own[usable].var()) - float(noise.mean()), 0.0)
        shift = np.full(own.shape, centre)
        shift[usable] += between / (between + noise) * (own[usable] - centre)
    else:
        shift = own
    level = (weights[0] * (member.mean - shift) + weights[1] * nonmember.mean) / (weights[0] + weights[1])
    return replace(member, mean=level + shift), replace(nonmember, mean=level)


def shrunk(side: Side, prior_strength: float) -> tuple[AnyArray, AnyArray]:
    """Degrees of freedom and scale `(m,)` of the Student-t predictive law of one further signal.

    Conjugate model: the variance is scaled-inverse-chi-square with `prior_strength` degrees of freedom
    around `fixed_std**2`, the mean has a flat prior. With `n` signals the posterior has
    `prior_strength + n - 1` degrees of freedom and the predictive scale `sqrt(variance * (1 + 1 / n))`.

    References: Gelman et al. 2013, Bayesian Data Analysis, section 3.3 and 5.
    """
    counts = np.maximum(side.count, 1)
    dof = prior_strength + counts - 1.0
    variance = (prior_strength * side.fixed_std**2 + side.squares) / dof
    return dof, np.sqrt(variance * (1 + 1 / counts))


def _both_moments(values: AnyArray, included: AnyArray) -> list[tuple[AnyArray, AnyArray, AnyArray]]:
    """`_moments` of models with and of those without each record, some records at a time."""
    moments: tuple[list[tuple[AnyArray, AnyArray, AnyArray]], list[tuple[AnyArray, AnyArray, AnyArray]]] = ([], [])
    for part in parts(values.shape[1], len(values)):
        block, coins = np.asarray(values[:, part], dtype=np.float64), included[:, part]
        for side, mask in zip(moments, (coins, ~coins), strict=True):
            side.append(_moments(block, mask))
    joint = [[np.concatenate(figure) for figure in zip(*side, strict=True)] for side in moments]
    return [(count, mean, squares) for count, mean, squares in joint]


def _moments(values: AnyArray, mask: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Count, mean and squared deviations of each record; of equal signals the mean is that signal, to the last bit."""
    count, shifts = mask.sum(axis=0), values - values[0]
    shift = np.einsum("km,km->m", shifts, mask) / np.maximum(count, 1)
    remainder = (shifts - shift) * mask
    return count, values[0] + shift, np.einsum("km,km->m", remainder, remainder)


def _without_self(values: AnyArray, mask: AnyArray, side: Side) -> tuple[AnyArray, AnyArray, AnyArray]:
    count = side.count - mask
    deviation = np.where(mask, values - side.mean, 0.0)
    mean = side.mean - deviation / np.maximum(count, 1)
    squares = side.squares - deviation**2 * side.count / np.maximum(count, 1)
    return count, mean, np.where(count > 1, np.maximum(squares, 0.0), 0.0)


def _fill_means(
    member: tuple[AnyArray, AnyArray, AnyArray], nonmember: tuple[AnyArray, AnyArray, AnyArray]
) -> tuple[AnyArray, AnyArray]:
    usable = (member[0] > 0) & (nonmember[0] > 0)
    shift = float(np.mean((member[1] - nonmember[1])[usable])) if usable.any() else 0.0
    return (
        np.where(member[0] > 0, member[1], nonmember[1] + shift),
        np.where(nonmember[0] > 0, nonmember[1], member[1] - shift),
    )


def _fixed_stds(values: AnyArray, parts: list[tuple[AnyArray, AnyArray, AnyArray]]) -> tuple[float, float]:
    own = [_residual_std(count, squares) for count, _, squares in parts]
    positive_stds = [std for std in own if std > 0]
    if positive_stds:
        spare = positive_stds[0]
    else:
        shifts = values - values[0].astype(np.float64)
        around_records = float(np.std(shifts - shifts.mean(axis=0)))
        spare = around_records or float(np.std(values)) or 1.0
    return own[0] or spare, own[1] or spare


def _residual_std(count: AnyArray, squares: AnyArray) -> float:
    replicates = count >= 2
    freedom = int((count[replicates] - 1).sum())
    return float(np.sqrt(squares[replicates].sum() / freedom)) if freedom else 0.0
