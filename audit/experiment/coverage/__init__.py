"""Classes of attack that a report lists as run or not run, by name; a file of its own adds one, too."""

from audit.experiment.coverage._classes import PLUGINS

__all__ = ["PLUGINS"]
