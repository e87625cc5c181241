"""Membership scores of other packages, by their own code, on models that were trained here.

LeakPro, Privacy Meter, PrivacyGuard and TensorFlow Privacy are read from checkouts of their repositories,
`SOURCES/LeakPro`, `SOURCES/ml_privacy_meter`, `SOURCES/PrivacyGuard`, `SOURCES/privacy`; SACRO-ML is imported
(`pip install sacroml`). Of the first four only the file of an attack runs: imports for training, data and reports are
replaced by `_Nothing`, so none of their dependencies is needed. Each attack gets what its package would have made of the same
models, with the package's defaults if the name does not say otherwise.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from audit.core.data import Array
from audit.stats.scoring.signals import scaled_confidence


@dataclass(frozen=True, kw_only=True, eq=False)
class Models:
    """Outputs of all models, of which one is the target.

    Attributes:
        logits: `(k, m, classes)`.
        labels: `(m,)`.
        included: `(k, m)` bool.
    """

    logits: Array
    labels: Array
    included: Array

    @property
    def true_probability(self) -> Array:
        """Softmax of the true class, `(k, m)`."""
        shifted = np.exp(self.logits - self.logits.max(axis=-1, keepdims=True))
        return np.asarray(shifted[:, np.arange(len(self.labels)), self.labels] / shifted.sum(axis=-1))

    def other_models(self, target: int) -> Array:
        """Rows of all models but the target."""
        return np.delete(np.arange(len(self.logits)), target)


Score = Callable[[int], Array]
Peer = Callable[[Models, Path], Score]


class _Nothing:
    """Represents what an attack's file imports and its scores do not need; also a base class."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __getattr__(self, name: str) -> _Nothing:
        return _Nothing()

    def __call__(self, *_: object, **__: object) -> _Nothing:
        return self

    @classmethod
    def from_full_scores(cls, **_: object) -> _Nothing:
        return cls()


