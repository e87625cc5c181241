"""How much a run folder will hold, before anything is trained."""

from attacks.signals.logits import Logits
from audit.core import event_reading
from audit.experiment.games.spec import AuditDesign, AuditInputs

# bytes of each model and record, beside the signals of all models but one
_SCRATCH = 8 + 1  # a loss and a coin
_CONFIDENCE = 8  # made once of outputs that are kept whole, and copied like a signal for all models but one


def bytes_needed(design: AuditDesign, audit_inputs: AuditInputs) -> int:
    """Return an upper estimate of what the folder of a run takes, in bytes."""
    classes = audit_inputs.dataset.outputs
    total = 0
    for training_design, game_design in design.trainings:
        steps = event_reading.steps(training_design.run_event)
        signals = game_design.signals(game_design.trained_for.released, {Logits()})
        signal_bytes = game_design.count * 4 * sum(signal.size(classes, steps) for signal in signals)
        model = 2 * (audit_inputs.parameters * 4 + signal_bytes + steps * 8)
        scratch = _SCRATCH + (_CONFIDENCE if classes and Logits() in signals else 0)
        total += game_design.models * (model + signal_bytes + game_design.count * scratch)
    return total
