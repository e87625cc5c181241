"""The ways an audit can fail, each with the exit code that the command line answers with.

A message says what was found, what was expected, where, and what to do. Nothing here is ever
raised for a finding: a refuted claim is a result, not an error.
"""

from __future__ import annotations

from typing import ClassVar


class AuditError(Exception):
    """Any failure that this project raises on purpose; `exit_code` is what the command returns."""

    exit_code: ClassVar[int] = 4


class ConfigError(AuditError):
    """A config, option or plug-in name that cannot be used."""

    exit_code = 2


class UnknownKey(ConfigError):
    """A key that its section does not take; `advice` names the nearest and all that are allowed."""

    def __init__(self, key: str, advice: str, place: str = "") -> None:
        super().__init__(f"{place}{': ' if place else ''}unknown key '{key}'.{advice}")
        self.key, self.advice = key, advice


class DataError(AuditError):
    """An input file or array that cannot be used: missing, malformed, hostile, inconsistent."""

    exit_code = 2


class AssumptionError(AuditError):
    """A statistic relies on something that the game does not grant."""

    exit_code = 2


class UnsupportedMechanism(AuditError):
    """An accountant or a trainer was given a mechanism that it does not cover."""

    exit_code = 2


class ExecutionMismatch(AuditError):
    """What was run differs from what was accounted for."""

    exit_code = 3


class ObservationError(AuditError):
    """A trained model gave signals that cannot be used (not finite, wrong shape)."""

    exit_code = 3


class OutputError(AuditError):
    """A result could not be written or read back whole."""

    exit_code = 4


class WorkerLost(AuditError):
    """A process or machine that trained models died, more often than it is worth trying again."""

    exit_code = 4
