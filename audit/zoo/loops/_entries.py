"""Wrong loops around a correct step: batches, rates and numbers of steps that are not those accounted for."""

import math

import numpy as np

from audit.core.events import Event
from audit.plugins import name_classes
from audit.stats.curves import largest_release, pld
from audit.zoo._loops import Batches, Loop, LoopPlan, make_epochs, poisson


class BatchUsedTwice(Loop):
    """Every batch that is drawn serves for two steps."""

    wrong = "Takes two steps on each batch that is drawn, and accounts for a fresh sample in each."
    visibility = "inner loops of policy optimisation; data echoing"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return each sample twice."""
        return [draw for draw in poisson(plan.records, plan.rate, plan.steps // 2, stream) for _ in range(2)]

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return half the steps with two releases of a batch each: together one release with the noise over the root of 2."""
        event = plan.training(steps=plan.steps // 2, noise_multiplier=plan.noise_multiplier / math.sqrt(2))
        return event, event


class DropLast(Loop):
    """The loader drops its last batch, so its sampler draws more often than is accounted for."""

    wrong = (
        "The sampler draws with one over the loader's length, which drop_last=True rounds down; the plain rate is "
        "accounted for."
    )
    visibility = "drop_last=True left in a loader that a library makes private"

    def _rate(self, plan: LoopPlan) -> float:
        return 1 / (plan.records // plan.batch_size)

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return Poisson samples at a rate of one over the number of whole batches."""
        return poisson(plan.records, self._rate(plan), plan.steps, stream)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return the training at the rate at which batches are drawn."""
        event = plan.training(rate=self._rate(plan))
        return event, event


class Poisson(Loop):
    """A correct twin: Poisson samples at the accounted rate."""


class RateRoundedDown(Loop):
    """The accounted rate is one over the number of batches, rounded up; samples have the batch size that was asked for."""

    wrong = "Accounts for one over the number of batches, rounded up, and draws with the batch size over the number of records."
    visibility = "sample_rate = 1 / len(loader) beside a sampler of one's own"

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return one over the number of batches, the last one included."""
        return 1 / math.ceil(plan.records / plan.batch_size)


class RateRoundedUp(Loop):
    """A correct twin: the accounted rate is one over the number of batches, rounded down, and so above the drawn one."""

    visibility = "the rate of a loader that drops its last batch, with samples of the batch size: utility is lost, no privacy"

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return one over the number of whole batches."""
        return 1 / (plan.records // plan.batch_size)


class SameBatches(Loop):
    """Every epoch has the same batches in the same order."""

    wrong = "Runs over fixed batches in their order, and accounts for Poisson samples: nobody is hidden by the sampling."
    visibility = "DataLoader without shuffle; data sets cut into shards of a batch each"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the whole batches of the data set, epoch after epoch."""
        return make_epochs([range(plan.records)] * self._epochs(plan), plan.batch_size)

    def _epochs(self, plan: LoopPlan) -> int:
        return plan.steps // (plan.records // plan.batch_size)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return what a record costs whose batch is known to everybody, twice: the cost is known exactly."""
        event = plan.one_batch_epsilon(self._epochs(plan))
        return event, event


class ShuffledBatches(Loop):
    """Records are shuffled anew in every epoch and cut into batches, which are accounted for as Poisson samples."""

    wrong = "Cuts a shuffled data set into batches, and accounts for Poisson samples."
    visibility = "DataLoader(shuffle=True) under a private optimiser; Chua et al. 2024, arXiv 2403.17673"

    def batches(self, plan: LoopPlan, stream: np.random.Generator) -> Batches:
        """Return the batches of all epochs, each in a new random order: batches of one size that leave no record out."""
        count = _batches_an_epoch(plan)
        orders = [stream.permutation(plan.records).tolist() for _ in range(plan.steps // count)]
        return make_epochs(orders, plan.records // count)

    def accounted_rate(self, plan: LoopPlan) -> float:
        """Return the rate of Poisson samples with the mean size of these batches."""
        return 1 / _batches_an_epoch(plan)

    def spent(self, plan: LoopPlan) -> tuple[Event, Event]:
        """Return the epsilon that a record in a publicly known place spends, an upper end."""
        releases = plan.one_batch_epsilon(plan.steps // _batches_an_epoch(plan))
        return releases, releases

    def truth(self, plan: LoopPlan) -> tuple[float, float]:
        """Return a lower end from the largest release of an epoch, and the upper end of a place that everybody knows.

        Every other record pulls by the clip norm one way and the record under test by as much the other way; a record that is
        removed leaves its place empty. The sum of its batch then stands out from the others of its epoch by two clip norms, and
        by one without it. What is read off a release, here the cell that the largest one is in, spends no more than it does.
        """
        count = _batches_an_epoch(plan)
        unit = 1 / plan.noise_multiplier
        pair = largest_release.shifts_told_apart(count, 2 * unit, unit)
        lower, _ = pld.epsilon_bracket([(lambda way, tail: pair, plan.steps // count)], plan.delta)
        return lower, super().truth(plan)[1]


def _batches_an_epoch(plan: LoopPlan) -> int:
    """Return how many equal batches all records make, with at least as many records each as planned.

    A short batch, or one that is dropped, would give its place another chance; every place has the same here.
    """
    return next(count for count in range(plan.records // plan.batch_size, 0, -1) if plan.records % count == 0)


class StepsPerEpoch(Loop):
    """Only one step per epoch is accounted for."""

    wrong = "Accounts for the number of epochs, where it takes a step for every batch."
    visibility = "accountant.step() in the outer loop; epochs given to a formula for steps"

    def accounted_steps(self, plan: LoopPlan) -> int:
        return max(1, math.floor(plan.steps * plan.rate))


PLUGINS = name_classes(
    BatchUsedTwice, DropLast, Poisson, RateRoundedDown, RateRoundedUp, SameBatches, ShuffledBatches, StepsPerEpoch
)
