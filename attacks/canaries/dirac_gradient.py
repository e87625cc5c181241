"""Dirac gradients: each canary pulls one parameter and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from audit.core.data import Canaries, Dataset
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class DiracGradient:
    """Unit gradients along distinct random parameter coordinates.

    Exactly orthogonal, so the noise that each canary meets is independent of what the others meet.

    References:
        Nasr et al. 2023, arXiv 2302.07956, section 5; Steinke, Nasr and Jagielski 2023, arXiv 2305.08846.
    """

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` distinct coordinates of a model with `parameters` parameters.

        Raises:
            ConfigError: more canaries than parameters.
        """
        if not 1 <= count <= parameters:
            raise ConfigError(
                f"{count} canaries of kind 'dirac_gradient' for a model with {parameters} parameters; each canary owns "
                f"one parameter: expected 1 to {parameters} canaries, or a larger model"
            )
        coordinates = seed.child("dirac").numpy().choice(parameters, size=count, replace=False)
        return Canaries(
            kind="dirac_gradient",
            description="crafted unit gradients, each along one parameter of its own",
            coordinates=coordinates,
            orthogonal=True,
        )


PLUGIN = DiracGradient
