"""Records worked through in blocks: the same bits wherever blocks end."""

from __future__ import annotations

import numpy as np
import pytest

from audit.stats.scoring import membership, reference_fit
from audit.stats.spread import parts

WIDTHS = (1, 2, 3, 7, 50, 1000)


@pytest.mark.parametrize("records", [0, 1, 2, 3, 101])
@pytest.mark.parametrize("width", WIDTHS)
def test_blocks_cover_the_records_once_and_none_stands_alone(records: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.stats.spread.LARGEST", 4 * width)
    slices = list(parts(records, 4))
    assert [row for part in slices for row in range(part.start, part.stop)] == list(range(records))
    assert all(part.stop - part.start > 1 for part in slices) or records < 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("models", [2, 5, 40])
@pytest.mark.parametrize("variance", membership.VARIANCES)
def test_attacks_give_the_same_bits_in_blocks_of_any_size(models: int, variance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(models)
    values, target = random.normal(size=(models, 101)), random.normal(size=101)
    included = random.random((models, 101)) < 0.5
    included[:, 3], included[:, 4] = True, False  # records with one side alone
    result = set()
    for width in WIDTHS:
        monkeypatch.setattr("audit.stats.spread.LARGEST", models * width)
        figures = [
            membership.likelihood_ratio(target, values, included, variance=variance, shrink_shift=True),
            membership.deviation(target, values, included, variance=variance),
            membership.smoothed_rank(target, values, included),
            membership.log_ratio(-(target**2), -(values**2), included, online=True, offline_weight=0.3),
            *(side.squares for side in reference_fit.sides(values.astype(np.float32), included)),
        ]
        result.add(b"".join(figure.tobytes() for figure in figures))
    assert len(result) == 1
