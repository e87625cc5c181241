"""The loss of one part of two transcripts: numbers by their shift, events by their own probabilities."""

import math
from dataclasses import replace

import numpy as np

from audit.replays.losses import Loss
from audit.replays.recording import EVENT, NUMBER, SELECTION, Array
from audit.replays.transcripts import TranscriptPart
from audit.stats import event_probability, linear_noise, unit_laws

_ROUNDING = 1e-9  # relative difference of weights that is rounding


def part_loss(part: TranscriptPart) -> Loss:
    """Return the least loss that holds for a part: by its numbers, or by its events if no number of it is released."""
    if bool(np.array_equal(part.first, part.second, equal_nan=True)) and _same_weights(part):
        return Loss()
    numbers = np.array([kind == NUMBER for kind in part.kinds])
    if not numbers.any() and (by_events := _event_loss(part)) is not None:
        return by_events
    if numbers.all() or (numbers.any() and _follows(part, numbers)):
        return _number_loss(part, numbers)
    return replace(_number_loss(part, np.ones(len(numbers), dtype=bool)), exact=False)


def _same_weights(part: TranscriptPart) -> bool:
    if part.first_weights.shape != part.second_weights.shape:
        return False
    return bool(np.allclose(part.first_weights, part.second_weights, rtol=_ROUNDING, atol=0, equal_nan=True))


