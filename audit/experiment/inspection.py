"""Audit a model that is already trained, or scores that any tool made.

Ten lines are enough for a model of your own:

    from audit.experiment.inspection import inspect
    import reports

    report = inspect(model, (x_train, y_train), (x_test, y_test))
    for attack in report.mechanisms[0].games[0].attacks:
        print(attack.scorer, attack.auc, attack.auc_lower, attack.auc_upper)
    for name, content in reports.render(report, ["pdf", "json"]).items():
        open(name, "wb").write(content)

An epsilon is proven only where coins decided which records were trained on: draw them with
`draw_coins` before the training, train on the records where they are True, and give them as `Settings.coins`.
"""

from __future__ import annotations

from audit.checks.membership import draw_coins
from audit.experiment.scores import granted_estimators, inspect_scores
from audit.experiment.settings import Settings, record_name
from audit.experiment.trained import Inspection, examine, examine_outputs, inspect, inspect_outputs

__all__ = [
    "Inspection",
    "Settings",
    "draw_coins",
    "examine",
    "examine_outputs",
    "granted_estimators",
    "inspect",
    "inspect_outputs",
    "inspect_scores",
    "record_name",
]
