"""Releases with a wrong formula, wrong neighbours or a wrong search, by name; a third party adds one with one file."""

from audit.zoo.releases._entries import PLUGINS

__all__ = ["PLUGINS"]
