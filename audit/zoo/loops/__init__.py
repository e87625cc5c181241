"""Wrong loops around a correct step, by name; a third party adds one with one file."""

from audit.zoo.loops._entries import PLUGINS

__all__ = ["PLUGINS"]
