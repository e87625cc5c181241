"""What attacks make of the models of `real_data.py`: figures, curves and bounds as plain data."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from real_problems import DELTA, TrainingDesign, claim

import audit
from audit import plugins
from audit.bounds import budget
from audit.bounds.steps import StepProducts
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import NoNoiseFits
from audit.core.data import Array
from audit.core.event_reading import noisy_steps
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores, View
from audit.experiment.describe import leave_one_out
from audit.stats.bounds import roc
from audit.stats.scoring import signals

CONFIDENCE = 0.95
AUDITOR = "single steps, sampling seen"  # takes the sampler's own record: an auditor has it, an adversary does not
CURVE = np.geomspace(2.5e-4, 1, 60)  # false positive rates of the drawn curves
SCORERS: dict[str, dict[str, Any]] = {
    "loss": {"kind": "loss"},
    "confidence": {"kind": "confidence"},
    "entropy": {"kind": "entropy"},
    "modified entropy": {"kind": "modified_entropy"},
    "output gradient": {"kind": "output_gradient"},
    "label only": {"kind": "label_only"},
    "label only, calibrated": {"kind": "label_only", "calibrated": True},
    "attack P": {"kind": "attack_p"},
    "attack R": {"kind": "attack_r"},
    "shadow classifier": {"kind": "shadow_classifier"},
    "reference_quantile": {"kind": "reference_quantile"},
    "offset": {"kind": "offset"},
    "RMIA/BASE offline": {"kind": "rmia", "online": False},
    "RMIA/BASE": {"kind": "rmia"},
    "LiRA offline": {"kind": "lira", "online": False},
    "LiRA, per-example variance": {"kind": "lira", "variance": "per_example"},
    "LiRA, shrunk variance": {"kind": "lira", "variance": "shrunk"},
    "LiRA, fixed variance": {"kind": "lira"},
    "LiRA, predictive variance": {"kind": "lira", "variance": "predictive"},
    "LiRA, shrunk shift": {"kind": "lira", "shift": "shrunk"},
    "learned combination": {"kind": "learned_combination"},
    "gradient norm (final weights)": {"kind": "gradient_norm"},
    "gradient norm, calibrated (final weights)": {"kind": "gradient_norm", "calibrated": True},
    "gradient norm of the last layer (final weights)": {"kind": "gradient_norm", "layer": "last"},
    "white-box classifier (final weights)": {"kind": "white_box_classifier"},
}
SIGNALS = ("logits", "gradient_norms", "last_gradient_norms", "class_distances")
DRAWN = ("loss", "label only, calibrated", "RMIA/BASE", "LiRA offline", "LiRA, fixed variance", "learned combination")


def scored(arrays: dict[str, Array]) -> dict[str, Any]:
    """All that `real_data.py` prints of one recipe."""
    began = time.process_time()
    models = View.of(included=arrays["included"], **{name: arrays[name] for name in SIGNALS})
    right = signals.correct(arrays["logits"], arrays["labels"])
    test = signals.correct(arrays["test_logits"], arrays["test_labels"])
    result: dict[str, Any] = {
        "accuracy": {
            "members": float(right[models.included].mean()),
            "others": float(right[~models.included].mean()),
            "test": float(test.mean()),
        },
        "training": float(arrays["seconds"]),
        "rows": {},
        "curves": {},
    }
    for name, spec in SCORERS.items():
        attack = plugins.build("attacks.scorers", spec)
        item = leave_one_out.leave_one_out(attack, models, arrays["labels"], Seed(0))
        exposed = leave_one_out.exposure(item)
        result["rows"][name] = {
            "figures": {spread.figure: [spread.mean, spread.std] for spread in leave_one_out.spreads(item)},
            "bands": {f"{fpr:g}": _band(item, fpr) for fpr in (0.01, 0.001)},
            "again": [exposed.reproducibility, exposed.chance],
        }
        if name in DRAWN:
            rates = [
                [leave_one_out.tpr_at(values[coins], values[~coins], fpr) for fpr in CURVE]
                for values, coins in zip(item.values, item.included, strict=True)
            ]
            result["curves"][name] = np.mean(rates, axis=0).tolist()
    result["scoring"] = time.process_time() - began
    return result


def _band(item: leave_one_out.LeaveOneOut, fpr: float) -> list[float] | None:
    """The 95 % band on the first target's TPR, for its records taken as draws from a population."""
    values, coins = item.values[0], item.included[0]
    point = roc.tpr_at_fpr(values[coins], values[~coins], fpr, CONFIDENCE)
    return None if point is None else [point.lower, point.upper]


