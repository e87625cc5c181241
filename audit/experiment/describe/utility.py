"""What the trained models are good for, on test records that no model was trained on."""

from collections.abc import Sequence

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals._remarks import PredictedClasses
from attacks.signals.logits import Logits
from audit.core.results import Metric
from audit.core.views import View
from audit.experiment.games.observed import GameModels, Observations
from audit.experiment.games.utility_figures import ORDER


def utility(games: Sequence[Observations]) -> tuple[Metric, ...]:
    """Mean and spread over models of accuracy, macro-F1 and AUC (regression: MSE and R2; texts: perplexity).

    Models that diverged are left out. Those with records as canaries are preferred: crafted gradients attack utility too.
    """
    natural = [game for game in games if {Logits.key, PredictedClasses.key} & game.signals.keys()] or list(games)
    tests = [game for game in natural if game.test_figures and not game.diverged.all()]
    metrics = []
    for name in sorted(tests[0].test_figures if tests else (), key=ORDER.index):
        values = np.concatenate([game.test_figures[name][~game.diverged] for game in tests])
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        metrics.append(Metric(name=name, value=float(values.mean()), spread=spread, models=len(values)))
    return tuple(metrics)


def side_accuracy(models: GameModels) -> tuple[Metric, ...]:
    """Accuracy and loss of the first model on its members and its nonmembers, for a model without test records."""
    target, included = models.observed, models.prepared_game.assignment.included[0]
    view = View(signals={key: value[0] for key, value in target.signals.items()}, labels=models.labels)
    loss, logits = reading.losses(view, reading.NO_REFERENCE, "loss")[0], view.get(Logits.key)
    rows = []
    for side, name in ((included, "members"), (~included, "nonmembers")):
        if logits is not None:
            right = float(np.mean(logits[side].argmax(-1) == np.asarray(models.labels)[side]))
            rows.append(Metric(name=f"accuracy on {name}", value=right, spread=0.0, models=1))
        rows.append(Metric(name=f"loss on {name}", value=float(loss[side].mean()), spread=0.0, models=1))
    return tuple(rows)
