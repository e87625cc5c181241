"""Classes of attack that a report lists as run or not run, by name; a third party adds one with one file."""

from audit.experiment.coverage._classes import PLUGINS

__all__ = ["PLUGINS"]
