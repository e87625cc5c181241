"""The sections on how models are trained, and how a mechanism overrides them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from audit import plugins
from audit.config.section import ConfigSection, Positive, Rate, Spec, takes_keys, with_line
from audit.core.errors import UnknownKey

_OPTIMIZERS = plugins.FOLDERS["optimizers"]
_PAIRS = (("batch_size", "sample_rate"), ("steps", "epochs"))


def _loss(name: str) -> str:
    if name.count(":") != 1:
        raise ValueError(f"'{name}' is no loss; expected package.module:function, which takes (outputs, labels) of a batch")
    return name


def optimizer_keys(optimizer: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options that an optimiser takes, and those without a default; `ConfigError` without such an optimiser."""
    return plugins.keys(plugins.find(_OPTIMIZERS, str(optimizer.get("kind")), "training.optimizer"))


class TrainingOverride(ConfigSection):
    """What a mechanism trains in its own way; further keys are options of the optimiser, as those of `optimizer` itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    optimizer: Annotated[Spec, takes_keys("optimizers")] | None = None
    loss: Annotated[str, AfterValidator(_loss)] | None = None
    batch_size: Annotated[int, Field(gt=0)] | None = None
    sample_rate: Rate | None = None
    steps: Annotated[int, Field(gt=0)] | None = None
    epochs: Positive | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of the optimiser that are beside it, for every optimiser that takes them."""
        return {key: value for key, value in (self.model_extra or {}).items() if value is not None}

    @model_validator(mode="after")
    def _options_are_unique(self) -> TrainingOverride:
        if doubles := sorted(self.options.keys() & (self.optimizer or {}).keys()):
            raise ValueError(f"{', '.join(doubles)} stands both in optimizer and beside it; give it once")
        if self.optimizer is not None:
            optimizer = {**self.optimizer, **self.options}
            with_line(lambda: self.check_options(optimizer))
            _, mandatory = optimizer_keys(optimizer)
            if set(mandatory) <= optimizer.keys():  # a mechanism may give what is missing here
                with_line(lambda: plugins.build(_OPTIMIZERS, optimizer, "training.optimizer"))
        return self

    def check_options(self, optimizer: Mapping[str, Any]) -> None:
        """Raise `ConfigError` if a key is neither one of a training nor an option of this optimiser."""
        takes, _ = optimizer_keys(optimizer)
        fields = list(TrainingOverride.model_fields)
        for key in sorted((self.optimizer or {}).keys() - {"kind", *takes}):
            raise UnknownKey(f"optimizer.{key}", f"{plugins.hint(key, takes)} It takes: {', '.join(takes) or 'no keys'}")
        for key in self.options:
            if key not in takes:
                raise UnknownKey(
                    key,
                    f"{plugins.hint(key, [*fields, *takes])} Allowed here: {', '.join(fields)}, and the "
                    f"options of the optimiser '{optimizer.get('kind')}': {', '.join(takes) or 'none'}",
                )


class TrainingSection(TrainingOverride):
    """How models are trained; a mechanism can override single keys."""

    optimizer: Annotated[Spec, takes_keys("optimizers")] = Field(default={"kind": "sgd"})

    def overridden(self, override: TrainingOverride) -> TrainingSection:
        """Return this training with a mechanism's own keys on top; giving one of a pair replaces the other.

        If the mechanism has its own optimiser, the options beside the common optimiser hold for it too if it takes them; those
        within the common optimiser do not. `ConfigError` for options or values that an optimiser refuses.
        """
        if override.optimizer is None:
            override.check_options(self.optimizer)
            optimizer = {**self.optimizer, **self.options, **override.options}
        else:
            takes, _ = optimizer_keys(override.optimizer)
            common = {key: value for key, value in self.options.items() if key in takes}
            optimizer = {**common, **override.optimizer, **override.options}
        plugins.build(_OPTIMIZERS, optimizer, "training.optimizer")
        values: dict[str, Any] = {}
        for pair in _PAIRS:
            source = self if all(getattr(override, name) is None for name in pair) else override
            values |= {name: getattr(source, name) for name in pair}
        return TrainingSection(optimizer=optimizer, loss=override.loss or self.loss, **values)
