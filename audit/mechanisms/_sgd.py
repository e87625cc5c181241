"""Stochastic gradient training on Poisson batches: DP-SGD, with noise that is given or calibrated, and without protection."""

from dataclasses import asdict, dataclass
from typing import ClassVar

from audit.accounting import calibration
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.event_reading import noisy_steps
from audit.core.events import Event, dp_sgd, sgd
from audit.core.protocols import Accountant, MechanismSetting


def check_noise(kind: str, clip_norm: float, noise_multiplier: float | None, target_epsilon: float | None) -> None:
    """Raise `ConfigError` unless float32 can compute with the noise, and exactly one of it and its target is given."""
    checks.clipped_noise(clip_norm, noise_multiplier)
    if (noise_multiplier is None) == (target_epsilon is None):
        raise ConfigError(f"{kind} takes exactly one of noise_multiplier and target_epsilon")


def first_accountant(setting: MechanismSetting) -> Accountant:
    """Return the accountant that noise is calibrated by."""
    if not setting.accountants:
        raise ConfigError("there is a target_epsilon but no accountant is named to calibrate the noise")
    return setting.accountants[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class DpSgd:
    """Poisson batches, clipped gradients, Gaussian noise on the sum.

    Attributes:
        clip_norm: l2 bound on one record's gradient.
        noise_multiplier: noise standard deviation over the clip norm; or
        target_epsilon: which the noise is calibrated to, by the first accountant of the config.
    """

    trainer: ClassVar[str] = "dpsgd"

    clip_norm: float = 1.0
    noise_multiplier: float | None = None
    target_epsilon: float | None = None

    def __post_init__(self) -> None:
        check_noise("dp_sgd", self.clip_norm, self.noise_multiplier, self.target_epsilon)

    def event(self, setting: MechanismSetting) -> Event:
        """Return the event of the training; `ConfigError` for a target epsilon that no noise meets, or no accountant."""
        if self.noise_multiplier is not None:
            return dp_sgd(
                noise_multiplier=self.noise_multiplier,
                clip_norm=self.clip_norm,
                sample_rate=setting.sample_rate,
                steps=setting.steps,
                unit=setting.unit,
            )
        noise = calibration.calibrate_noise(
            first_accountant(setting),
            target_epsilon=self.target_epsilon or 0.0,
            delta=setting.delta,
            sample_rate=setting.sample_rate,
            steps=setting.steps,
            clip_norm=self.clip_norm,
            adjacency=setting.adjacency,
        )
        noisy = noisy_steps(noise)
        return noise if noisy is None or setting.unit == "example" else dp_sgd(**asdict(noisy), unit=setting.unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """Plain stochastic gradient training on Poisson batches; it has no guarantee."""

    trainer: ClassVar[str] = "sgd"

    def event(self, setting: MechanismSetting) -> Event:
        return sgd(sample_rate=setting.sample_rate, steps=setting.steps, unit=setting.unit)
