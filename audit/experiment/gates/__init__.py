"""Policy gates: what a report has to show for a release, by name; a third party adds one with one file."""

from audit.experiment.gates._limits import PLUGINS

__all__ = ["PLUGINS"]
