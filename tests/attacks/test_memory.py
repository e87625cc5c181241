"""Every array-only attack on 50,000 records and 64 references keeps the promise of memory; the time is a benchmark's."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from audit import plugins
from audit.core.seeds import Seed
from audit.core.views import View

RECORDS, REFERENCES, CLASSES = 50_000, 64, 10


def views(seed: int = 0) -> tuple[View, View]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, RECORDS)
    included = random.random((REFERENCES + 1, RECORDS)) < 0.5
    logits = np.empty((REFERENCES + 1, RECORDS, CLASSES), dtype=np.float32)
    for model, coins in zip(logits, included, strict=True):
        model[:] = random.standard_normal(model.shape)
        model[np.arange(RECORDS), labels] += 3 + 1.5 * coins
    norms = random.random((REFERENCES + 1, RECORDS), dtype=np.float32)
    fitting = random.random((REFERENCES + 1, RECORDS, 8), dtype=np.float32)
    lengths = ("gradient_norms", "last_gradient_norms", "class_distances", "boundary_distances_300")
    signals = {
        "logits": logits,
        "predicted_labels": logits.argmax(-1)[:, None],
        "loss_trajectory": fitting,
        **dict.fromkeys(lengths, norms),
    }
    ours, theirs = ({name: signal[part] for name, signal in signals.items()} for part in (0, slice(1, None)))
    return View.of(labels=labels, **ours), View.of(included=included[1:], **theirs)


@pytest.mark.slow
def test_all_attacks_in_four_gigabytes() -> None:
    target, reference = views()
    tried: list[str] = []
    for name in plugins.names("attacks.scorers"):
        attack = plugins.build("attacks.scorers", {"kind": name})
        if any(signal.key not in target.signals for signal in attack.needs.signals):
            continue  # it reads texts, groups or gradient canaries, of which there are hundreds
        tried.append(name)
        scores = attack.score(target, reference, Seed(0))
        assert scores.shape == (RECORDS,), name
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 * 2**20, "peak memory in KiB"
    assert {"auto", "boundary", "learned_combination", "lira", "rmia", "trajectory", "white_box_classifier"} <= set(tried)
