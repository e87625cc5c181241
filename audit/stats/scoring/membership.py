"""How much a signal of one model speaks for membership, given the same signal of reference models.

Every function takes the target's signal `(m,)`, the references' `(k, m)` and their memberships `(k, m)`,
and gives `(m,)` float64, higher for members. None loops over records.
"""

import numpy as np
from scipy import special

from audit.stats.arrays import AnyArray
from audit.stats.scoring import normal, reference_fit
from audit.stats.spread import parts

VARIANCES = ("fixed", "predictive", "per_example", "shrunk")

OFFLINE_WEIGHT = 0.3  # weight of RMIA's offline form where nobody fits one: the default of its authors' code


def likelihood_ratio(
    target_values: AnyArray,
    reference_values: AnyArray,
    included: AnyArray,
    *,
    variance: str = "fixed",
    prior_strength: float = 8.0,
    shrink_shift: bool = False,
) -> AnyArray:
    """Log-likelihood ratio of `target_values` under models with and without each record: one normal (or Student-t) law a side.

    Args:
        variance: one of `VARIANCES` (see `spread`).
        shrink_shift: means from `reference_fit.with_shrunk_shift`.

    References: Carlini et al. 2022, arXiv 2112.03570, algorithm 1.
    """
    member, nonmember = reference_fit.sides(reference_values, included)
    if shrink_shift:
        member, nonmember = reference_fit.with_shrunk_shift(member, nonmember)
    return log_density(target_values, member, variance, prior_strength) - log_density(
        target_values, nonmember, variance, prior_strength
    )


def deviation(
    target_values: AnyArray,
    reference_values: AnyArray,
    included: AnyArray,
    *,
    variance: str = "fixed",
    prior_strength: float = 8.0,
) -> AnyArray:
    """Standard deviations by which `target_values` is above models without the record; one-sided.

    The normal quantile of the p-value "a model without the record is at least this confident".

    References: Carlini et al. 2022, arXiv 2112.03570, equation 4 (offline attack).
    """
    _, nonmember = reference_fit.sides(reference_values, included)
    dof, scale = spread(nonmember, variance, prior_strength)
    z = np.asarray((target_values - nonmember.mean) / scale)
    return z if dof is None else normal.student_score(z, dof)


def difference(target_values: AnyArray, reference_values: AnyArray, included: AnyArray, *, online: bool) -> AnyArray:
    """`target_values` minus the record's difficulty: the midpoint of both sides (online) or the mean without the record.

    References: Sablayrolles et al. 2019, arXiv 1908.11229 (online); Watson et al. 2022, arXiv 2111.08440 (offline).
    """
    member, nonmember = reference_fit.sides(reference_values, included)
    return np.asarray(target_values - ((member.mean + nonmember.mean) / 2 if online else nonmember.mean))


def log_ratio(log_p: AnyArray, their_log_p: AnyArray, included: AnyArray, *, online: bool, offline_weight: float) -> AnyArray:
    """Log of how much likelier the target finds each record than an average model does, `log p(x | target) - log p(x)`.

    `p(x)` averages probabilities. Online: half models with and half without the record. Offline, and for records that no
    reference trained on, `p_member = w * p_nonmember + 1 - w` with `w = offline_weight`; for records that every reference
    trained on, the other way round.

    References: Zarifzadeh et al. 2024, arXiv 2312.03262, equations 5 and 11; Lassila et al. 2025, arXiv 2505.24089.
    """
    return np.asarray(log_ratios(log_p, their_log_p, included, offline_weight=offline_weight)[0 if online else 1])


def log_ratios(log_p: AnyArray, their_log_p: AnyArray, included: AnyArray, *, offline_weight: float) -> AnyArray:
    """The `log_ratio` of each record online and offline, `(2, m)`."""
    out = np.empty((2, *np.shape(log_p)))
    for part in parts(their_log_p.shape[1], len(their_log_p)):
        out[:, part] = log_p[part] - _log_averages(their_log_p[:, part], included[:, part], offline_weight)
    return out


def _log_averages(their_log_p: AnyArray, included: AnyArray, w: float) -> AnyArray:
    """Log of the averages `p(x)` of `log_ratio`, online and offline, `(2, m)`."""
    with_record, without = _log_mean_exp(their_log_p, included), _log_mean_exp(their_log_p, ~included)
    with np.errstate(divide="ignore"):
        complement = np.log1p(-w)
        from_nonmembers = np.logaddexp(without + np.log1p(w), complement) - np.log(2)
        log_mean_out = np.log(np.maximum((np.exp(with_record) + w - 1) / max(w, 1e-12), np.finfo(np.float64).tiny))
    of_both_sides = np.logaddexp(with_record, without) - np.log(2)
    averages = np.stack([np.where(np.isneginf(with_record), from_nonmembers, of_both_sides), from_nonmembers])
    only_members = ~(~included).any(axis=0)
    return np.asarray(np.where(only_members, np.logaddexp(with_record, log_mean_out) - np.log(2), averages))


