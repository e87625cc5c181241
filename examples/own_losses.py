"""Eight kinds of model, each audited by its own loss: `audit.check(loss_of=..., members=..., nonmembers=...)`.

Each function trains a small model on half of its records and returns what the call takes. Run it with the name of a kind, such
as `python examples/own_losses.py graph`, or without one for all eight.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

import audit

COUNT = 60  # of members, and of nonmembers
STEPS = 150

Case = tuple[Callable[[Any], torch.Tensor], Any, Any]
"""`loss_of`, members, nonmembers."""


def train(model: torch.nn.Module, batch_loss: Callable[[], torch.Tensor]) -> None:
    """Take Adam's steps on one loss and leave the model in evaluation mode."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(STEPS):
        optimizer.zero_grad()
        batch_loss().backward()
        optimizer.step()
    model.eval()


def mlp(*widths: int) -> torch.nn.Sequential:
    """Return linear layers with ReLU between them."""
    layers: list[torch.nn.Module] = []
    for first, second in itertools.pairwise(widths):
        layers += [torch.nn.Linear(first, second), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def graph() -> Case:
    """Graphs of several sizes: a batch is a list of records."""
    model = torch.nn.ModuleList([torch.nn.Linear(4, 64), mlp(64, 64, 2)])

    def draw() -> dict[str, torch.Tensor]:
        nodes = int(torch.randint(3, 8, ()))
        edges = (torch.rand(nodes, nodes) < 0.5).float()
        return {"x": torch.randn(nodes, 4), "edges": edges, "y": torch.randint(0, 2, ())}

    def logits(record: dict[str, torch.Tensor]) -> torch.Tensor:
        nodes = torch.relu(model[0](record["x"] + record["edges"] @ record["x"]))
        return torch.as_tensor(model[1](nodes.mean(0)))

    def loss_of(batch: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        scores, labels = torch.stack([logits(record) for record in batch]), torch.stack([record["y"] for record in batch])
        return functional.cross_entropy(scores, labels, reduction="none")

    members, nonmembers = ([draw() for _ in range(COUNT)] for _ in range(2))
    train(model, lambda: loss_of(members).mean())
    return loss_of, members, nonmembers


def segmentation_mask() -> Case:
    """Images and masks (n, H, W): the mean over pixels is one number a record."""
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 2, 3, padding=1))
    images, masks = torch.randn(2 * COUNT, 1, 6, 6), torch.randint(0, 2, (2 * COUNT, 6, 6))

    def loss_of(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        image, mask = batch
        return functional.cross_entropy(model(image), mask, reduction="none").mean((1, 2))

    train(model, lambda: loss_of((images[:COUNT], masks[:COUNT])).mean())
    return loss_of, (images[:COUNT], masks[:COUNT]), (images[COUNT:], masks[COUNT:])


def diffusion() -> Case:
    """A denoiser: the loss is averaged over the same draws of noise for every record."""
    model, records = mlp(9, 128, 8), torch.randn(2 * COUNT, 8)
    noises, times = torch.randn(8, 8), torch.linspace(0.1, 0.9, 8)

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        losses = []
        for noise, time in zip(noises, times, strict=True):
            noisy = (1 - time).sqrt() * batch + time.sqrt() * noise
            guess = model(torch.cat([noisy, time.expand(len(batch), 1)], 1))
            losses.append((guess - noise).square().mean(1))
        return torch.stack(losses).mean(0)

    train(model, lambda: loss_of(records[:COUNT]).mean())
    return loss_of, records[:COUNT], records[COUNT:]


def vae() -> Case:
    """A variational autoencoder: minus the evidence lower bound at the mean of the code."""
    encoder, decoder, records = mlp(8, 64, 8), mlp(4, 64, 8), torch.randn(2 * COUNT, 8)

    def loss_of(batch: torch.Tensor, noise: float = 0.0) -> torch.Tensor:
        mean, log_variance = encoder(batch).chunk(2, 1)
        code = mean + noise * torch.randn_like(mean) * (log_variance / 2).exp()
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        return (decoder(code) - batch).square().sum(1) * 10 + divergence

    train(torch.nn.ModuleList([encoder, decoder]), lambda: loss_of(records[:COUNT], 1.0).mean())
    return loss_of, records[:COUNT], records[COUNT:]


def survival() -> Case:
    """Times that may be censored, a dictionary of arrays: minus the log-likelihood of an exponential time (may be negative)."""
    model = mlp(5, 128, 1)
    table = {"x": torch.randn(2 * COUNT, 5), "time": torch.rand(2 * COUNT) * 2, "event": (torch.rand(2 * COUNT) < 0.7).float()}

    def loss_of(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        log_rate = model(batch["x"])[:, 0]
        return log_rate.exp() * batch["time"] - batch["event"] * log_rate

    members, nonmembers = ({key: value[rows] for key, value in table.items()} for rows in (slice(COUNT), slice(COUNT, None)))
    train(model, lambda: loss_of(members).mean())
    return loss_of, members, nonmembers


def contrastive_encoder() -> Case:
    """Pairs of views: negatives are fixed, so that no record's loss depends on which others share its batch."""
    encoder, records, negatives = mlp(8, 64, 16), torch.randn(2 * COUNT, 8), torch.randn(40, 8)
    views = records + 0.5 * torch.randn(2 * COUNT, 8)

    def loss_of(batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        first, second, others = (functional.normalize(encoder(x), dim=1) for x in (*batch, negatives))
        scores = torch.cat([(first * second).sum(1, keepdim=True), first @ others.T], 1) / 0.2
        return functional.cross_entropy(scores, torch.zeros(len(first), dtype=torch.long), reduction="none")

    train(encoder, lambda: loss_of((records[:COUNT], views[:COUNT])).mean())
    return loss_of, (records[:COUNT], views[:COUNT]), (records[COUNT:], views[COUNT:])


def recommender() -> Case:
    """Pairs of a user and an item, each once: the squared error of the rating."""
    users, items = torch.nn.Embedding(12, 8), torch.nn.Embedding(10, 8)
    pairs = torch.randperm(120)
    table = {"user": pairs // 10, "item": pairs % 10, "rating": torch.randn(120)}

    def loss_of(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return ((users(batch["user"]) * items(batch["item"])).sum(1) - batch["rating"]).square()

    members, nonmembers = ({key: value[rows] for key, value in table.items()} for rows in (slice(60), slice(60, None)))
    train(torch.nn.ModuleList([users, items]), lambda: loss_of(members).mean())
    return loss_of, members, nonmembers


def language_model() -> Case:
    """Sequences of tokens: the mean loss of the next token."""
    embed, recurrent, head = torch.nn.Embedding(12, 32), torch.nn.GRU(32, 64, batch_first=True), torch.nn.Linear(64, 12)
    tokens = torch.randint(0, 12, (2 * COUNT, 9))

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        logits = head(recurrent(embed(batch[:, :-1]))[0])
        return functional.cross_entropy(logits.transpose(1, 2), batch[:, 1:], reduction="none").mean(1)

    train(torch.nn.ModuleList([embed, recurrent, head]), lambda: loss_of(tokens[:COUNT]).mean())
    return loss_of, tokens[:COUNT], tokens[COUNT:]


KINDS = (graph, segmentation_mask, diffusion, vae, survival, contrastive_encoder, recommender, language_model)


def main() -> None:
    """Audit the kinds that the command line names, or all."""
    for kind in KINDS:
        if kind.__name__ in sys.argv[1:] or not sys.argv[1:]:
            torch.manual_seed(0)
            loss_of, members, nonmembers = kind()
            print(kind.__name__)
            audit.check(loss_of=loss_of, members=members, nonmembers=nonmembers)


if __name__ == "__main__":
    main()
