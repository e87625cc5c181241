"""Your own attack beside those of the project, on the same models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from audit.core.views import View
    from audit.experiment.external.attack_comparison import AttackComparison

FORMS = ("logits", "losses")
ROUNDING = 1e-5  # by which the loss of a probability near 1 may fall below 0 in single precision


def compare_attacks(
    models: str | Path | Mapping[str, ArrayLike],
    attacks: Sequence[str] = (),
    *,
    battery: bool = True,
    references: int | None = None,
    targets: int | None = None,
    seed: int = 0,
) -> AttackComparison:
    """Attacks side by side on the same models, every model once the target and the others its references.

    `compare_attacks("models.npz", ["my_attacks.sharp:Sharp"]).rows.to_pandas()` is the table: AUC and TPR at 1 % and 0.1 % FPR
    of every attack, the mean over targets with its standard error, and the gap to the best, target by target. Descriptive: no
    bound follows from it.

    Args:
        models: an npz, or arrays by name: `included` `(k, m)`, which records each of `k` models was trained on, decided by
            independent coins; and `logits` `(k, m, classes)` with `labels` `(m,)`, or `losses` `(k, m)`.
        attacks: further ones, each the name of one here or `package.module:Class` of an attack of your own.
        battery: with all attacks of this project that these models can serve.
        references: models that each target is compared with; None takes all others.
        targets: models that are attacked, evenly spread; None takes all.

    Raises:
        ConfigError: an attack that does not exist, or no attack that can score these models.
        DataError: arrays that are missing or do not fit; the message names them.

    >>> random = np.random.default_rng(0)
    >>> coins = random.random((4, 200)) < 0.5
    >>> losses = random.exponential(1.0, (4, 200)) / (1 + 3 * coins)
    >>> found = compare_attacks({"included": coins, "losses": losses}, ["loss"], battery=False)
    >>> [(row.attack, row.figure, row.targets) for row in found.rows]
    [('loss', 'auc', 4)]
    """
    from audit import plugins
    from audit.experiment.external.attack_comparison import compare
    from audit.experiment.games.attack import build_attack

    view, labels = _view(_arrays(models))
    folder = plugins.FOLDERS["scorers"]
    names = dict.fromkeys([*attacks, *(plugins.names(folder) if battery else ())])
    scorers = {name: build_attack({"kind": name}) for name in names}
    return compare(scorers, view, labels, references=references, targets=targets, seed=seed)


def _arrays(models: str | Path | Mapping[str, ArrayLike]) -> dict[str, Any]:
    if isinstance(models, Mapping):
        return {name: np.asarray(array) for name, array in models.items()}
    from audit.data.archives import read_npz
    from audit.data.source import read_bytes

    path = Path(models)
    arrays: dict[str, Any] = read_npz(read_bytes(path, "models"), path)
    return arrays


def _view(arrays: Mapping[str, Any]) -> tuple[View, Any]:
    from audit.core.views import View

    forms = [form for form in FORMS if form in arrays]
    if "included" not in arrays or len(forms) != 1:
        raise DataError(
            f"the models hold {', '.join(arrays) or 'nothing'}; expected included and exactly one of {', '.join(FORMS)}"
        )
    included, values, labels = np.asarray(arrays["included"]), np.asarray(arrays[forms[0]]), arrays.get("labels")
    if included.ndim != 2 or not included.size or not np.isin(included, (0, 1)).all():
        raise DataError(
            f"included has shape {included.shape} and type {included.dtype}; expected true or false, (models, records)"
        )
    axes = 3 if forms[0] == "logits" else 2
    if values.ndim != axes or values.shape[:2] != included.shape or values.dtype.kind not in "fiu":
        raise DataError(
            f"{forms[0]} are {values.dtype} of shape {values.shape} beside memberships of shape {included.shape}; expected "
            f"numbers, {'(models, records, classes)' if axes == 3 else '(models, records)'}"
        )
    _check_values(values, forms[0])
    if forms[0] == "logits":
        _check_labels(labels, values.shape)
    return View(signals={forms[0]: values}, included=included.astype(bool)), labels


def _check_values(values: Any, form: str) -> None:
    from attacks.signals import _reading as reading

    bad = reading.unusable(values)
    if bad:
        raise DataError(
            f"{bad} of the {form} are not finite or larger than {reading.LARGEST:g}; did a training diverge? Give -1e9 for a "
            "class that is masked"
        )
    if form == "logits" and values.shape[2] < 2:
        raise DataError("the logits have one class; expected two or more. Give (0, z) for the single logit z of class 1")
    low = int((values < -ROUNDING).sum())
    if form == "losses" and low:
        raise DataError(f"{low} of the losses are below 0, the least {values.min():.3g}; expected cross-entropies in nats")


def _check_labels(labels: Any, shape: tuple[int, ...]) -> None:
    if labels is None or np.shape(labels) != shape[1:2] or np.asarray(labels).dtype.kind not in "iu":
        kind = "missing" if labels is None else f"{np.asarray(labels).dtype} of shape {np.shape(labels)}"
        raise DataError(f"labels are {kind}; expected one class for each of {shape[1]} records")
    if np.min(labels) < 0 or np.max(labels) >= shape[2]:
        raise DataError(
            f"labels go from {np.min(labels)} to {np.max(labels)}; expected 0 to {shape[2] - 1}, as logits have classes"
        )
