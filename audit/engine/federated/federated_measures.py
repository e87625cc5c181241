"""What really happened in federated trainings: who took part, what entered the sums, and the noise, gathered round by round."""

import numpy as np
import torch
from torch import Tensor

from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.training import Executed, TrainingJob
from audit.engine.federated.federated_clients import PrivateSteps
from audit.engine.optimizing import ReadableOptimizer, build_optimizer

_ROUNDING = 1e-3  # of a step: float32 keeps seven digits of a model, of which a step is a small part


class ReleasedSums:
    """What each released model says of its round's sum, whatever the server says of it.

    After plain and momentum steps the sum follows from two models. After others it does so in exact arithmetic alone: then the
    step is taken again from the sum that the server states, and one that gives another model is refused. A sum is divided by
    `denominator`, a public constant, before it moves the model.
    """

    def __init__(self, job: TrainingJob, rounds: int, denominator: float) -> None:
        optimizer = build_optimizer(job)
        self.kind, self.denominator = job.optimizer.get("kind", "sgd"), denominator
        self.reader = optimizer.read(rounds) if isinstance(optimizer, ReadableOptimizer) else None
        self.twin = optimizer.start(rounds)

    def sum_behind(self, before: Tensor, after: Tensor, logged_sum: Tensor) -> Tensor:
        """Return the sums `(N, width)` of a round that moved models from `before` to `after`.

        `ObservationError` if the sum does not follow from the models, and `logged_sum` leads to others.
        """
        if self.reader is not None:
            return self.reader.gradient(before, after) * self.denominator
        again = before.clone()
        self.twin.step(again, logged_sum / self.denominator)
        largest = (again - before).abs().amax().clamp(min=1e-30)
        if not torch.allclose(again, after, rtol=1e-5, atol=float(largest) * _ROUNDING, equal_nan=True):
            raise ObservationError(
                f"a released model is not what optimizer '{self.kind}' makes of the sum that its round states (they differ by "
                f"{float((again - after).abs().amax()):.3g}, a step is {float(largest):.3g}); release the model that the noisy "
                "sum leads to, or use optimizer 'sgd', whose sums are read off the models"
            )
        return logged_sum


class RoundMeasures:
    """What was done in each round of N federations, of models as `like` `(N, width)`, for the checks of the execution.

    `participants` `(N, steps)` took part in each step of the accounting; of the honest ones `replies` `(N, rounds)` arrive.
    """

    def __init__(self, participants: Array, replies: Array, clip_norm: float | None, like: Tensor) -> None:
        self.participants, self.replies, self.clip_norm = participants, replies, clip_norm
        self.noise_squares = torch.zeros(len(like), dtype=torch.float64, device=like.device)
        self.largest = torch.zeros(len(like), device=like.device)
        self.skipped = torch.zeros(len(like), dtype=torch.int64, device=like.device)
        self.inner_squares = torch.zeros_like(self.noise_squares)
        self.inner_updates, self.inner_largest = torch.zeros_like(self.skipped), torch.zeros_like(self.largest)

    def note_updates(self, owner: Tensor, updates: Tensor, finite: Tensor) -> None:
        """Note updates `(k, width)` of federations `owner` as they enter the sum, and which were finite before the clip."""
        self.skipped.index_add_(0, owner, (~finite).long())
        if self.clip_norm is not None:
            norms = torch.zeros_like(self.largest)
            norms.scatter_reduce_(0, owner, updates.norm(dim=1), "amax")
            self.note_norms(norms)

    def note_inside(self, owner: Tensor, steps: PrivateSteps) -> None:
        """Note the noise and the largest clipped gradients of the clients' own steps, each of federation `owner` `(k,)`."""
        self.inner_squares.index_add_(0, owner, steps.squares)
        self.inner_updates.index_add_(0, owner, torch.ones_like(owner))
        self.inner_largest.scatter_reduce_(0, owner, steps.largest, "amax")

    def note_norms(self, norms: Tensor | None) -> None:
        """Note the largest norm of each federation `(N,)` among some that entered the sum; None if there were none."""
        if norms is not None and self.clip_norm is not None:
            torch.maximum(self.largest, norms / self.clip_norm, out=self.largest)

    def note_noise(self, noise: Tensor, spread: Tensor) -> None:
        """Note the noise of a round `(N, width)`; its deviation is `spread` times the accounted one."""
        # a round without replies has no local noise: 0 over 1, not over 0
        self.noise_squares += noise.double().square().sum(1) / spread.clamp(min=1).double().square()

    def executed(self, steps: int, coordinates: int, population: int, *, local: bool, inner: int) -> Executed:
        """Return all of it; a round without clients has no local noise, and counts as a draw all the same.

        Steps are those of the accounting; `coordinates` get noise in a round, and `inner` x steps in a client's update;
        `population` are clients and canary clients. With `local`, noise is that of the clients that reply.
        """
        count, rounds = self.replies.shape
        draws, multiplier = coordinates * rounds, np.zeros(count)
        if draws:
            lonely = (self.replies == 0).sum(1) if local else np.zeros(count)
            draw_counts = np.maximum(draws - lonely * coordinates, 1)
            multiplier = np.sqrt(self.noise_squares.cpu().numpy() / draw_counts) / (self.clip_norm or 1.0)
        inner_noise, inner_draws, inner_norm = self._inside(inner)
        return Executed(
            steps=steps,
            batch_sizes=self.participants,
            population=np.full(count, population),
            noise_multiplier=multiplier,
            noise_draws=draws,
            largest_norm=self.largest.double().cpu().numpy(),
            skipped=self.skipped.cpu().numpy(),
            inner_noise=inner_noise,
            inner_draws=inner_draws,
            inner_norm=inner_norm,
        )

    def _inside(self, inner: int) -> tuple[Array, Array, Array]:
        """Return noise, draws and norms inside clients, with so many draws per update; empty if there are none."""
        draws = self.inner_updates.cpu().numpy() * inner
        noise = np.sqrt(self.inner_squares.cpu().numpy() / np.maximum(draws, 1))
        entries = slice(None) if inner else slice(0)
        return noise[entries], draws[entries], self.inner_largest.double().cpu().numpy()[entries]
