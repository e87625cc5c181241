"""What the sections of a config have in common: strict keys, plug-ins by name, refusals that name the line."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from audit import plugins
from audit.core.errors import ConfigError, UnknownKey

Result = TypeVar("Result")
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]


class ConfigSection(BaseModel):
    """Every part of a config: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _spec(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


# a plug-in: its name alone, or a mapping with `kind` and the plug-in's own keys
Spec = Annotated[dict[str, Any], BeforeValidator(_spec)]


def with_line(check: Callable[[], Result]) -> Result:
    """Return what `check` returns; its refusal becomes one that names the line of the file."""
    try:
        return check()
    except UnknownKey as error:  # the reader of files knows its line
        raise PydanticCustomError("unknown_key", "{advice}", {"key": error.key, "advice": error.advice}) from error
    except ConfigError as error:
        raise ValueError(str(error)) from error


def takes_keys(folder: str, *common: str) -> AfterValidator:
    """Return a check that a plug-in takes the keys it is given; `common` ones are read by whoever asks for the plug-in."""
    return AfterValidator(lambda spec: with_line(lambda: _refuse_unknown_keys(spec, folder, common)))


def _refuse_unknown_keys(spec: dict[str, Any], folder: str, common: tuple[str, ...]) -> dict[str, Any]:
    """Return `spec` itself. A kind that does not exist, and a third party's, is reported when the plug-in is built."""
    package, kind = plugins.FOLDERS[folder], spec.get("kind")
    if kind not in plugins.names(package):
        return spec
    takes = ("kind", *common, *plugins.keys(plugins.find(package, kind))[0])
    for key in spec:
        if key not in takes:
            advice = f"{plugins.hint(key, takes)} '{kind}' takes: {', '.join(takes[1:]) or 'no keys'}"
            raise UnknownKey(key, advice)
    return spec


def named_in(folder: str) -> AfterValidator:
    """Return a check that a name is that of a plug-in, or `package.module:Class`."""
    return AfterValidator(lambda name: with_line(lambda: plugins.check_name(plugins.FOLDERS[folder], name, folder)))
