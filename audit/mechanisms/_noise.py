"""Noise that is given, or calibrated to a target epsilon by the first accountant of the config."""

from audit.core import checks
from audit.core.errors import ConfigError
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
