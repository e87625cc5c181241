"""Candidate gradients: of each secret one of k gradients, orthogonal or antipodal, is in the training, and has to be named."""

from dataclasses import dataclass

import numpy as np

from audit.core.canaries import Canaries, CoordinateGradients, DirectionGradients, Secrets
from audit.core.data import Array, Dataset
from audit.core.errors import ConfigError
from audit.core.phrases import phrase
from audit.core.seeds import Seed

_LARGEST = 4 << 30  # bytes of directions held in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateGradients:
    """Secrets of k equally likely candidates with unit gradients along distinct parameters.

    The prior-aware reconstruction game: secrets share no noise, so each is its own trial, and neither do candidates. An
    antipodal pair is the worst case of two: without sampling the best guess is right as often as `1 - f(1/2)` allows.

    Attributes:
        antipodal: the two candidates of a secret are opposite unit gradients along one parameter.

    References: Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225.
    """

    candidates: int = 10
    antipodal: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.candidates, bool) or not isinstance(self.candidates, int) or self.candidates < 2:  # True is an int
            raise ConfigError(f"candidate_gradients.candidates is {self.candidates!r}; expected a whole number of at least 2")
        if not isinstance(self.antipodal, bool):
            raise ConfigError(f"candidate_gradients.antipodal is {self.antipodal!r}; expected true or false")
        if self.antipodal and self.candidates != 2:
            raise ConfigError(
                f"candidate_gradients with antipodal: true has candidates: {self.candidates}; expected 2, a gradient and its "
                "negative"
            )

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` secrets, the candidates of each one after the other; `ConfigError` if there are more candidates than
        parameters.
        """
        share = 1 if self.antipodal else self.candidates
        if not 1 <= count * share <= parameters:
            raise ConfigError(
                f"{count} canaries with {self.candidates} candidates each for a model with {parameters} parameters; each "
                f"{'pair' if self.antipodal else 'candidate'} owns one parameter: expected 1 to "
                f"{parameters // share} canaries, or a larger model"
            )
        coordinates = seed.child("candidates").numpy().choice(parameters, size=count * share, replace=False)
        secrets = Secrets(kind="candidate", prior=np.full((count, self.candidates), 1 / self.candidates))
        if not self.antipodal:
            return Canaries(
                kind="candidate_gradients",
                description=phrase(
                    "one of {candidates} crafted unit gradients, each along one parameter of its own",
                    candidates=self.candidates,
                ),
                payload=CoordinateGradients(coordinates=coordinates),
                secrets=secrets,
            )
        return Canaries(
            kind="candidate_gradients",
            description="one of two opposite unit gradients along one parameter of their own",
            payload=DirectionGradients(directions=_pairs(coordinates, parameters), orthogonal=True),
            secrets=secrets,
        )


def _pairs(coordinates: Array, parameters: int) -> Array:
    """The unit vector of each coordinate and its negative, `(2 n, parameters)`."""
    if 16 * len(coordinates) * parameters > _LARGEST:  # two directions a pair, eight bytes a number
        raise ConfigError(
            f"{len(coordinates)} antipodal pairs for {parameters} parameters take more than {_LARGEST >> 30} GiB; use fewer "
            "canaries and more runs, or a smaller model"
        )
    directions = np.zeros((2 * len(coordinates), parameters))
    rows = 2 * np.arange(len(coordinates))
    directions[rows, coordinates], directions[rows + 1, coordinates] = 1.0, -1.0
    return directions


PLUGIN = CandidateGradients
