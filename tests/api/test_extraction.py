"""k-eidetic counts: a model that knows some texts by heart, against a count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from audit.api.extraction import eidetic_extraction
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.engine.text.text_generator import text_generator

PREFIX, LENGTH = 4, 3
DRAW = np.random.default_rng(0)
TEXTS = [DRAW.integers(0, 50, 12).tolist() for _ in range(30)]
TEXTS[5][PREFIX : PREFIX + LENGTH] = TEXTS[4][PREFIX : PREFIX + LENGTH]  # two texts hold one continuation
TEXTS[9][-LENGTH:] = TEXTS[8][PREFIX : PREFIX + LENGTH]  # held again, elsewhere in a text
TEXTS += [TEXTS[0][: PREFIX + 1]]  # too short to be examined


def knowing(*numbers: int, part: int = LENGTH) -> Any:
    """A model that continues with these texts as they do, for `part` tokens, and writes 99 elsewhere."""
    heads = {tuple(TEXTS[number][:PREFIX]): TEXTS[number][PREFIX : PREFIX + part] for number in numbers}

    def generate(prefixes: Array, length: int) -> Array:
        rows = [heads.get(tuple(prefix.tolist()), []) for prefix in prefixes]
        return np.array([row + [99] * (length - len(row)) for row in rows])

    return generate


def test_counts_are_those_by_hand() -> None:
    result = eidetic_extraction(knowing(0, 1, 4, 8), TEXTS, prefix=PREFIX, length=LENGTH, levels=(1, 2))
    assert [(count.texts, count.continuations, count.successes) for count in result.counts] == [(1, 27, 2), (2, 29, 4)]
    assert result.overlap == pytest.approx(4 / 30)


def test_a_part_of_a_continuation_is_overlap_and_no_extraction() -> None:
    result = eidetic_extraction(knowing(*range(30), part=2), TEXTS, prefix=PREFIX, length=LENGTH)
    assert [count.successes for count in result.counts] == [0] * len(result.counts)
    assert result.overlap == pytest.approx(2 / 3)


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(DataError, match="none of 31 texts has 40 tokens"):
        eidetic_extraction(knowing(0), TEXTS, prefix=20, length=20)
    with pytest.raises(ConfigError, match="expected 1 or more"):
        eidetic_extraction(knowing(0), TEXTS, prefix=0)
    with pytest.raises(DataError, match=r"gave continuations \(30, 1\)"):
        eidetic_extraction(lambda prefixes, length: prefixes[:, :1], TEXTS, prefix=PREFIX, length=LENGTH)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("beams", [1, 3])
def test_a_model_of_transformers_writes_what_it_learnt(beams: int) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra llm is not installed")
    torch = pytest.importorskip("torch")
    sizes = {"vocab_size": 50, "n_positions": 16, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(
        **sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None
    )
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.tensor(TEXTS[10:14])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    model.eval()
    result = eidetic_extraction(text_generator(model, beams=beams), TEXTS[10:24], prefix=PREFIX, length=LENGTH, levels=(1,))
    assert [(count.continuations, count.successes) for count in result.counts] == [(14, 4)]
