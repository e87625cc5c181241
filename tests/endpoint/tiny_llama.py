"""A table of next characters, written as a LLaMA in GGUF: what a real server answers can be compared with the table itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHARACTERS = "".join(chr(code) for code in range(33, 127))
SPACE = "\u2581"  # SentencePiece's mark for a space
SPECIAL = ("<unk>", "<s>", "</s>")
TOKENS = (*SPECIAL, *(f"<0x{byte:02X}>" for byte in range(256)), SPACE, *CHARACTERS)
FIRST_CHARACTER = TOKENS.index(SPACE)
UNKNOWN, CONTROL, BYTE, NORMAL = 2, 3, 6, 1
KINDS = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (1 + len(CHARACTERS))
WIDTH = 384  # a place for each token and some idle ones: a number that heads divide
HEADS, FEED = 4, 32


def number(character: str) -> int:
    """Return a character's token."""
    return TOKENS.index(SPACE if character == " " else character)


def random_table(seed: int) -> NDArray[np.float64]:
    """Return logits of the next token, a row for each token before it, in which only characters are likely."""
    table = np.random.default_rng(seed).normal(0, 2, (len(TOKENS), len(TOKENS)))
    table[:, :FIRST_CHARACTER] = -20.0
    return table


def log_probability(table: NDArray[np.float64], text: str, start: int) -> float:
    """Return the log-probability of the characters from `start` on, each behind the one before it."""
    total = 0.0
    for before, after in zip(text[start - 1 : -1], text[start:], strict=True):
        row = table[number(before)]
        total += row[number(after)] - np.logaddexp.reduce(row)
    return float(total)


def write(place: Path, table: NDArray[np.float64]) -> None:
    """Write the model with logits behind a token that are the token's row of the table.

    Each token's embedding is its own direction and the layer between adds nothing, so the last matrix is the table.
    """
    from gguf import GGUFWriter

    file = GGUFWriter(place, "llama")
    _write_settings(file)
    embedding, output = (np.zeros((len(TOKENS), WIDTH), dtype=np.float32) for _ in range(2))
    np.fill_diagonal(embedding, np.sqrt(WIDTH))
    output[:, : len(TOKENS)] = table.T / np.sqrt(WIDTH)  # the norm before it makes the one entry sqrt(WIDTH)
    tensors = {"token_embd": embedding, "output": output}
    tensors |= {name: np.ones(WIDTH, dtype=np.float32) for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm")}
    shapes = {f"attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
    shapes |= {"ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH), "ffn_down": (WIDTH, FEED)}
    tensors |= {f"blk.0.{name}": np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
    for name, tensor in tensors.items():
        file.add_tensor(f"{name}.weight", tensor)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _write_settings(file: Any) -> None:
    file.add_context_length(512)
    file.add_embedding_length(WIDTH)
    file.add_block_count(1)
    file.add_feed_forward_length(FEED)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_vocab_size(len(TOKENS))
    file.add_tokenizer_model("llama")
    file.add_token_list(list(TOKENS))
    file.add_token_scores([0.0] * len(TOKENS))
    file.add_token_types(KINDS)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    file.add_add_space_prefix(False)
