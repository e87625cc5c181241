"""What an audit will hold in memory at least, so that one which cannot fit is refused before anything is made for it."""

from __future__ import annotations

from audit.core import event_reading, memory
from audit.core.errors import ConfigError
from audit.experiment.games.spec import AuditDesign, AuditInputs, GameDesign, TrainingDesign

FLOAT = 4
COIN = 1 + 2  # bytes of a coin, and of its copies while it is stored
COPIES = 3  # of the parameters, while one model trains: weights, gradient, sum
MOST_STEPS, MOST_MODELS = 10**9, 10**8  # beyond these no training ends, whatever it needs


def refuse(design: AuditDesign, audit_inputs: AuditInputs, models_per_job: int) -> None:
    """Raise `ConfigError` naming the game and the largest of what does not fit into this machine's memory."""
    for training_design, game_design in design.pairs:
        steps = event_reading.steps(training_design.run_event)
        if steps > MOST_STEPS or game_design.models > MOST_MODELS:
            raise ConfigError(
                f"games.{game_design.name} trains {game_design.models:,} models for {steps:,} steps each; expected at most "
                f"{MOST_MODELS:,} models and {MOST_STEPS:,} steps"
            )
        for purpose, size in _parts(audit_inputs, training_design, game_design, models_per_job).items():
            memory.refuse(size, f"games.{game_design.name}, mechanism {training_design.name}: {purpose}", _ADVICE[purpose])


_COINS, _MODEL, _JOB = "the coins of all models", "one model while it trains", "what is kept of the models of one job"
_ADVICE = {
    _COINS: "lower runs, references or count",
    _MODEL: "choose a smaller model",
    _JOB: "lower execution.models_per_job, steps, count or the model's size",
}


def _parts(
    audit_inputs: AuditInputs, training_design: TrainingDesign, game_design: GameDesign, models_per_job: int
) -> dict[str, float]:
    """Bytes of each thing that has to be held at once."""
    steps, classes = event_reading.steps(training_design.run_event), audit_inputs.dataset.outputs
    together = min(models_per_job, game_design.models)
    signals = sum(signal.size(classes, steps) for signal in game_design.signals(game_design.trained_for.released, set()))
    outputs = len(audit_inputs.dataset.test) * max(classes, 1)
    numbers = audit_inputs.parameters + game_design.count * signals + outputs + 2 * steps
    return {
        _COINS: COIN * game_design.models * game_design.count,
        _MODEL: FLOAT * COPIES * audit_inputs.parameters,
        _JOB: FLOAT * together * numbers,
    }
