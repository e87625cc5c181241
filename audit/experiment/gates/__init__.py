"""Policy gates: what a report has to show for a release, by name; a file of its own adds one, too."""

from audit.experiment.gates._limits import PLUGINS

__all__ = ["PLUGINS"]
