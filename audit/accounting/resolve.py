"""Who is asked: accountants by name, by `module:object`, or a plain function of four numbers."""

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from audit import plugins
from audit.core.adjacency import Adjacency
from audit.core.claims import Claim, Side
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.event_reading import single_phase
from audit.core.events import Event
from audit.core.protocols import Accountant

PACKAGE = "audit.accounting.accountants"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionAccountant:
    """A plain function `(noise_multiplier, sample_rate, steps, delta) -> epsilon` as an accountant (add/remove)."""

    function: Callable[[float, float, int, float], float]
    name: str = "function"

    def claim(self, mechanism: Event, *, delta: float, adjacency: Adjacency) -> Claim:
        """The function's epsilon for DP-SGD and for repeated Gaussian releases; `UnsupportedMechanism` otherwise."""
        if adjacency is Adjacency.REPLACE_ONE:
            raise UnsupportedMechanism(f"{self.name} is a function of four numbers: add/remove only")
        noise, rate, steps = single_phase(mechanism)
        return Claim(epsilon=self.function(noise, rate, steps, delta), delta=delta, adjacency=adjacency, source=self.name)


def subject(spec: str | Mapping[str, Any]) -> Accountant:
    """The accountant that a name, `name,field=value`, `module:object` or `{"kind": ..., fields}` represents; `ConfigError` if
    there is no such accountant.

    The object may be a class or instance with a method `claim`, or a plain function of (noise_multiplier, sample_rate,
    steps, delta).
    """
    options = _options(spec) if isinstance(spec, str) else dict(spec)
    kind = str(options["kind"])
    if ":" not in kind:
        plugin: Accountant = plugins.build(PACKAGE, options)
        return plugin
    plugin = plugins.foreign(kind)
    if isinstance(plugin, type):
        fields = {key: value for key, value in options.items() if key != "kind"}
        try:
            plugin = plugin(**fields)
        except TypeError as error:
            raise ConfigError(f"accountant '{kind}': {error}") from error
    if hasattr(plugin, "claim"):
        accountant: Accountant = plugin
        return accountant
    if callable(plugin):
        return FunctionAccountant(function=plugin, name=kind)
    raise ConfigError(f"'{kind}' is a {type(plugin).__name__}; expected an object with a method 'claim', or a function")


def accountant(spec: str | Mapping[str, Any]) -> Accountant:
    """The same for its figures, not for a test of it: what a third party's claims is checked, and its errors name it."""
    plugin, kind = subject(spec), str(spec["kind"] if isinstance(spec, Mapping) else spec.partition(",")[0])
    if ":" not in kind or type(plugin).__module__ == "builtins":  # a module with a function `claim`
        return plugin
    accountant: Accountant = plugins.check_answers(copy.copy(plugin), PACKAGE, kind)
    return accountant


def _options(spec: str) -> dict[str, Any]:
    kind, *fields = spec.split(",")
    options: dict[str, Any] = {"kind": kind}
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals:
            raise ConfigError(f"cannot read '{field}' in '{spec}'; expected name,field=value")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def find_side(accountant: Accountant) -> Side:
    """Return the side of the true epsilon on which an accountant's figures claim to be; "upper" if it names none. Raises
    `ConfigError` if it names a side that does not exist.
    """
    side: Side = getattr(accountant, "side", "upper")
    if side not in ("upper", "lower", "estimate"):
        raise ConfigError(f"{accountant!r} states side {side!r}; expected upper, lower or estimate")
    return side


def is_as_it_is(accountant: Accountant | type[Accountant]) -> bool:
    """True if an accountant passes on a library's figures without answering for them."""
    return bool(getattr(accountant, "as_it_is", False))