def reference_log_ratio(
    log_p: AnyArray, included: AnyArray, *, online: bool, offline_weight: float, models: int | None = None
) -> AnyArray:
    """The `log_ratio` of each reference against all others, `(used, m)`: every (or the first `models`) once the target.

    Zero if there is no other.
    """
    ratios = reference_log_ratios(log_p, included, offline_weight=offline_weight, models=models)
    return np.asarray(ratios[0 if online else 1])


def reference_log_ratios(log_p: AnyArray, included: AnyArray, *, offline_weight: float, models: int | None = None) -> AnyArray:
    """The `reference_log_ratio` online and offline, `(2, used, m)`."""
    # probabilities and no logarithms: the sum over all others is the whole less a model's own
    p = np.exp(log_p)
    log_p = log_p[:models]
    with_record, without = _mean_without_self(p, included, models), _mean_without_self(p, ~included, models)
    has_nonmember = ~np.isnan(without)
    w = offline_weight
    from_members = np.maximum((with_record + w - 1) / w, np.finfo(np.float64).tiny)  # the average without, from that with
    without = np.where(np.isnan(without), from_members, without)
    from_nonmembers = ((1 + w) * without + 1 - w) / 2
    of_both_sides = (with_record + without) / 2
    online = np.where(np.isnan(with_record), from_nonmembers, of_both_sides)
    averages = np.stack([online, np.where(has_nonmember, from_nonmembers, of_both_sides)])
    return np.asarray(np.where(np.isnan(averages), 0.0, log_p - np.log(averages)))


def smoothed_rank(target_values: AnyArray, reference_values: AnyArray, included: AnyArray) -> AnyArray:
    """Log odds that the target is more confident than a model without the record; a kernel-smoothed rank.

    The plain rank among `n` models takes `n + 1` values and ties nearly all records. Here each model
    without the record counts as a normal law around its signal, of width `fixed_std * n ** -0.2`.

    References: Ye et al. 2022, arXiv 2111.09679 (attack R); Silverman 1986, section 3.4 (width).
    """
    _, nonmember = reference_fit.sides(reference_values, included)
    width = nonmember.fixed_std * np.maximum(nonmember.count, 1) ** -0.2
    is_idle = nonmember.count == 0
    out = np.empty(np.shape(target_values))
    for part in parts(len(out), len(reference_values)):
        centres = np.where(included[:, part], np.nan, reference_values[:, part])
        centres[0, is_idle[part]] = nonmember.mean[part][is_idle[part]]  # the predicted mean is in for a model
        z = (target_values[part] - centres) / width[part]
        out[part] = _nan_log_sum_exp(special.log_ndtr(z)) - _nan_log_sum_exp(special.log_ndtr(-z))
    return out


def spread(side: reference_fit.Side, variance: str, prior_strength: float) -> tuple[AnyArray | None, AnyArray]:
    """Degrees of freedom (None for a normal law) and scale of one side: the meaning of `variance`; `ValueError` for another
    name.

    "fixed": one standard deviation for all records, of the residuals around each record's own mean. "predictive": the same with
    the error of that mean over `n` models, `sqrt(1 + 1 / n)` times as large: the law of one further signal.
    "per_example": each record its own. "shrunk": the posterior of each record's own given the fixed one.
    """
    if variance == "fixed":
        return None, np.asarray(side.fixed_std)
    if variance == "predictive":
        return None, side.fixed_std * np.sqrt(1 + 1 / np.maximum(side.count, 1))
    if variance == "per_example":
        return None, reference_fit.per_example_std(side)
    if variance == "shrunk":
        return reference_fit.shrunk(side, prior_strength)
    raise ValueError(f"variance is '{variance}'; expected one of {', '.join(VARIANCES)}")


def log_density(x: AnyArray, side: reference_fit.Side, variance: str, prior_strength: float = 8.0) -> AnyArray:
    """Log density of `x` under the law of one side: normal, or Student-t for "shrunk"."""
    dof, scale = spread(side, variance, prior_strength)
    if dof is None:
        return normal.log_normal_density(x, side.mean, scale)
    return normal.log_student_density(x, dof, side.mean, scale)


def _log_mean_exp(values: AnyArray, mask: AnyArray) -> AnyArray:
    """Log of the mean of `exp(values)` over models in `mask`, `(m,)`; minus infinity if there is none."""
    masked_values = np.where(mask, values, -np.inf)
    peak = np.max(masked_values, axis=0)
    shift = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(shift + np.log(np.exp(masked_values - shift).sum(axis=0) / np.maximum(mask.sum(axis=0), 1)))


def _mean_without_self(p: AnyArray, mask: AnyArray, models: int | None) -> AnyArray:
    """For the first `models` models the mean of `p` over the other models in `mask`, NaN if there is none, `(used, m)`."""
    other_counts = mask.sum(axis=0) - mask[:models]
    remainder = np.maximum(
        np.einsum("km,km->m", p, mask) - p[:models] * mask[:models], 1e-15
    )  # 1e-15: what cancellation leaves of a sum of probabilities
    return np.where(other_counts > 0, remainder / np.maximum(other_counts, 1), np.nan)


def _nan_log_sum_exp(values: AnyArray) -> AnyArray:
    peak = np.nanmax(values, axis=0)
    return np.asarray(peak + np.log(np.nansum(np.exp(values - peak), axis=0)))
