"""Turn what a model of another framework said into a file that `audit model` reads. Needs numpy alone, Python 3.8 or newer.

    python export_predictions.py attack_input.npz predictions.npz      # a file with the names of TensorFlow Privacy
    python export_predictions.py attack_input.npz predictions.npz metadata.json      # and what is true of the training
    audit model --target predictions.npz

Copy this file to where the model runs, or call it there: `save("predictions.npz", {"logits_train": ..., "labels_train": ...,
"logits_test": ..., "labels_test": ...})`. The names are those of TensorFlow Privacy's `AttackInputData`: `logits_`, `probs_`,
`loss_` and `labels_` with `train` for records that were trained on and `test` for others; and beside them `token_logprobs_` of
all tokens in a row with `token_offsets_`, where each record's start, and `score_`, higher for members, of an attack that ran
there (`audit scores` reads that file). One of these is written, the first that exists, with `id_` beside scores, by which
they are joined to coins, `run_` and `repetition_`, by which `audit scores --if` chooses, and `group_` beside all others, for
results of each group. What is true of the training as a whole is written as `metadata`, a JSON text (`METADATA`).
"""

import json
import sys

import numpy as np

FORMS = {"logits": "logits", "probs": "probabilities", "loss": "losses", "token_logprobs": "losses", "score": "score"}
"""Names here to names in the file."""
METADATA = ("framework", "version", "unit", "observer", "adjacency", "randomisation", "mechanism", "claimed_epsilon")
"""What is true of the training as a whole: texts, two objects (`randomisation` holds the seed of the coins or its commitment)
and a number, the epsilon that is claimed at the delta of the mechanism."""
MECHANISM = ("clip", "noise_multiplier", "sample_rate", "steps", "sampling", "delta")


def save(path, arrays, metadata=None):
    """Write the arrays of both sides as one npz without pickled objects, with `member` true for those trained on.

    Raises:
        ValueError: a side is missing, arrays of one side have unequal lengths, or `metadata` has its own keys.
    """
    form = next((name for name in FORMS if arrays.get(name + "_train") is not None), None)
    if form is None:
        raise ValueError(f"found {', '.join(sorted(arrays))}; expected one of {', '.join(name + '_train' for name in FORMS)}")
    columns = [(form, FORMS[form])]
    if form in ("logits", "probs") or arrays.get("labels_train") is not None:
        columns.append(("labels", "labels"))
    labels = ("id", "run", "repetition") if form == "score" else ("group",)
    columns += [(label, label) for label in labels if arrays.get(label + "_train") is not None]
    sides = {side: {name: column(arrays, source, side) for source, name in columns} for side in ("train", "test")}
    for side, content in sides.items():
        sizes = {name: len(values) for name, values in content.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"arrays of {side} have unequal lengths: {sizes}; expected one entry per record in each")
    content = {name: np.concatenate([side[name] for side in sides.values()]) for _, name in columns}
    content["member"] = np.repeat([True, False], [len(side[FORMS[form]]) for side in sides.values()])
    if metadata is not None:
        unknown = [key for key in metadata if key not in METADATA]
        unknown += [key for key in metadata.get("mechanism", {}) if key not in MECHANISM]
        if unknown:
            raise ValueError(f"metadata holds {', '.join(unknown)}; expected {', '.join(METADATA + MECHANISM)}")
        content["metadata"] = np.array(json.dumps({"schema": 1, **metadata}))
    np.savez(path, **content)


def column(arrays, source, side):
    """Return the array of a side: numbers, int64 classes, identifiers as text, log probabilities of tokens as a mean loss."""
    values = arrays.get(source + "_" + side)
    if values is None:
        raise ValueError(f"{source}_{side} is missing")
    if source == "labels":
        return np.asarray(values, np.int64).ravel()
    if source in ("id", "run", "repetition", "group"):
        return np.asarray(values).astype(str)
    values = np.asarray(values, np.float64)
    if source != "token_logprobs":
        return values
    starts = arrays.get("token_offsets_" + side)
    if starts is None or not len(starts) or starts[0] != 0 or np.any(np.diff(np.append(starts, len(values))) < 1):
        raise ValueError(f"token_offsets_{side} is missing or not ascending from 0; expected where each record's tokens start")
    return -np.add.reduceat(values, np.asarray(starts)) / np.diff(np.append(starts, len(values)))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    further = None
    if len(sys.argv) == 4:
        with open(sys.argv[3], encoding="utf-8") as file:
            further = json.load(file)
    with np.load(sys.argv[1], allow_pickle=False) as source:
        save(sys.argv[2], dict(source), further)
