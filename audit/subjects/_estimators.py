"""Models of other libraries as functions of a batch, for `audit.subjects._worker`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from audit.core.errors import DataError

Model = Callable[[torch.Tensor], torch.Tensor]


def onnx(content: bytes, name: str, device: torch.device) -> Model:
    """The graph of an ONNX file.

    Raises:
        DataError: onnxruntime cannot read it, or it has more than one input.
    """
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as states

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented", "RuntimeException")
    failures: tuple[type[Exception], ...] = (ValueError, *(getattr(states, state) for state in names))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except failures as error:
        raise _unreadable(name, "onnxruntime", error) from error
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise DataError(f"{name} has {len(inputs)} inputs; expected one, the records")
    types = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    if inputs[0].type not in types:
        raise DataError(f"{name} takes {inputs[0].type}; expected one of {', '.join(types)}")
    outputs = [output.name for output in session.get_outputs() if output.type in ("tensor(float)", "tensor(double)")]
    if len(outputs) != 1:
        raise DataError(
            f"{name} has {len(outputs)} outputs of floating-point numbers; expected one, of logits or probabilities (of a "
            "scikit-learn model, export with zipmap=False)"
        )

    def call(batch: torch.Tensor) -> torch.Tensor:
        try:
            (values,) = session.run(outputs, {inputs[0].name: batch.numpy().astype(types[inputs[0].type])})
        except failures as error:
            raise RuntimeError(str(error)) from error
        return _logits(values)

    return call


def skops(content: bytes, name: str, device: torch.device) -> Model:
    """The estimator of a `.skops` file.

    Raises:
        DataError: the file is damaged, holds types that skops does not trust, or no classifier.
    """
    import zipfile

    from skops.io import get_untrusted_types, loads

    try:
        untrusted = get_untrusted_types(data=content)
        if untrusted:
            raise DataError(f"{name} holds {', '.join(sorted(untrusted)[:5])}, which skops does not trust; it is not loaded")
        estimator = loads(content, trusted=[])
    except (zipfile.BadZipFile, ValueError, TypeError, KeyError, AttributeError, ImportError, OSError, EOFError) as error:
        raise _unreadable(name, "skops", error) from error
    methods = [getattr(estimator, method) for method in ("predict_proba", "decision_function") if hasattr(estimator, method)]
    if not methods:
        raise DataError(
            f"{name} holds a {type(estimator).__name__}; expected a classifier with predict_proba or decision_function"
        )
    return lambda batch: _logits(methods[0](batch.numpy()))


def lightgbm(content: bytes, name: str, device: torch.device) -> Model:
    """The classifier of a LightGBM text file.

    Raises:
        DataError: the file is damaged, or holds no classifier.
    """
    import lightgbm as library

    text = content.decode("utf-8", errors="replace")
    last = text.rstrip().rpartition("\n")[2]
    if not text.startswith("tree\n") or "\nend of trees\n" not in text or not last.startswith("pandas_categorical:"):
        raise DataError(f"{name} is not a complete model of LightGBM; expected what booster.save_model writes")
    try:
        booster = library.Booster(model_str=text, params={"verbosity": -1})
    except library.basic.LightGBMError as error:
        raise _unreadable(name, "lightgbm", error) from error
    objective = next((line for line in text.splitlines() if line.startswith("objective=")), "objective=nothing")
    if not objective.startswith(("objective=binary", "objective=multiclass")):
        raise DataError(f"{name} has the {objective.replace('=', ' ')}; expected a classifier, binary or multiclass")

    def call(batch: torch.Tensor) -> torch.Tensor:
        try:
            return _logits(booster.predict(batch.numpy(), raw_score=True))
        except library.basic.LightGBMError as error:
            raise RuntimeError(str(error)) from error

    return call


def xgboost(content: bytes, name: str, device: torch.device) -> Model:
    """The classifier of an XGBoost file.

    Raises:
        DataError: the file is damaged, or holds no classifier.
    """
    import json

    import xgboost as library

    booster = library.Booster()
    try:
        booster.load_model(bytearray(content))
    except (library.core.XGBoostError, ValueError) as error:
        raise _unreadable(name, "xgboost", error) from error
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    if objective not in ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax"):
        raise DataError(f"{name} has the objective {objective}; expected a classifier, binary or multi")
    return lambda batch: _logits(booster.predict(library.DMatrix(batch.numpy()), output_margin=True))


def _logits(outputs: Any) -> torch.Tensor:
    """Outputs `(n, classes)`; a single number a record is the logit of the second of two classes."""
    values = np.asarray(outputs, np.float32)
    if values.ndim == 1:
        values = np.stack([np.zeros_like(values), values], axis=1)
    return torch.from_numpy(np.ascontiguousarray(values))


def _unreadable(name: str, library: str, error: BaseException) -> DataError:
    return DataError(f"{name} cannot be read by {library}: {str(error).strip().partition(chr(10))[0][:300]}")
