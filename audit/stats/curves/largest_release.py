"""The largest of several normal releases, one of which is shifted: its evidence of the shift, whichever release that was."""

import numpy as np
from scipy import special

from audit.stats.arrays import Array
from audit.stats.curves.loss_pairs import LossPair, finite_pair

EDGES = np.arange(-4.0, 9.0, 0.02)  # between the cells of the largest release, in standard deviations


def shifts_told_apart(count: int, first: float, second: float) -> LossPair:
    """Return the privacy loss of the cell of the largest of `count` releases, one shifted by `first` against by `second`.

    Which release is shifted is random and no one knows it. The cell is computed from all releases, so that they reveal at least
    as much: epsilon and delta of this pair are lower bounds on those of the releases.

    References: Chua et al. 2024, arXiv 2403.17673, section 4: the event that the largest release is above a threshold.
    """
    chances, alternatives = cells(count, first), cells(count, second)
    positive = (chances > 0) & (alternatives > 0)  # a cell whose chance is below all floats is left out, which tells less
    chances, alternatives = chances[positive], alternatives[positive]
    return finite_pair(tuple((np.log(chances) - np.log(alternatives)).tolist()), tuple(chances.tolist()))


def cells(count: int, shift: float) -> Array:
    """Return the chance of each cell between `EDGES` for the largest of `count` releases, one shifted by `shift`."""
    log_chance = special.log_ndtr(EDGES - shift) + (count - 1) * special.log_ndtr(EDGES)
    below, above = np.exp(log_chance), -np.expm1(log_chance)
    inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))  # the difference that loses no digits
    return np.concatenate([below[:1], inner, above[-1:]])
