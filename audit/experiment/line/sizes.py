"""What an audit will hold in memory at least, so that one which cannot fit is refused before anything is made for it."""

from __future__ import annotations

from audit.core import event_reading, memory
from audit.core.errors import ConfigError
from audit.experiment.games.spec import AuditDesign, Material, Play, Recipe

FLOAT = 4
COIN = 1 + 2  # bytes of a coin, and of its copies while it is stored
COPIES = 3  # of the parameters, while one model trains: weights, gradient, sum
MOST_STEPS, MOST_MODELS = 10**9, 10**8  # beyond these no training ends, whatever it needs


def refuse(design: AuditDesign, material: Material, models_per_job: int) -> None:
    """Raise `ConfigError` naming the game and the largest of what does not fit into this machine's memory."""
    for recipe, play in design.pairs:
        steps = event_reading.steps(recipe.run_event)
        if steps > MOST_STEPS or play.models > MOST_MODELS:
            raise ConfigError(
                f"games.{play.name} trains {play.models:,} models for {steps:,} steps each; expected at most {MOST_MODELS:,} "
                f"models and {MOST_STEPS:,} steps"
            )
        for purpose, size in _parts(material, recipe, play, models_per_job).items():
            memory.refuse(size, f"games.{play.name}, mechanism {recipe.name}: {purpose}", _ADVICE[purpose])


_COINS, _MODEL, _JOB = "the coins of all models", "one model while it trains", "what is kept of the models of one job"
_ADVICE = {
    _COINS: "lower runs, references or count",
    _MODEL: "choose a smaller model",
    _JOB: "lower execution.models_per_job, steps, count or the model's size",
}


def _parts(material: Material, recipe: Recipe, play: Play, models_per_job: int) -> dict[str, float]:
    """Bytes of each thing that has to be held at once."""
    steps, classes = event_reading.steps(recipe.run_event), material.dataset.outputs
    together = min(models_per_job, play.models)
    signals = sum(signal.size(classes, steps) for signal in play.signals(play.trained_for.released, set()))
    outputs = len(material.dataset.test) * max(classes, 1)
    numbers = material.parameters + play.count * signals + outputs + 2 * steps
    return {
        _COINS: COIN * play.models * play.count,
        _MODEL: FLOAT * COPIES * material.parameters,
        _JOB: FLOAT * together * numbers,
    }
