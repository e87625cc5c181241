"""Parts of random modules as users write them today: masks, experts, adapters, tied and checkpointed layers, wide images."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

POSITIONS, WIDTH = 4, 6


class MaskedAttention(nn.Module):
    """Attention under a causal mask, or one that each record makes of itself."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.inner, self.way = nn.MultiheadAttention(WIDTH, 2, batch_first=True, bias=way != "padding"), way
        self.register_buffer("causal", torch.ones(POSITIONS, POSITIONS).triu(1).bool())

    def forward(self, hidden: Tensor) -> Tensor:
        if self.way == "causal":
            return self.inner(hidden, hidden, hidden, attn_mask=self.causal, need_weights=False)[0]
        if self.way == "crossing":
            return self.inner(hidden, hidden.flip(1), hidden.flip(1), need_weights=False)[0]
        padding = torch.cat([torch.zeros_like(hidden[:, :1, 0], dtype=torch.bool), hidden[:, 1:, 0] > 0.5], dim=1)
        return self.inner(hidden, hidden, hidden, key_padding_mask=padding, need_weights=False)[0]


class OwnAttention(nn.Module):
    """Attention in a user's own words, by einsum or by torch's fused function."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.queries, self.rest, self.fused = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH, bias=False), fused

    def forward(self, hidden: Tensor) -> Tensor:
        heads = [part.unflatten(-1, (2, -1)) for part in (self.queries(hidden), *self.rest(hidden).chunk(2, -1))]
        if self.fused:
            own = [part.transpose(1, 2) for part in heads]
            return F.scaled_dot_product_attention(*own, is_causal=True).transpose(1, 2).flatten(2)
        queries, keys, values = heads
        shares = torch.einsum("nqhc,nkhc->nhqk", queries, keys).softmax(-1)
        return torch.einsum("nhqk,nkhc->nqhc", shares, values).flatten(2)


class Contracted(nn.Module):
    """A tensor of three axes outside of any layer, applied by einsum."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.randn(POSITIONS, WIDTH, WIDTH) * 0.5)

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.einsum("npc,pcd->npd", hidden, self.value)


class Phases(nn.Module):
    """Rotated pairs of channels: a complex buffer between real layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("phases", torch.polar(torch.ones(POSITIONS, WIDTH // 2), torch.rand(POSITIONS, WIDTH // 2)))

    def forward(self, hidden: Tensor) -> Tensor:
        pairs = torch.view_as_complex(self.layer(hidden).unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.phases).flatten(-2)


class Tied(nn.Module):
    """A layer and its transpose, used as a function."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.inner, self.both = nn.Linear(WIDTH, WIDTH), both
        self.again = self.inner if both else None

    def forward(self, hidden: Tensor) -> Tensor:
        inner = torch.tanh(self.inner(hidden))
        return self.again(inner) if self.again is not None else F.linear(inner, self.inner.weight.t())


class Checkpointed(nn.Module):
    def __init__(self, deep: bool) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(WIDTH, 9), nn.Tanh(), nn.Linear(9, WIDTH)) if deep else nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return checkpoint(self.inner, hidden, use_reentrant=False)


class Places(nn.Module):
    """Numbers that are added to each position: trained, frozen, or of a table."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.value = nn.Parameter(torch.randn(1 if way == "leading" else POSITIONS, WIDTH), requires_grad=way != "frozen")
        self.table = nn.Embedding(POSITIONS, WIDTH) if way == "table" else None
        self.scale = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        places = self.value if self.table is None else self.table(torch.arange(POSITIONS)) + self.value
        return self.scale(hidden + places)


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.down, self.up = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.base(hidden) + 0.5 * self.up(self.down(hidden))


class Experts(nn.Module):
    """Two of three experts for each position: all computed and weighted, or those that are chosen alone."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.gate, self.sparse = nn.Linear(WIDTH, 3), sparse
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, hidden: Tensor) -> Tensor:
        values, places = self.gate(hidden).topk(2, dim=-1)
        shares = torch.zeros(*hidden.shape[:-1], 3, dtype=hidden.dtype).scatter(-1, places, values.softmax(-1))
        if not self.sparse:
            return sum(shares[..., number, None] * expert(hidden) for number, expert in enumerate(self.experts))
        total = torch.zeros_like(hidden)
        for number, expert in enumerate(self.experts):
            chosen = shares[..., number] > 0
            total = total.masked_scatter(
                chosen.unsqueeze(-1), total[chosen] + shares[chosen][:, number, None] * expert(hidden[chosen])
            )
        return total


