"""How a causal model of transformers continues texts."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.engine.device import switched

_ROWS = 16  # prefixes that a model continues at once


def text_generator(module: Any, *, beams: int = 1) -> Callable[[Array, int], Array]:
    """Return how a model continues prefixes `(n, p)` by so many tokens: greedily, or by the best of so many beams.

    Of the model's own generation_config nothing is obeyed, neither penalties nor the token that ends texts: with them the
    likeliest token is not taken. `ConfigError` for fewer than one beam.
    """
    if beams < 1:
        raise ConfigError(f"beams is {beams}; expected at least 1")

    def generate(prefixes: Array, length: int) -> Array:
        device = next(module.parameters()).device
        parts = []
        for start in range(0, len(prefixes), _ROWS):
            tokens = torch.from_numpy(prefixes[start : start + _ROWS]).to(device)
            options = {"max_new_tokens": length, "do_sample": False, "num_beams": beams}
            mask = torch.ones_like(tokens)
            with _without_settings(module):
                texts = module.generate(tokens, attention_mask=mask, pad_token_id=0, **options)
            parts.append(texts[:, tokens.shape[1] :].cpu())
        return np.asarray(torch.cat(parts).numpy())

    return generate


def _without_settings(module: Any) -> AbstractContextManager[None]:
    bare = module.get_base_model() if hasattr(module, "get_base_model") else module
    modes = [(layer, "training", False) for layer in module.modules()]  # dropout would draw
    return switched([(bare, "generation_config", type(bare.generation_config)()), *modes])
