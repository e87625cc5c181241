"""A correct twin: Poisson samples at the accounted rate."""

from __future__ import annotations

from audit.zoo._loops import Loop


class Poisson(Loop):
    """A correct twin: Poisson samples at the accounted rate."""


PLUGIN = Poisson
