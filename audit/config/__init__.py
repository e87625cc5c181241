"""The YAML that describes an audit: strict, versioned, with the origin of each value."""

from __future__ import annotations

from audit.config.model import Config
from audit.config.read import Resolved, load, named, options, parse

__all__ = ["Config", "Resolved", "load", "named", "options", "parse"]
