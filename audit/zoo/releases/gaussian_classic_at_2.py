"""A correct twin: the classic formula at epsilon 2, beyond its proof and still true."""

from __future__ import annotations

from audit.zoo.releases.gaussian_classic_beyond import GaussianClassicBeyond


class GaussianClassicAt2(GaussianClassicBeyond):
    """A correct twin: the classic formula at epsilon 2, beyond its proof and still true."""

    wrong = ""
    visibility = "the same formula; an alarm would be false"
    epsilon = 2.0


PLUGIN = GaussianClassicAt2
