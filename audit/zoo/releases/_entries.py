"""Releases with a wrong formula, wrong neighbours or a wrong search, which `audit mechanism` refutes."""

import math
from typing import Any, ClassVar

import numpy as np

from audit.core.adjacency import Adjacency
from audit.core.data import Array
from audit.plugins import name_classes
from audit.zoo._releases import (
    INFINITE,
    GaussianRelease,
    ZooRelease,
    analytic_deviation,
    classic_deviation,
    inverted_deviation,
    selection_epsilon,
)


class AdjacencyOfRemoval(GaussianRelease):
    """Noise for a record that is added or removed, and a claim about one that is replaced."""

    wrong = "The accountant counts a record that is removed, sensitivity C; the claim is about one that is replaced, 2 C."
    visibility = "epsilon of an add-or-remove accountant quoted for neighbours of equal size; local models with sensitivity C"
    adjacency = Adjacency.REPLACE_ONE
    neighbour = (-1.0,)
    distance = 2.0

    def deviation(self) -> float:
        return analytic_deviation(self.epsilon, self.delta)


STEPS, CLOSE = 4, 2.0


class EarlyStopping(ZooRelease):
    """A training stops as soon as its loss on the private data is small, and the looks at that loss are not counted."""

    wrong = "Stops when the loss on the private data is small: which models were good enough is released without noise."
    visibility = "EarlyStopping callbacks on a split of the private data"
    data = (1.0,)
    neighbour = ()

    public_target: ClassVar[float | None] = None

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return `(size, 2)`: the model and the number of steps; a model is the mean of the noisy sums so far."""
        truth = float(np.sum(data))
        sums = truth + rng.laplace(0.0, STEPS / self.epsilon, (size, STEPS))
        models = sums.cumsum(axis=1) / np.arange(1, STEPS + 1)
        target = truth if self.public_target is None else self.public_target
        close = np.abs(models - target) <= CLOSE
        close[:, -1] = True  # the last step ends it in any case
        end = close.argmax(axis=1)
        return np.column_stack([models[np.arange(size), end], end + 1])

    def exact(self) -> tuple[float, float]:
        """Return infinity: a model that stopped early is close to one sum, and may be too far from the other."""
        return INFINITE


class EarlyStoppingInPublic(EarlyStopping):
    """A correct twin: the loss that ends the training is one on public data."""

    wrong = ""
    visibility = "a validation set that is not among the protected records"
    public_target = 0.5

    def exact(self) -> tuple[float, float]:
        """Return a bracket: all steps cost the claim, and the rule adds nothing."""
        return 0.0, self.epsilon


class GaussianAnalytic(GaussianRelease):
    """A correct twin: the analytic Gaussian mechanism, exactly at its claim."""

    visibility = "Balle and Wang 2018, arXiv 1805.06530"

    def deviation(self) -> float:
        return analytic_deviation(self.epsilon, self.delta)

    def exact(self) -> tuple[float, float]:
        """Return the claim itself, twice."""
        return self.epsilon, self.epsilon


class GaussianClassicBeyond(GaussianRelease):
    """The classic formula of the Gaussian mechanism at epsilon 10, at which it is false."""

    wrong = "Noise of D sqrt(2 ln(1.25 / delta)) / epsilon, proved for epsilon up to 1 and false from 8.45 on at this delta."
    visibility = "libraries and documents that do not check the range (Dwork and Roth 2014, theorem A.1)"
    epsilon = 10.0
    outputs = 400_000

    def deviation(self) -> float:
        return classic_deviation(self.epsilon, self.delta)


class GaussianClassicAt2(GaussianClassicBeyond):
    """A correct twin: the classic formula at epsilon 2, beyond its proof and still true."""

    wrong = ""
    visibility = "the same formula; an alarm would be false"
    epsilon = 2.0


class GaussianInverted(GaussianRelease):
    """A wrong formula of documents: the root of the Gaussian mechanism's noise is under the line."""

    wrong = "Noise of D / (epsilon sqrt(2 ln(2 / delta))): the root stands under the line."
    visibility = "documents that quote the Gaussian mechanism from memory"

    def deviation(self) -> float:
        return inverted_deviation(self.epsilon, self.delta)


