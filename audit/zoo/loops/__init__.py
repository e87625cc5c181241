"""Wrong loops around a correct step, by name; a file of its own adds one, too."""

from audit.zoo.loops._entries import PLUGINS

__all__ = ["PLUGINS"]
