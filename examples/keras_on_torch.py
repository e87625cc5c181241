"""Audit a Keras 3 model on torch: coins decide which canaries join the data, one call attacks `model.predict`.

    pip install keras
    KERAS_BACKEND=torch python examples/keras_on_torch.py

Lines that end in `# audit` are what the audit adds to a training.
"""

from __future__ import annotations

import os

import numpy as np
from sklearn.datasets import load_digits

import audit

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # after its backend is chosen


def main() -> None:
    """Train on digits and 200 of 400 mislabelled ones, and prove a lower bound on epsilon."""
    keras.utils.set_random_seed(0)
    inputs, labels = load_digits(return_X_y=True)
    inputs = (inputs / 16).astype(np.float32)
    data = inputs[400:], labels[400:]

    x, y = inputs[:400], np.random.default_rng(1).integers(10, size=400)  # audit
    coins = audit.draw_coins(400)  # audit
    data = np.concatenate([data[0], x[coins]]), np.concatenate([data[1], y[coins]])  # audit

    model = keras.Sequential([keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(3e-3), loss=loss)
    model.fit(*data, batch_size=32, epochs=30, verbose=0)

    def predict(batch: np.ndarray) -> np.ndarray:  # audit
        return model.predict(batch, verbose=0)  # audit

    audit.check(predict, (x[coins], y[coins]), (x[~coins], y[~coins]), coins=coins)  # audit


if __name__ == "__main__":
    main()
