"""Privacy auditing for PyTorch: what a training claims, what attacks prove, and how far they could have seen.

Everything public is here by name; what a name needs is imported when it is first asked for, so that `import audit` is quick and
bounds from scores never import torch.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING

from audit.core.version import __version__ as __version__

if TYPE_CHECKING:
    from audit import testing as testing
    from audit.api import accountant as accountant
    from audit.api.attack_comparison import compare_attacks as compare_attacks
    from audit.api.check import ModelCheck as ModelCheck
    from audit.api.check import check as check
    from audit.api.dataset_usage import dataset_usage as dataset_usage
    from audit.api.frontier import frontier as frontier
    from audit.api.generators import check_generator as check_generator
    from audit.api.generators import check_text_generator as check_text_generator
    from audit.api.mechanism import mechanism as mechanism
    from audit.api.planning import certify as certify
    from audit.api.planning import plan as plan
    from audit.api.planning import plan_run as plan_run
    from audit.api.record_ids import join_coins as join_coins
    from audit.api.replay import replay as replay
    from audit.api.run import run as run
    from audit.api.scores import delta_lower_bound as delta_lower_bound
    from audit.api.scores import estimates as estimates
    from audit.api.scores import lower_bound as lower_bound
    from audit.api.scores import roc as roc
    from audit.api.scores import step_bound as step_bound
    from audit.api.secrets import reconstruction_bound as reconstruction_bound
    from audit.api.secrets import secret_lower_bound as secret_lower_bound
    from audit.api.table_risks import table_risks as table_risks
    from audit.api.training import check_training as check_training
    from audit.api.unlearning import check_unlearning as check_unlearning
    from audit.bounds.steps import StepProducts as StepProducts
    from audit.bounds.steps import StepScores as StepScores
    from audit.core.access import Access as Access
    from audit.core.adjacency import Adjacency as Adjacency
    from audit.core.claims import Claim as Claim
    from audit.core.errors import AssumptionError as AssumptionError
    from audit.core.errors import AuditError as AuditError
    from audit.core.errors import ConfigError as ConfigError
    from audit.core.errors import DataError as DataError
    from audit.core.errors import OutputError as OutputError
    from audit.core.events import Event as Event
    from audit.core.events import dp_sgd as dp_sgd
    from audit.core.events import sgd as sgd
    from audit.core.game import Game as Game
    from audit.core.lower_bounds import LowerBound as LowerBound
    from audit.core.plans import RunPlan as RunPlan
    from audit.core.results import AuditReport as AuditReport
    from audit.experiment.external.inspection import References as References
    from audit.experiment.external.inspection import ReferenceTraining as ReferenceTraining
    from audit.experiment.external.inspection import Settings as Settings
    from audit.experiment.external.inspection import draw_coins as draw_coins
    from audit.experiment.external.inspection import inspect as inspect
    from audit.experiment.external.table_risks import TableSettings as TableSettings
    from audit.replays.declared import release as release
    from audit.replays.declared import unchanged as unchanged
    from audit.step_checks.recorder import record as record
    from audit.step_checks.rounds.live import plant_canary_clients as plant_canary_clients
    from audit.step_checks.rounds.run import check_strategy as check_strategy
    from audit.step_checks.run import check_optimizer as check_optimizer
    from audit.step_checks.run import check_step as check_step
    from audit.step_checks.run import check_trainer as check_trainer
    from reports import plot as plot
    from reports import plots as plots
    from reports import save as save

_HOMES = {
    "audit": ("testing",),
    "audit.api": ("accountant",),
    "audit.api.attack_comparison": ("compare_attacks",),
    "audit.api.check": ("ModelCheck", "check"),
    "audit.api.dataset_usage": ("dataset_usage",),
    "audit.api.frontier": ("frontier",),
    "audit.api.generators": ("check_generator", "check_text_generator"),
    "audit.api.mechanism": ("mechanism",),
    "audit.api.planning": ("certify", "plan", "plan_run"),
    "audit.api.record_ids": ("join_coins",),
    "audit.api.replay": ("replay",),
    "audit.api.run": ("run",),
    "audit.api.scores": ("delta_lower_bound", "estimates", "lower_bound", "roc", "step_bound"),
    "audit.api.secrets": ("reconstruction_bound", "secret_lower_bound"),
    "audit.api.table_risks": ("table_risks",),
    "audit.api.training": ("check_training",),
    "audit.api.unlearning": ("check_unlearning",),
    "audit.bounds.steps": ("StepProducts", "StepScores"),
    "audit.core.access": ("Access",),
    "audit.core.adjacency": ("Adjacency",),
    "audit.core.claims": ("Claim",),
    "audit.core.errors": ("AssumptionError", "AuditError", "ConfigError", "DataError", "OutputError"),
    "audit.core.events": ("Event", "dp_sgd", "sgd"),
    "audit.core.game": ("Game",),
    "audit.core.lower_bounds": ("LowerBound",),
    "audit.core.plans": ("RunPlan",),
    "audit.core.results": ("AuditReport",),
    "audit.experiment.external.inspection": ("ReferenceTraining", "References", "Settings", "draw_coins", "inspect"),
    "audit.replays.declared": ("release", "unchanged"),
    "audit.step_checks.recorder": ("record",),
    "audit.step_checks.rounds.live": ("plant_canary_clients",),
    "audit.step_checks.rounds.run": ("check_strategy",),
    "audit.step_checks.run": ("check_optimizer", "check_step", "check_trainer"),
    "audit.experiment.external.table_risks": ("TableSettings",),
    "reports": ("plot", "plots", "save"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = frozenset({"accountant", "testing"})  # public names that are modules themselves
__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604  one list of names, kept beside their modules

if not TYPE_CHECKING:  # type checkers read the imports above, so that a wrong name or argument is an error to them

    def __getattr__(name):
        """Return a public name, imported when it is first asked for."""
        if name not in _HOME:
            raise AttributeError(f"module 'audit' has no attribute '{name}'")
        home = _HOME[name]
        value = import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
        if not isinstance(value, str):
            from audit.api import argument_types

            guards = ((FunctionType, argument_types.guard), (type, argument_types.guard_class))
            guards += ((ModuleType, argument_types.guard_module),)
            value = next((guard(value) for kind, guard in guards if isinstance(value, kind)), value)
        globals()[name] = value
        return value

    def __dir__():
        """Return the public names, for completion."""
        return __all__
