"""Which signals are kept of every model: all outputs, or the numbers that attacks and other figures make of them."""

from collections.abc import Collection, Set

from attacks.signals._remarks import PredictedClasses, RepeatedOutputs
from attacks.signals.logits import Confidences, Logits
from audit.core.models import Reduction, Signal
from audit.core.protocols import Needs

# what is read of outputs besides attacks: losses and accuracies of groups and sides, and whether a model shows anything
OF_FIGURES: frozenset[Reduction] = frozenset({Confidences(), PredictedClasses(), RepeatedOutputs()})


def kept_signals(signals: Set[Signal], needs: Collection[Needs], classes: int) -> frozenset[Signal]:
    """Return the signals with reductions of outputs in their place, if all who read them say so and it is no more.

    `needs` are of all attacks; 0 classes keep outputs as they are.
    """
    full: Signal = Logits()
    readers = [attack_needs for attack_needs in needs if full.key in attack_needs.keys]
    if not classes or full not in signals or not all(attack_needs.reductions for attack_needs in readers):
        return frozenset(signals)
    reductions = OF_FIGURES.union(*(attack_needs.reductions for attack_needs in readers))
    if sum(reduction.size(classes, 0) for reduction in reductions) > full.size(classes, 0):
        return frozenset(signals)
    return frozenset(signals - {full}) | reductions
