"""Small classifiers of other libraries, of 4 numbers and 3 classes, as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

STREAM = np.random.default_rng(0)
INPUTS, LABELS = STREAM.normal(size=(120, 4)).astype(np.float32), np.arange(120) % 3


def onnx(path: Path) -> None:
    """Write a linear layer."""
    from onnx import TensorProto, helper, numpy_helper

    weights = [
        numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(4, 3) / 10, "weight"),
        numpy_helper.from_array(np.array([0.1, 0.0, -0.1], np.float32), "bias"),
    ]
    node = helper.make_node("Gemm", ["x", "weight", "bias"], ["logits"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([node], "linear", inputs, outputs, initializer=weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())


def skops(path: Path) -> None:
    """Write a pipeline of scikit-learn."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skops.io import dump

    dump(make_pipeline(StandardScaler(), LogisticRegression()).fit(INPUTS, LABELS), path)


def lightgbm(path: Path) -> None:
    """Write three small trees."""
    import lightgbm as library

    options = {"objective": "multiclass", "num_class": 3, "verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5}
    library.train(options, library.Dataset(INPUTS, LABELS), 3).save_model(path)


def xgboost(path: Path) -> None:
    """Write three small trees."""
    import xgboost as library

    options = {"objective": "multi:softprob", "num_class": 3, "nthread": 1}
    library.train(options, library.DMatrix(INPUTS, LABELS), 3).save_model(path)


FOREIGN: dict[str, Callable[[Path], None]] = {"onnx": onnx, "skops": skops, "lightgbm": lightgbm, "xgboost": xgboost}
