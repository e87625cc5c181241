"""`nn.MultiheadAttention` of N models: two linear layers that the tape records, and what is between them."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from audit.engine.layers.layers import LinearLayer, Tape
from audit.engine.layers.parameter_facts import ParameterOwner, UncoveredUse
from audit.engine.parameter_layout import Slot


def covers(plain: nn.MultiheadAttention) -> bool:
    """True if `AttentionLayer` does what `plain` does, as far as the layer's attributes show.

    Records have to come first, as they do everywhere in an ensemble.
    """
    extra = plain.bias_k is not None or plain.bias_v is not None or plain.add_zero_attn
    return plain.batch_first and plain._qkv_same_embed_dim and not extra and plain.dropout == 0.0


class AttentionLayer(ParameterOwner):
    """Attention of N models, for a layer that is `covers`-ed; without a batch axis it is an `UncoveredUse`."""

    in_proj_bias = None  # tells torch's encoder layers to call this layer in their own place fused kernel

    def __init__(
        self, plain: nn.MultiheadAttention, tape: Tape, values: Mapping[str, Tensor], slots: Mapping[str, Slot]
    ) -> None:
        super().__init__(values, slots)
        self.num_heads, self.batch_first = plain.num_heads, True
        self._qkv_same_embed_dim = True
        self.project = LinearLayer.inside("in_proj_{}", tape, values, slots)
        self.out_proj = LinearLayer.inside("out_proj.{}", tape, values, slots)

    def forward(  # noqa: PLR0917 (torch's own)
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The signature of `nn.MultiheadAttention`; `is_causal` is a hint about `attn_mask` that is not needed."""
        if query.dim() != 3:
            raise UncoveredUse("attention without a batch axis")
        sources = {id(source): source for source in (query, key, value)}
        projections = {
            name: self.project(source).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
            for name, source in sources.items()
        }
        parts = [projections[id(source)][place] for place, source in enumerate((query, key, value))]
        scores = parts[0] @ parts[1].transpose(2, 3) / math.sqrt(parts[0].shape[-1])
        if attn_mask is not None:
            wide = attn_mask if attn_mask.dim() == 2 else attn_mask.unflatten(0, (-1, self.num_heads))
            scores = scores + _additive_mask(wide, scores.dtype)
        if key_padding_mask is not None:
            scores = scores + _additive_mask(key_padding_mask, scores.dtype)[:, None, None]
        weights = torch.softmax(scores, dim=-1)
        context = self.out_proj((weights @ parts[2]).transpose(1, 2).flatten(2))
        if not need_weights:
            return context, None
        return context, weights.mean(1) if average_attn_weights else weights


def _additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to the scores: a mask of numbers as it is, one of truths as -inf if nothing may be seen."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(mask, -math.inf)
