"""A correct twin: DP-SGD as published."""

from __future__ import annotations

from audit.zoo._reference import DpSgdStep


class Correct(DpSgdStep):
    """A correct twin: DP-SGD as published."""

    wrong = ""
    visibility = "Abadi et al. 2016"


PLUGIN = Correct