class _Absent(ModuleType):
    """A module of which every name is a class that does nothing."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return type(name, (_Nothing,), {})


@contextmanager
def _replaced(modules: Mapping[str, Mapping[str, object]]) -> Iterator[None]:
    """Let imports of `modules` and of their parents find substitutes that have the given names."""
    names = {".".join(name.split(".")[: depth + 1]) for name in modules for depth in range(name.count(".") + 1)}
    before = {name: sys.modules.get(name) for name in names}
    for name in sorted(names):
        sys.modules[name] = _Absent(name)
        vars(sys.modules[name]).update(modules.get(name, {}))
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _loaded(path: Path, modules: Mapping[str, Mapping[str, object]]) -> Any:
    """The module of one file, its imports of `modules` replaced."""
    spec = importlib.util.spec_from_file_location(f"peer_{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise SystemExit(f"{path} is not there; --sources names the folder of the packages' checkouts")
    module = importlib.util.module_from_spec(spec)
    with _replaced(modules):
        spec.loader.exec_module(module)
    return module


# ---------------------------------------------------------------------------------------------------------------- LeakPro


def _leakpro(name: str, sources: Path, models: Models) -> tuple[Any, Callable[[int], SimpleNamespace]]:
    """An attack's class, and for each target the substitute of the package's store of shadow models."""
    root = sources / "LeakPro" / "leakpro" / "attacks"
    utils = _loaded(root / "utils" / "utils.py", {})
    base = type("AbstractMIA", (), {"__init__": lambda self, handler: None})
    stand_ins: dict[str, dict[str, object]] = {
        "leakpro.attacks.mia_attacks.abstract_mia": {"AbstractMIA": base},
        "leakpro.attacks.utils.shadow_model_handler": {},
        "leakpro.attacks.utils.utils": {"softmax_logits": utils.softmax_logits},
        "leakpro.input_handler.mia_handler": {},
        "leakpro.input_handler.abstract_input_handler": {},
        "leakpro.reporting.mia_result": {},
        "leakpro.signals.signal": {},
        "leakpro.signals.signal_extractor": {},
        "leakpro.utils.import_helper": {},
        "leakpro.utils.logger": {"logger": logging.getLogger("leakpro")},
        "tqdm": {"tqdm": lambda values, **_: values},
    }
    module = _loaded(root / "mia_attacks" / f"{name}.py", stand_ins)

    def store(target: int) -> SimpleNamespace:
        by_index = {int(row): models.logits[row] for row in models.other_models(target)}
        return SimpleNamespace(
            attack_cache_folder_path="",
            target_model_hash="",
            load_logits=lambda name="", indx=None: models.logits[target] if indx is None else by_index[indx],
        )

    return module, store


def _leakpro_attack(kind: type, module: Any, store: SimpleNamespace, models: Models, target: int, **settings: object) -> Any:
    """An attack of LeakPro before its `run_attack`, all records audited as if members, so that it keeps the scores of all."""
    module.ShadowModelHandler = lambda: store
    remainder, count = models.other_models(target), len(models.labels)
    handler = SimpleNamespace(
        train_indices=np.arange(count),
        test_indices=np.arange(0),
        target_model=None,
        get_labels=lambda rows: models.labels[rows],
    )
    attack = kind(handler, {"num_shadow_models": len(remainder), **settings})
    attack.handler = handler
    attack.audit_dataset = {"data": np.arange(count), "in_members": np.arange(count), "out_members": np.arange(0)}
    attack.attack_data_indices = np.arange(count)
    attack.shadow_model_indices = [int(row) for row in remainder]
    attack.out_indices = ~models.included[remainder]
    return attack


def leakpro_lira(online: bool) -> Peer:
    def peer(models: Models, sources: Path) -> Score:
        module, store = _leakpro("lira", sources, models)

        def score(target: int) -> Array:
            attack = _leakpro_attack(module.AttackLiRA, module, store(target), models, target, online=online)
            attack.fix_var_threshold = 32  # as its preparation sets it
            attack.target_logits = attack.rescale_logits(models.logits[target].copy(), models.labels)
            rows = [attack.rescale_logits(models.logits[row].copy(), models.labels) for row in models.other_models(target)]
            attack.shadow_models_logits = np.array(rows)
            # the package stops at a record that all of its models, or none, trained on
            complete = attack.out_indices.any(axis=0) & ~(online & attack.out_indices.all(axis=0))
            attack.shadow_models_logits = attack.shadow_models_logits[:, complete]
            attack.target_logits, attack.out_indices = attack.target_logits[complete], attack.out_indices[:, complete]
            count = int(complete.sum())
            attack.audit_dataset |= {"data": np.arange(count), "in_members": np.arange(count)}
            attack.run_attack()
            values = np.full(len(complete), np.median(attack.in_member_signals))
            values[complete] = attack.in_member_signals[:, 0]
            return values

        return score

    return peer


def leakpro_rmia(online: bool) -> Peer:
    def peer(models: Models, sources: Path) -> Score:
        module, store = _leakpro("rmia", sources, models)

        def score(target: int) -> Array:
            attack = _leakpro_attack(module.AttackRMIA, module, store(target), models, target, online=online)
            attack.load_for_optuna = True  # the models exist
            attack.ground_truth_indices = models.labels
            attack.logits_theta = models.logits[target]
            attack.logits_shadow_models = list(models.logits[models.other_models(target)])
            attack.shadow_models = attack.logits_shadow_models
            np.random.seed(target)  # noqa: NPY002 - it draws its population from numpy's global stream
            attack.prepare_attack()
            attack.run_attack()
            return np.asarray(attack.in_member_signals[:, 0])

        return score

    return peer


def leakpro_base(models: Models, sources: Path) -> Score:
    """BASE online; its offline form refuses records that are not in exactly half of the models."""
    module, store = _leakpro("base", sources, models)

    def score(target: int) -> Array:
        attack = _leakpro_attack(module.AttackBASE, module, store(target), models, target, online=True)
        attack.run_attack()
        return np.asarray(attack.in_member_signals[:, 0])

    return score


# ------------------------------------------------------------------------------------------- Privacy Meter, PrivacyGuard


def privacy_meter_rmia(models: Models, sources: Path) -> Score:
    """Offline RMIA, all records as its population; it leaves out the model that it takes for the target's pair."""
    module = _loaded(sources / "ml_privacy_meter" / "attacks.py", {})
    signals, members = models.true_probability.T, models.included.T
    return lambda target: np.asarray(module.run_rmia(target, signals, signals, members, (len(members[0]) - 1) // 2, 0.3))


_GUARD: dict[str, dict[str, object]] = {
    "privacy_guard.analysis.mia.aggregate_analysis_input": {},
    "privacy_guard.attacks.base_attack": {"BaseAttack": object},
}


def guard_lira(fixed: bool) -> Peer:
    def peer(models: Models, sources: Path) -> Score:
        import pandas as pd

        module = _loaded(sources / "PrivacyGuard" / "privacy_guard" / "attacks" / "lira_attack.py", _GUARD)
        confidence = scaled_confidence(models.logits, models.labels)

        def score(target: int) -> Array:
            remainder = models.other_models(target)
            inside = np.where(models.included[remainder], confidence[remainder], np.nan)
            outside = np.where(models.included[remainder], np.nan, confidence[remainder])
            columns = {"score_orig": confidence[target]}
            for side, values in (("in", inside), ("out", outside)):
                columns[f"score_mean_{side}"] = np.nanmean(values, axis=0)
                columns[f"score_std_{side}"] = np.nanstd(values, axis=0, ddof=1)
            frame = pd.DataFrame(columns)
            frame = frame.fillna(frame.mean())  # a side with too few models; the package would leave the record out
            attack = module.LiraAttack(
                frame, frame.copy(), None, online_attack=True, use_fixed_variance=fixed, std_dev_type="mix"
            )
            attack.run_attack()
            return attack.df_train_merge["score"].to_numpy()

        return score

    return peer


def guard_rmia(online: bool) -> Peer:
    def peer(models: Models, sources: Path) -> Score:
        import pandas as pd

        module = _loaded(sources / "PrivacyGuard" / "privacy_guard" / "attacks" / "rmia_attack.py", _GUARD)
        probability = models.true_probability

        def score(target: int) -> Array:
            remainder = models.other_models(target)
            columns = {"score_orig": probability[target]}
            columns |= {f"score_ref_{place}": probability[row] for place, row in enumerate(remainder)}
            columns |= {f"member_ref_{place}": models.included[row] for place, row in enumerate(remainder)}
            frame = pd.DataFrame(columns)
            count = len(remainder) if online else None
            attack = module.RmiaAttack(frame, frame, frame, None, num_reference_models=count, online=online)
            attack.run_attack()
            return attack.df_train_merge["score"].to_numpy()

        return score

    return peer


# ------------------------------------------------------------------------------------------ TensorFlow Privacy, SACRO-ML


def tensorflow_privacy(form: str, **settings: object) -> Peer:
    """`compute_score_lira` or `compute_score_offset`; lower is a member to the first."""
    sign = -1.0 if form == "lira" else 1.0

    def peer(models: Models, sources: Path) -> Score:
        folder = sources / "privacy" / "tensorflow_privacy" / "privacy" / "privacy_tests" / "membership_inference_attack"
        module = _loaded(folder / "advanced_mia.py", {"tensorflow_privacy.privacy.privacy_tests.utils": {}})
        statistic = module.calculate_statistic
        confidence = np.stack([statistic(row.astype(np.float64), models.labels) for row in models.logits])
        formula = getattr(module, f"compute_score_{form}")

        def score(target: int) -> Array:
            remainder = models.other_models(target)
            columns, coins = confidence[remainder].T, models.included[remainder].T
            inside = [values[mask][:, None] for values, mask in zip(columns, coins, strict=True)]
            outside = [values[~mask][:, None] for values, mask in zip(columns, coins, strict=True)]
            return sign * np.asarray(formula(confidence[target][:, None], inside, outside, **settings))

        return score

    return peer


def sacro(mode: str, fix_variance: bool) -> Peer:
    """SACRO-ML's `LIRAAttack`: the column that its metrics treat as the probability of membership."""

    def peer(models: Models, sources: Path) -> Score:
        from sacroml.attacks import utils
        from sacroml.attacks.likelihood_attack import LIRAAttack

        logging.disable(logging.CRITICAL)
        attack = LIRAAttack(
            output_dir=tempfile.mkdtemp(),
            write_report=False,
            n_shadow_models=len(models.logits) - 1,
            mode=mode,
            fix_variance=fix_variance,
        )
        shifted = np.exp(models.logits - models.logits.max(axis=-1, keepdims=True))
        probabilities = shifted / shifted.sum(axis=-1, keepdims=True)
        confidence = np.array([[utils.logit(value) for value in line] for line in models.true_probability])

        def score(target: int) -> Array:
            remainder = models.other_models(target)
            rows = range(len(models.labels))
            without = {row: list(confidence[remainder, row][~models.included[remainder, row]]) for row in rows}
            inside = {row: list(confidence[remainder, row][models.included[remainder, row]]) for row in rows}
            scores, _ = attack._compute_scores(models.labels, probabilities[target], without, inside)
            return np.array(scores)[:, 1]

        return score

    return peer


ONLINE: Mapping[str, Peer] = {
    "LeakPro LiRA": leakpro_lira(online=True),
    "LeakPro RMIA": leakpro_rmia(online=True),
    "LeakPro BASE": leakpro_base,
    "PrivacyGuard LiRA": guard_lira(fixed=False),
    "PrivacyGuard LiRA, fixed variance": guard_lira(fixed=True),
    "PrivacyGuard RMIA": guard_rmia(online=True),
    "SACRO-ML LiRA, fixed variance": sacro("online-carlini", fix_variance=True),
    "TF Privacy LiRA": tensorflow_privacy("lira"),
    "TF Privacy LiRA, fixed variance": tensorflow_privacy("lira", fix_variance=True),
    "TF Privacy offset": tensorflow_privacy("offset"),
}
OFFLINE: Mapping[str, Peer] = {
    "LeakPro LiRA": leakpro_lira(online=False),
    "LeakPro RMIA": leakpro_rmia(online=False),
    "Privacy Meter RMIA": privacy_meter_rmia,
    "PrivacyGuard RMIA": guard_rmia(online=False),
    "SACRO-ML LiRA, fixed variance": sacro("offline", fix_variance=True),
    "TF Privacy LiRA, fixed variance": tensorflow_privacy("lira", option="out", fix_variance=True),
    "TF Privacy offset": tensorflow_privacy("offset", option="out"),
}
