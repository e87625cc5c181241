"""Releases whose formula, neighbours or search is wrong, by name; a file of its own adds one, too."""

from audit.zoo.releases._entries import PLUGINS

__all__ = ["PLUGINS"]
