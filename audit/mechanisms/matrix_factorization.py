"""DP-FTRL by a banded matrix factorisation, with noise that is given or calibrated to a target epsilon."""

from dataclasses import dataclass
from typing import ClassVar

from audit.accounting import calibration
from audit.core import checks
from audit.core.deployed_events import MatrixFactorization
from audit.core.events import Event
from audit.core.protocols import MechanismSetting
from audit.mechanisms._sgd import check_noise, first_accountant


@dataclass(frozen=True, slots=True, kw_only=True)
class BandedMatrixFactorization:
    """Each record in one batch of every cycle, clipped gradients, Gaussian noise that is correlated over steps.

    The cycle has `1 / sample_rate` steps, rounded. The encoder C is the square root of the matrix of ones below and on the
    diagonal, cut to `bands`: its first column is 1, 1/2, 3/8, 5/16, ... With one band the noise is independent. No
    amplification by sampling is claimed.

    Attributes:
        clip_norm: l2 bound on one record's gradient.
        noise_multiplier: standard deviation of the noise on C times the sums, over the clip norm; or
        target_epsilon: which the noise is calibrated to, by the first accountant of the config.
        bands: of C; None takes as many as the cycle has steps, the most with a sensitivity that does not mix participations.

    References:
        Fichtenberger, Henzinger, Upadhyay 2022, arXiv 2202.11205 (the square root). Choquette-Choo et al. 2023, arXiv
        2306.08153 (bands). Kalinin, Lampert 2024, arXiv 2405.13763.
    """

    trainer: ClassVar[str] = "matrix_factorization"

    clip_norm: float = 1.0
    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    bands: int | None = None

    def __post_init__(self) -> None:
        check_noise("matrix_factorization", self.clip_norm, self.noise_multiplier, self.target_epsilon)
        if self.bands is not None:
            checks.count(self.bands, "bands", minimum=1)

    def event(self, setting: MechanismSetting) -> Event:
        """Return the event of the training; `ConfigError` for a target epsilon that no noise meets, or no accountant."""
        cycle = min(setting.steps, max(1, round(1 / setting.sample_rate)))
        event = MatrixFactorization(
            noise_multiplier=1.0 if self.noise_multiplier is None else self.noise_multiplier,
            clip_norm=self.clip_norm,
            coefficients=square_root(min(cycle if self.bands is None else self.bands, setting.steps)),
            steps=setting.steps,
            participations=-(-setting.steps // cycle),
            separation=cycle,
        )
        if self.target_epsilon is None:
            return event
        accountant = first_accountant(setting)
        return calibration.noise_factor(
            accountant, event, target_epsilon=self.target_epsilon, delta=setting.delta, adjacency=setting.adjacency
        )[1]


def square_root(bands: int) -> tuple[float, ...]:
    """First column of the square root of the lower-triangular matrix of ones, `binomial(2k, k) / 4^k`.

    >>> square_root(4)
    (1.0, 0.5, 0.375, 0.3125)
    """
    column = [1.0]
    for place in range(1, bands):
        column.append(column[-1] * (2 * place - 1) / (2 * place))
    return tuple(column)


PLUGIN = BandedMatrixFactorization
