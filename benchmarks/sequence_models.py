"""Models as users write them, on the rows of an image: a GPT with looked-up positions, blocks of LLaMA, a GRU, a bare scan."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Causal attention with one linear layer for queries, keys and values."""

    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.inwards, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)

    def forward(self, hidden: Tensor) -> Tensor:
        parts = self.inwards(hidden).chunk(3, -1)
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        mask = torch.full((hidden.shape[1],) * 2, float("-inf"), device=hidden.device).triu(1)
        shares = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask, -1)
        mixed: Tensor = self.out((shares @ value).transpose(1, 2).flatten(2))
        return mixed


class MinGpt(nn.Module):
    """Two blocks with LayerNorm and GELU; `nn.Embedding` of `torch.arange(28)` are the positions."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.embed, self.place, self.head = nn.Linear(28, width), nn.Embedding(28, width), nn.Linear(width, 10)
        self.attention = nn.ModuleList(Attention(width, heads, True) for _ in range(2))
        self.wide = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.embed(images.squeeze(1)) + self.place(torch.arange(28, device=images.device))
        for number, (attention, wide) in enumerate(zip(self.attention, self.wide, strict=True)):
            hidden = hidden + attention(self.norms[2 * number](hidden))
            hidden = hidden + wide(self.norms[2 * number + 1](hidden))
        scores: Tensor = self.head(self.norms[4](hidden)[:, -1])
        return scores


class SwiGlu(nn.Module):
    """LLaMA's wide layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in [(width, 172), (width, 172), (172, width)])

    def forward(self, hidden: Tensor) -> Tensor:
        narrowed: Tensor = self.down(F.silu(self.gate(hidden)) * self.up(hidden))
        return narrowed


class Llama(nn.Module):
    """Two blocks with RMSNorm and SwiGLU, without biases."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(28, width, bias=False), nn.Linear(width, 10, bias=False)
        self.attention = nn.ModuleList(Attention(width, heads, False) for _ in range(2))
        self.wide = nn.ModuleList(SwiGlu(width) for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(5))

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.embed(images.squeeze(1))
        for number, (attention, wide) in enumerate(zip(self.attention, self.wide, strict=True)):
            hidden = hidden + attention(self.norms[2 * number](hidden))
            hidden = hidden + wide(self.norms[2 * number + 1](hidden))
        scores: Tensor = self.head(self.norms[4](hidden).mean(1))
        return scores


class Gru(nn.Module):
    """A GRU of two linear layers, written as a loop over times; ours trains `nn.GRU` alike, which neither peer can."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.input_gates, self.state_gates, self.head, self.width = (
            nn.Linear(28, 3 * width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, 10),
            width,
        )

    def forward(self, images: Tensor) -> Tensor:
        rows = self.input_gates(images.squeeze(1))
        state = rows.new_zeros(len(rows), self.width)
        for time in range(28):
            reset, update, new = rows[:, time].chunk(3, -1)
            old_reset, old_update, old_new = self.state_gates(state).chunk(3, -1)
            candidate = torch.tanh(new + torch.sigmoid(reset + old_reset) * old_new)
            share = torch.sigmoid(update + old_update)
            state = (1 - share) * candidate + share * state
        scores: Tensor = self.head(state)
        return scores


class Scan(nn.Module):
    """A recurrence of bare parameters."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.inward, self.onward = nn.Parameter(0.1 * torch.randn(28, width)), nn.Parameter(0.1 * torch.randn(width, width))
        self.shift, self.head = nn.Parameter(torch.zeros(width)), nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        rows = images.squeeze(1) @ self.inward
        state = rows.new_zeros(len(rows), rows.shape[-1])
        for time in range(28):
            state = torch.tanh(rows[:, time] + state @ self.onward + self.shift)
        scores: Tensor = self.head(state)
        return scores