def _follows(part: TranscriptPart, numbers: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> bool:
    """True if every event is decided by the numbers, on both sides in the same way."""
    if SELECTION in part.kinds or part.first_weights.shape != part.second_weights.shape:
        return False
    events = ~numbers
    for value, weights in part.sides:
        factors, _, _, _ = np.linalg.lstsq(weights[numbers].T, weights[events].T, rcond=1e-12)
        if not np.allclose(weights[numbers].T @ factors, weights[events].T, atol=1e-9):
            return False
        if value is part.first:
            offset = part.first[events] - factors.T @ part.first[numbers]
        elif not np.allclose(offset, part.second[events] - factors.T @ part.second[numbers], atol=1e-9, rtol=1e-9):
            return False
    return True


def _number_loss(part: TranscriptPart, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Loss:  # noqa: PLR0911 (one arm a kind)
    first, second = part.first_weights[rows], part.second_weights[rows]
    movement = part.second[rows] - part.first[rows]
    equal = (part.first[rows] == part.second[rows]) | (np.isnan(part.first[rows]) & np.isnan(part.second[rows]))
    # infinity less itself is NaN, but what is the same on both sides does not move
    movement = np.where(equal, 0.0, movement)
    site = next((site for site, still in zip(np.array(part.sites)[rows], equal, strict=True) if not still), part.sites[0])
    if not np.all(np.isfinite(movement)):
        return Loss(pure=math.inf, reasons=(f"{site}: an input becomes {'NaN' if np.isnan(movement).any() else 'infinite'}",))
    laws = set(part.laws)
    if not np.all(np.isfinite(first)) or not np.all(np.isfinite(second)):
        return Loss(pure=math.inf, exact=False, reasons=(f"{site}: a noise scale is no finite number",))
    if not _same_weights(part):
        return _changed_noise(part, rows, movement, site)
    if laws == {"normal"}:
        mu = linear_noise.gaussian_mu(first, movement)
        return Loss(mu=mu, reasons=() if math.isfinite(mu) else (f"{site}: the input moves where there is no noise",))
    rates = np.array([unit_laws.shift_rate(law) for law in part.laws])
    bound, exact = linear_noise.shift_loss(first, rates, movement)
    if math.isfinite(bound) and any(law.startswith("two-sided") for law in laws):
        return _lattice_loss(first, rates, movement, bound, site)
    if not math.isfinite(bound) and "normal" in laws:
        # a shift of normal noise has no pure loss; other noise beside it can only hide more, so its own loss is a bound
        columns = [i for i, law in enumerate(part.laws) if law == "normal"]
        return Loss(
            mu=linear_noise.gaussian_mu(first[:, columns], movement), exact=False, reasons=(f"{site}: noise of several laws",)
        )
    reasons: tuple[str, ...] = ()
    if not math.isfinite(bound):
        if first.shape == (1, 1) and laws <= {"uniform", "exponential"}:
            # the shifted law ends elsewhere: outcomes near its ends are possible on one side only, which costs a delta
            return _other_support(part.laws[0], float(abs(movement[0] / first[0, 0])), site)
        exact = laws <= {"laplace", "logistic", "normal"}
        unknown = laws - {"laplace", "logistic", "normal"}
        reasons = (
            f"{site}: noise of the law {', '.join(sorted(unknown))}"
            if unknown
            else f"{site}: the input moves where there is no noise",
        )
    if first.shape == (1, 1) and laws == {"laplace"} and bound:
        return Loss(laplace=(bound,), exact=exact, reasons=reasons)
    return Loss(pure=bound, exact=exact, reasons=reasons)


def _other_support(law: str, shift: float, site: str) -> Loss:
    """Return the loss of one draw of a law that ends somewhere, moved by a share of its scale."""
    reasons = (f"{site}: noise of the law {law} ends at another number",)
    if law == "uniform":
        return Loss(impossible=min(shift, 1.0), reasons=reasons)
    return Loss(pure=shift, impossible=-math.expm1(-shift), one_sided=1, reasons=reasons)


def _lattice_loss(weights: Array, rates: Array, movement: Array, bound: float, site: str) -> Loss:
    """Return the loss of noise on whole numbers: infinite if the movement is between them."""
    shift = np.linalg.lstsq(weights, movement, rcond=1e-12)[0]
    if np.allclose(shift, np.round(shift), atol=1e-9):
        return Loss(pure=bound, exact=weights.shape[1] == 1)
    return Loss(
        pure=math.inf,
        exact=weights.shape == (1, 1),
        reasons=(f"{site}: noise on whole numbers, the input moves by {movement[0]:.3g}",),
    )


def _changed_noise(part: TranscriptPart, rows: np.ndarray[tuple[int], np.dtype[np.bool_]], movement: Array, site: str) -> Loss:
    reasons = (f"{site}: the scale of the noise depends on the data",)
    first, second = part.first_weights[rows], part.second_weights[rows]
    if set(part.laws) == {"normal"}:
        if np.allclose(first @ first.T, second @ second.T, rtol=_ROUNDING, atol=0):  # the same law, made of other draws
            return Loss(mu=linear_noise.gaussian_mu(first, movement))
        divergences = linear_noise.covariance_divergence(movement, first, second)
        return Loss(divergences=divergences, exact=False, reasons=reasons)
    single = first.shape == second.shape == (1, 1) and set(part.laws) <= {"laplace", "logistic"}
    return Loss(pure=math.inf, exact=single, is_unbounded=single, reasons=reasons)


def _event_loss(part: TranscriptPart) -> Loss | None:
    """Return the loss of the events of a part along this path, or None if their joint law is none that is computed."""
    if part.first_weights.shape != part.second_weights.shape or not all(
        unit_laws.is_known(law) or law == "sign" for law in part.laws
    ):
        return None
    if not all(np.all(np.isfinite(item)) for item in (part.first, part.second, part.first_weights, part.second_weights)):
        return None
    if SELECTION in part.kinds:
        return _selection_loss(part)
    star = _star(part)
    if star is None:
        return None
    signs = np.where(part.outputs > 0, 1.0, -1.0)
    # a single event is followed to its other outcome as well; several have too many
    outcomes = [signs, -signs] if len(signs) == 1 else [signs]
    worst = 0.0
    for outcome in outcomes:
        logs = [_log_event(part, *side, star, outcome) for side in part.sides]
        if math.isinf(logs[0]) and math.isinf(logs[1]):
            continue
        worst = max(worst, abs(logs[0] - logs[1]))
    reasons = () if math.isfinite(worst) else (f"{part.sites[0]}: a decision is possible on one side only",)
    return Loss(pure=_denoise(worst), one_sided=1, reasons=reasons)


def outcome_ratios(part: TranscriptPart) -> list[float] | None:
    """Return the log ratio of each outcome of a part that is one comparison or one selection, None if it is something else."""
    if SELECTION in part.kinds and part.first_weights.shape == part.second_weights.shape:
        return _selection_ratios(part)
    star = _star(part) if len(part.first) == 1 and part.first_weights.shape == part.second_weights.shape else None
    if star is None or part.kinds != (EVENT,) or not all(unit_laws.is_known(law) for law in part.laws):
        return None
    logs = [[_log_event(part, *side, star, np.array([sign])) for side in part.sides] for sign in (1.0, -1.0)]
    return [first - second for first, second in logs if math.isfinite(first) and math.isfinite(second)]


def log_outcome(part: TranscriptPart) -> tuple[float, float] | None:
    """Return the log probabilities on both sides of the outcomes of a part of events, or None if their law is not known."""
    if part.first_weights.shape != part.second_weights.shape or not all(unit_laws.is_known(law) for law in part.laws):
        return None
    if set(part.kinds) == {SELECTION}:
        logs = _selection_logs(part)
        return None if logs is None else (float(logs[0][int(part.outputs[0])]), float(logs[1][int(part.outputs[0])]))
    star = _star(part) if set(part.kinds) == {EVENT} else None
    if star is None:
        return None
    signs = np.where(part.outputs > 0, 1.0, -1.0)
    first, second = (_log_event(part, *side, star, signs) for side in part.sides)
    return first, second


def _denoise(loss: float) -> float:
    return 0.0 if loss < 1e-9 else loss


def _star(part: TranscriptPart) -> tuple[int | None, list[int | None]] | None:
    """Return the draw that all rows may share and the draw that each row has alone, or None if the part has another form."""
    support = (part.first_weights != 0) | (part.second_weights != 0)
    several = np.flatnonzero(support.sum(axis=0) > 1).tolist()
    if len(several) > 1:
        return None
    shared: int | None = several[0] if several else None
    # one row of two draws: either can be integrated over, given the other
    if shared is None and len(support) == 1 and support.sum() == 2:
        shared = int(np.flatnonzero(support[0])[0])
    private: list[int | None] = []
    for row in support:
        alone = [j for j in np.flatnonzero(row).tolist() if j != shared]
        if len(alone) > 1:
            return None
        private.append(alone[0] if alone else None)
    # a sign has two values and no density
    if shared is not None and part.laws[shared] == "sign":
        return None
    return shared, private


def _log_event(
    part: TranscriptPart, value: Array, weights: Array, star: tuple[int | None, list[int | None]], signs: Array
) -> float:
    shared, private = star
    rows = range(len(value))
    return event_probability.log_all_above(
        value,
        weights[:, shared] if shared is not None else np.zeros(len(value)),
        np.array([weights[i, j] if j is not None else 0.0 for i, j in zip(rows, private, strict=True)]),
        (part.laws[shared] if shared is not None else "", [part.laws[j] if j is not None else "" for j in private]),
        signs,
    )


def _selection_loss(part: TranscriptPart) -> Loss | None:
    """Return the loss of one selection among numbers with a draw each, the largest over what may be selected."""
    ratios = _selection_ratios(part)
    return None if ratios is None else Loss(pure=_denoise(max(map(abs, ratios), default=0.0)), one_sided=1)


def _selection_ratios(part: TranscriptPart) -> list[float] | None:
    logs = _selection_logs(part)
    if logs is None:
        return None
    with np.errstate(invalid="ignore"):
        difference = logs[0] - logs[1]
    return [ratio for ratio in difference.tolist() if not math.isnan(ratio)]


def _selection_logs(part: TranscriptPart) -> tuple[Array, Array] | None:
    support = (part.first_weights != 0) | (part.second_weights != 0)
    if len(set(part.releases.tolist())) > 1 or not np.all(support.sum(axis=1) == 1) or not np.all(support.sum(axis=0) == 1):
        return None
    column = support.argmax(axis=1)
    logs = []
    for value, weights in part.sides:
        scale = weights[np.arange(len(value)), column]
        if np.any(scale < 0) and not all(part.laws[j] in ("laplace", "normal", "logistic") for j in column):
            return None
        logs.append(event_probability.log_largest(value, np.abs(scale), [part.laws[j] for j in column]))
    return logs[0], logs[1]
