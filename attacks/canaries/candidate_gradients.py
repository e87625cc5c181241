"""Candidate gradients: of each secret one of k orthogonal gradients is in the training, and has to be named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.data import Canaries, Dataset, Secrets
from audit.core.errors import ConfigError
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGradients:
    """Secrets of k equally likely candidates, whose unit gradients lie along distinct parameters.

    The prior-aware reconstruction game with orthogonal candidates: no two secrets and no two candidates share noise, so every
    secret is a trial of its own.

    Attributes:
        candidates: k, of each secret.

    References:
        Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225.
    """

    candidates: int = 10

    def __post_init__(self) -> None:
        if isinstance(self.candidates, bool) or not isinstance(self.candidates, int) or self.candidates < 2:
            raise ConfigError(f"candidate_gradients.candidates is {self.candidates!r}; expected a whole number of at least 2")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` secrets, the candidates of each one after the other.

        Raises:
            ConfigError: more candidates than parameters.
        """
        size = count * self.candidates
        if not 1 <= size <= parameters:
            raise ConfigError(
                f"{count} canaries with {self.candidates} candidates each for a model with {parameters} parameters; each "
                f"candidate owns one parameter: expected 1 to {parameters // self.candidates} canaries, or a larger model"
            )
        return Canaries(
            kind="candidate_gradients",
            description=f"one of {self.candidates} crafted unit gradients, each along one parameter of its own",
            coordinates=seed.child("candidates").numpy().choice(parameters, size=size, replace=False),
            orthogonal=True,
            secrets=Secrets(kind="candidate", prior=np.full((count, self.candidates), 1 / self.candidates)),
        )


PLUGIN = CandidateGradients
