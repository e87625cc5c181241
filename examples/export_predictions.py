"""Turn what a model of another framework said into a file that `audit model` reads. Needs numpy alone, Python 3.8 or newer.

    python export_predictions.py attack_input.npz predictions.npz      # a file with the names of TensorFlow Privacy
    audit model --target predictions.npz

Copy this file to where the model runs, or call it there: `save("predictions.npz", {"logits_train": ..., "labels_train": ...,
"logits_test": ..., "labels_test": ...})`. The names are those of TensorFlow Privacy's `AttackInputData`: `logits_`, `probs_`,
`loss_` and `labels_` with `train` for records that were trained on and `test` for others. One of logits, probabilities and
losses is written, the first that is there.
"""

import sys

import numpy as np

FORMS = {"logits": "logits", "probs": "probabilities", "loss": "losses"}
"""Names here to names in the file."""


def save(path, arrays):
    """Write the arrays of both sides as one npz without pickled objects, with `member` true for those trained on.

    Raises:
        ValueError: a side is missing, or arrays of one side have unequal lengths.
    """
    form = next((name for name in FORMS if arrays.get(name + "_train") is not None), None)
    if form is None:
        raise ValueError(f"found {', '.join(sorted(arrays))}; expected logits_train, probs_train or loss_train")
    sides = []
    for side in ("train", "test"):
        values, labels = arrays.get(form + "_" + side), arrays.get("labels_" + side)
        if values is None or (labels is None and form != "loss"):
            raise ValueError(f"{form}_{side} or labels_{side} is missing")
        if labels is not None and len(labels) != len(values):
            raise ValueError(f"{form}_{side} has {len(values)} records, labels_{side} {len(labels)}")
        sides.append((np.asarray(values, np.float64), labels))
    content = {FORMS[form]: np.concatenate([values for values, _ in sides])}
    content["member"] = np.repeat([True, False], [len(values) for values, _ in sides])
    if all(labels is not None for _, labels in sides):
        content["labels"] = np.concatenate([np.asarray(labels, np.int64).ravel() for _, labels in sides])
    np.savez(path, **content)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with np.load(sys.argv[1], allow_pickle=False) as source:
        save(sys.argv[2], dict(source))
