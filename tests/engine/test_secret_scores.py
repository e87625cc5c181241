"""Secrets are scored in their context by models that write token by token; others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="the extra llm is not installed")

import transformers

from audit.core.errors import DataError, UnsupportedMechanism
from audit.engine.text.secret_scores import (
    SecretFinder,
    count_places,
    secret_log_probabilities,
    secret_tokens,
    text_scores,
)
from audit.engine.text.text_generator import text_generator

SIZES = {"vocab_size": 257, "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
SMALL = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
SMALL |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
BERT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
T5 = {"d_model": 8, "d_ff": 8, "d_kv": 4, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
GPT = {**SIZES, "n_embd": 8, "n_layer": 1, "n_head": 2, "pad_token_id": None}
PIECES = [("a box ", "4711", "!"), ("another box ", "0815", "!"), ("a", "12", "")]


def encode(text: str) -> list[int]:
    return list(text.encode())


def gpt() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=64, initializer_range=0.5, **SIZES)
    return transformers.GPT2LMHeadModel(config).eval()


def test_a_secret_is_scored_behind_what_is_before_it_and_without_what_follows() -> None:
    module = gpt()
    values = secret_log_probabilities(module, encode, PIECES)
    for (before, secret, after), value in zip(PIECES, values, strict=True):
        ids = torch.tensor([encode(before + secret + after)])
        logs = torch.log_softmax(module(input_ids=ids).logits[0], -1)
        expected_value = sum(float(logs[at - 1, ids[0, at]]) for at in range(len(before), len(before) + len(secret)))
        assert value == pytest.approx(expected_value, abs=1e-4)
    ends = secret_tokens(lambda text: [*text.encode(), 256], ("ab ", "ab 12"))
    assert ends.secret == list(b"12"), "the token that ends every text is none of the secret's"


def test_standardised_scores_are_those_of_the_whole_vocabulary() -> None:
    module = gpt()
    ((expected_value, standardised),) = text_scores(module, encode, [("", "some text")])
    logs = torch.log_softmax(module(input_ids=torch.tensor([encode("some text")])).logits[0, :-1].detach(), -1).double()
    mean = (logs.exp() * logs).sum(-1)
    deviation = ((logs.exp() * logs.square()).sum(-1) - mean.square()).sqrt()
    np.testing.assert_allclose(standardised, (torch.tensor(expected_value) - mean) / deviation, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lambda: transformers.BartForConditionalGeneration(transformers.BartConfig(**SMALL, **SIZES)), "Bart.*with a decoder"),
        (lambda: transformers.T5ForConditionalGeneration(transformers.T5Config(**T5, **SIZES)), "T5.*with a decoder"),
        (lambda: transformers.BertForMaskedLM(transformers.BertConfig(**BERT, **SIZES)), "BertForMaskedLM.*later tokens"),
        (lambda: transformers.BertForSequenceClassification(transformers.BertConfig(**BERT, **SIZES)), "as a classifier"),
        (lambda: transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**GPT)), "as a classifier"),
        (lambda: transformers.GPT2ForTokenClassification(transformers.GPT2Config(**GPT, num_labels=9)), "as a classifier"),
    ],
    ids=["bart", "t5", "masked", "classifier", "classifier without padding", "labels of tokens"],
)
def test_models_that_do_not_write_token_by_token_are_refused_by_name(module: Any, message: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(UnsupportedMechanism, match=message):
        secret_log_probabilities(module(), encode, PIECES)


def test_secrets_of_merged_digits_are_told_apart_by_their_first_token() -> None:
    finder = SecretFinder([[7, 1, 2], [8, 1, 2], [9, 3]])
    rows = [{"input_ids": [5, 8, 1, 2, 5]}, {"input_ids": [5, 5, 9, 3]}]
    assert [count for count, _ in count_places(rows, finder, 3)] == [0, 1, 1]
    assert list(finder.places([6, 1, 2])) == [], "a joined first token that fits two secrets is neither"
    assert list(SecretFinder([[7, 1, 2], [8, 1]]).places([6, 7, 1, 2])) == [(0, 4)], "one secret's end inside another one"
    assert list(SecretFinder([[7, 1, 2], [8, 3]]).places([6, 3, 8, 3])) == [(1, 4)], "one token is in many a number"
    with pytest.raises(DataError, match="the same tokens"):
        SecretFinder([[1, 2], [1, 2]])


def test_greedy_is_the_likeliest_token_whatever_the_model_s_settings_say() -> None:
    module, prefix = gpt(), np.array([[5, 6, 7]])
    plain = text_generator(module)(prefix, 12)
    module.generation_config.repetition_penalty, module.generation_config.no_repeat_ngram_size = 5.0, 1
    module.generation_config.eos_token_id = int(plain[0, 3])
    module.train()
    np.testing.assert_array_equal(text_generator(module)(prefix, 12), plain)
    assert module.generation_config.repetition_penalty == 5.0 and module.training