class SameSeedEveryRun(ZooRelease):
    """Every run starts its generator from one seed, so its noise is known to whoever reads the code."""

    wrong = "Starts the generator from one seed in every run: the noise is a constant."
    visibility = 'set_seed(42) "for reproducibility" at the head of a training script'
    outputs = 4_000

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the sum with the noise that every run draws."""
        noise = np.random.default_rng(42).laplace(0.0, 1 / self.epsilon)
        return np.full(size, float(np.sum(data)) + noise)

    def exact(self) -> tuple[float, float]:
        """Return infinity: the output reveals the sum."""
        return INFINITE


FAR = 1.5


class ScheduleFromData(ZooRelease):
    """A learning rate is halved if the loss on the private data did not fall, and the look at that loss is not counted."""

    wrong = "Halves the learning rate where the loss on the private data is large: the schedule is released without noise."
    visibility = "ReduceLROnPlateau on the loss of the private data"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return `(size, 2)`: the model after one noisy step, and the learning rate of the next."""
        truth = float(np.sum(data))
        model = truth + rng.laplace(0.0, 1 / self.epsilon, size)
        return np.column_stack([model, np.where(np.abs(model - truth) > FAR, 0.05, 0.1)])

    def exact(self) -> tuple[float, float]:
        """Return infinity: a model near to one sum and far from the other shows by its learning rate which sum it was."""
        return INFINITE


TRIALS, RECORDS, BATCH = 40, 10, 2


class SearchCountedInEpochs(GaussianRelease):
    """A search of T trials that is entered as T / (n b) releases."""

    wrong = "Counts a search of T = 40 trials as T / (n b) = 2 releases, as if trials ran on batches of the data."
    visibility = "a formula for epochs reused for trials: steps = trials / (records * batch size)"
    distance = math.sqrt(TRIALS)  # all trials are one Gaussian release of root T times the sensitivity

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the noisy sum of every trial, `(size, trials)`."""
        return float(np.sum(data)) + rng.normal(0.0, self.deviation(), (size, TRIALS))

    def deviation(self) -> float:
        """Return the standard deviation of the noise of each trial."""
        count = TRIALS / (RECORDS * BATCH)
        return analytic_deviation(self.epsilon, self.delta, math.sqrt(count))


RUNS = 5


class TuningNotComposed(ZooRelease):
    """The best of five runs is released, and one run is accounted for."""

    wrong = "Chooses hyper-parameters by the score of five runs on the private data, and accounts for the run that won."
    visibility = "sweeps around a private training; Papernot and Steinke 2022, arXiv 2110.03620"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the best of the noisy scores."""
        scores = float(np.sum(data)) + rng.laplace(0.0, 1 / self.epsilon, (size, RUNS))
        return np.asarray(scores.max(axis=1))

    def exact(self) -> tuple[float, float]:
        """Return the epsilon of all runs together, which the largest score alone costs too, twice."""
        epsilon = selection_epsilon(RUNS, 1 / self.epsilon)
        return epsilon, epsilon


class TuningComposed(ZooRelease):
    """A correct twin: the best of five runs, each with the noise that all five together need."""

    visibility = "sequential composition of all runs of a search"

    def __call__(self, data: Any, rng: np.random.Generator, size: int) -> Array:
        """Return the best of the noisy scores."""
        scores = float(np.sum(data)) + rng.laplace(0.0, RUNS / self.epsilon, (size, RUNS))
        return np.asarray(scores.max(axis=1))

    def exact(self) -> tuple[float, float]:
        """Return the claim, which is exact, twice."""
        return self.epsilon, self.epsilon


PLUGINS = name_classes(
    AdjacencyOfRemoval,
    EarlyStopping,
    EarlyStoppingInPublic,
    GaussianAnalytic,
    GaussianClassicBeyond,
    GaussianClassicAt2,
    GaussianInverted,
    SameSeedEveryRun,
    ScheduleFromData,
    SearchCountedInEpochs,
    TuningNotComposed,
    TuningComposed,
)
