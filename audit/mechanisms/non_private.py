"""Plain training, without clipping or noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from audit.core.events import Event, sgd
from audit.core.protocols import MechanismSetting


@dataclass(frozen=True, slots=True, kw_only=True)
class NonPrivate:
    """Plain stochastic gradient training on Poisson batches; it has no guarantee."""

    trainer: ClassVar[str] = "sgd"

    def event(self, setting: MechanismSetting) -> Event:
        """Return the event of the training."""
        return sgd(sample_rate=setting.sample_rate, steps=setting.steps, unit=setting.unit)


PLUGIN = NonPrivate