def bounds(arrays: dict[str, Array], inside: dict[str, Array], training_design: TrainingDesign) -> dict[str, Any]:
    """Proven epsilon for each access level: from each white-box run, and from as many models as targets in turn.

    A target of the pool is attacked with all other models as its references. Each bound is one target's own, so
    nothing is pooled.
    """
    runs = [_run_bounds(arrays, inside, training_design, run) for run in range(len(inside["included"]))]
    rows = [{**row, "epsilon": [item[index]["epsilon"] for item in runs]} for index, row in enumerate(runs[0])]
    return {"claim": claim(training_design), "bounds": rows}


def _run_bounds(
    arrays: dict[str, Array], inside: dict[str, Array], training_design: TrainingDesign, run: int
) -> list[dict[str, Any]]:
    """The bounds of one target and one white-box run."""
    outside, gradients = arrays["included"], inside["included"][run]
    remainder = np.delete(np.arange(len(outside)), run)
    references = View.of(included=outside[remainder], logits=arrays["logits"][remainder])
    target = View.of(labels=arrays["labels"], logits=arrays["logits"][run], mechanism=training_design.mechanism)
    observed = View.of(
        step_products=inside["products"][run],
        weight_products=inside["weight_products"][run],
        mechanism=training_design.mechanism,
    )
    nothing = View.of(included=np.empty((0, len(gradients)), dtype=bool))
    tried = [
        ({"kind": "label_only", "calibrated": True}, Access.LABEL_ONLY, target, references, outside[run]),
        ({"kind": "auto"}, Access.FINAL_MODEL, target, references, outside[run]),
        ({"kind": "weight_difference"}, Access.FINAL_WEIGHTS, observed, nothing, gradients),
        ({"kind": "gradient_product"}, Access.ALL_STEPS, observed, nothing, gradients),
    ]
    rows = []
    for spec, access, view, peers, included in tried:
        game = Game(
            adjacency=Adjacency.ADD_REMOVE,
            access=access,
            inclusion=Inclusion.COINS,
            canaries=len(included),
            references=len(peers),
            independent_noise=access == Access.ALL_STEPS,
        )
        values = plugins.build("attacks.scorers", spec).score(view, peers, Seed(0))
        scores = Scores(
            values=values, included=included, game=game, attack=str(spec["kind"]), mechanism=training_design.mechanism
        )
        for name in ("one_run", "one_run_fdp", *(["fdp_rank"] if access == Access.ALL_STEPS else [])):
            estimator = plugins.build("audit.bounds.estimators", {"kind": name})
            (bound,) = budget.bounds(scores, [estimator], delta=DELTA, confidence=CONFIDENCE, seed=Seed(0))
            rows.append(_row(access, str(spec["kind"]), bound))
    products, took = inside["products"][run], inside["took"][run]
    held = np.repeat(gradients, products.shape[1])
    blind = step_bound(StepProducts(values=products.ravel(), held=held), training_design)
    seeing = step_bound(StepProducts(values=products.ravel(), held=held, took_part=took.ravel()), training_design)
    return [
        *rows,
        _row(Access.ALL_STEPS, "single steps", blind),
        _row(Access.ALL_STEPS, AUDITOR, seeing),
    ]


def step_bound(steps: StepProducts, training_design: TrainingDesign) -> Any:
    """The bound from single steps of the run, each step of each canary a trial."""
    if noisy_steps(training_design.mechanism) is None:
        raise SystemExit("single steps are those of DP-SGD")
    return audit.step_bound(steps, mechanism=training_design.mechanism, delta=DELTA, confidence=CONFIDENCE)


def _row(access: Access, attack: str, bound: Any) -> dict[str, Any]:
    return {
        "access": access.name,
        "attack": attack,
        "estimator": bound.estimator,
        "family": bound.family,
        "epsilon": getattr(bound, "epsilon", None),  # None where no noise of the family fits
        "ceiling": None if isinstance(bound, NoNoiseFits) or np.isinf(bound.ceiling) else bound.ceiling,
    }
