"""A clip norm that follows the clients: after each round it moves by a noisy count of the updates that it did not clip."""

from dataclasses import InitVar, dataclass

import torch
from torch import Tensor

from audit.core.clip_quantile import ClipQuantile
from audit.core.errors import ConfigError


@dataclass(eq=False)
class ClipNorms:
    """The clip norms of N federations over the rounds, over the first one, for models `like` `(N, width)`."""

    settings: ClipQuantile  # how they move
    clients: float  # of a round in expectation, a public constant
    deviation: float  # of the noise on a count
    clip_norm: float  # the first one
    streams: list[torch.Generator]  # of each federation's noise
    like: InitVar[Tensor]

    def __post_init__(self, like: Tensor) -> None:
        self.ratios = torch.ones(len(like), dtype=torch.float64, device=like.device)
        self.counts = torch.zeros_like(self.ratios)

    def take(self, updates: Tensor, owners: Tensor) -> Tensor:
        """Return updates `(k, width)` over the ratio of their federation, and count them.

        An update of zeros adds 0, as a client does that is left out: sending zeros in its place moves a count by 1/2 as well.
        """
        scaled = updates / self.ratios[owners].to(updates.dtype).unsqueeze(1)
        norms = torch.linalg.vector_norm(scaled, dim=1, dtype=torch.float64)
        short = norms <= self.clip_norm
        self.counts.index_add_(0, owners, torch.where(norms > 0, short.double() - 0.5, 0.0))
        return scaled

    def count_noise(self) -> Tensor:
        """Return the noise of a round's counts `(N,)`."""
        draws = torch.stack([torch.randn((), generator=stream, dtype=torch.float64) for stream in self.streams])
        return draws.to(self.counts.device) * self.deviation

    def advance(self, canary_counts: Tensor | None) -> Tensor:
        """Move the clip norms; return what the counts say beyond the honest clients' part, `(N,)`: noise and canary clients."""
        unknown = self.count_noise() if canary_counts is None else self.count_noise() + canary_counts
        share = (self.counts + unknown) / self.clients + 0.5
        self.ratios *= torch.exp(-self.settings.rate * (share - self.settings.quantile))
        if not bool((self.ratios.isfinite() & (self.ratios > 0)).all()):
            raise ConfigError("a clip norm left all bounds; use a smaller adaptive_clip.rate, or a larger share")
        self.counts.zero_()
        return unknown
