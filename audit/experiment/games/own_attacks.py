"""Attacks by name, those of third parties among them, of which the two things that an attack has are asked first."""

from collections.abc import Mapping
from typing import Any

from audit import plugins
from audit.core.errors import ConfigError
from audit.core.protocols import Attack, Needs


def build_attack(spec: Mapping[str, Any]) -> Attack:
    """The attack that `spec["kind"]` names, or `ConfigError` if there is none, or what is there is no attack."""
    attack: Attack = plugins.build(plugins.FOLDERS["scorers"], spec)
    check_attack(attack, str(spec["kind"]))
    return attack


def check_attack(attack: Any, name: str) -> None:
    """Raise `ConfigError` unless it has `needs` and a method `score`."""
    with plugins.foreign_code(f"needs of '{name}'", whole=False):
        needs = getattr(attack, "needs", None)
    if isinstance(needs, Needs) and callable(getattr(attack, "score", None)):
        return
    problem = "no method 'score'" if isinstance(needs, Needs) else f"'needs' of type {type(needs).__name__}"
    raise ConfigError(
        f"'{name}' cannot be used as an attack: it has {problem}; expected 'needs', an audit.core.protocols.Needs, and "
        "score(target, reference, seed) that returns a number for each record"
    )
