"""Privacy auditing for PyTorch: what a training claims, what attacks prove, and how far they could have seen.

Public functions, none of which needs torch: `lower_bound`, `delta_lower_bound`, `roc`, `plan`, `certify`. For a trained model
see `audit.experiment.inspection.inspect`.
"""

from __future__ import annotations

from typing import Any

from audit.core.version import __version__

_PUBLIC = ("certify", "delta_lower_bound", "lower_bound", "plan", "roc")
__all__ = ["__version__", "certify", "delta_lower_bound", "lower_bound", "plan", "roc"]


def __getattr__(name: str) -> Any:
    """The public functions, imported when they are first asked for so that `audit --help` stays quick."""
    if name in _PUBLIC:
        from audit import api

        return getattr(api, name)
    raise AttributeError(f"module 'audit' has no attribute '{name}'")