class Wide(nn.Module):
    """Convolutions of sixteen channels, which the library computes, at odd strides, and what brings their images back."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way
        self.first = nn.Conv2d(1, 16, 3, padding=1, bias=way != "bias-free")
        options = {"stride": (2, 1)} if way == "stride" else {"dilation": (1, 2)} if way == "dilation" else {}
        self.second = nn.Conv2d(
            16, 17 if way == "odd" else 16, (3, 2), padding=(1, 1), groups=16 if way == "depthwise" else 1, **options
        )
        self.norm = nn.GroupNorm(1, self.second.out_channels)

    def forward(self, hidden: Tensor) -> Tensor:
        images = torch.tanh(self.first(hidden.unsqueeze(1)))
        if self.way == "twice":
            images = self.second(images)[:, :, :, :WIDTH]
        images = self.norm(self.second(images.transpose(2, 3).transpose(2, 3)))
        return hidden + F.adaptive_avg_pool2d(images, (POSITIONS, WIDTH)).mean(1)


class Upsampled(nn.Module):
    """A transposed convolution over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ConvTranspose1d(WIDTH, WIDTH, 3, stride=2, groups=2)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.inner(hidden.transpose(1, 2))[..., :POSITIONS].transpose(1, 2)


class Dropped(nn.Module):
    """Dropout as a function, with a share of zero or in evaluation mode, behind a layer."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.inner, self.share = nn.Linear(WIDTH, WIDTH), share

    def forward(self, hidden: Tensor) -> Tensor:
        return F.dropout(self.inner(hidden), self.share, training=self.training and self.share == 0.0)


class Embedded(nn.Module):
    """Bags of tokens, with a padding token that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, WIDTH, padding_idx=0)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.table((hidden.detach().abs() * 2).long() % 5).mean(2)


PARTS: Mapping[str, Callable[[], nn.Module]] = {
    "causal attention": lambda: MaskedAttention("causal"),
    "padded attention": lambda: MaskedAttention("padding"),
    "crossing attention": lambda: MaskedAttention("crossing"),
    "attention by einsum": lambda: OwnAttention(False),
    "fused attention": lambda: OwnAttention(True),
    "einsum": Contracted,
    "phases": Phases,
    "transposed weight": lambda: Tied(False),
    "a layer twice": lambda: Tied(True),
    "checkpointed layer": lambda: Checkpointed(False),
    "checkpointed layers": lambda: Checkpointed(True),
    "places": lambda: Places("trained"),
    "leading places": lambda: Places("leading"),
    "frozen places": lambda: Places("frozen"),
    "places of a table": lambda: Places("table"),
    "adapter": Adapted,
    "experts": lambda: Experts(False),
    "chosen experts": lambda: Experts(True),
    "wide": lambda: Wide("plain"),
    "wide, stride": lambda: Wide("stride"),
    "wide, dilation": lambda: Wide("dilation"),
    "wide, odd": lambda: Wide("odd"),
    "wide, depthwise": lambda: Wide("depthwise"),
    "wide, bias-free": lambda: Wide("bias-free"),
    "wide, twice": lambda: Wide("twice"),
    "upsampled": Upsampled,
    "dropped": lambda: Dropped(0.0),
    "dropped in evaluation": lambda: Dropped(0.5),
    "embedded": Embedded,
}
