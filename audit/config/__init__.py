"""The YAML that describes an audit: strict, versioned, with the origin of each value."""

from audit.config.model import Config
from audit.config.read import Resolution, config_names, load, options, parse

__all__ = ["Config", "Resolution", "config_names", "load", "options", "parse"]
