"""Eight more kinds of model behind a loss of the user's: the AUC of an own computation, and wrong returns by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import audit
from audit.core.claims import Outcome
from audit.core.data import Array
from audit.core.errors import AuditError

Records = Any
Family = tuple[Records, Records, Callable[[Any], Any], Array, Array]  # both sides, the loss, and own losses of both


def forecast() -> Family:
    """Return an autoregression of order 8 on 40 short series, each forecast at its last ten places."""
    random = np.random.default_rng(1)
    series = np.cumsum(random.normal(size=(80, 20)), axis=1).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(series, 9, axis=1)
    known = windows[:40].reshape(-1, 9)
    weights = np.linalg.lstsq(known[:, :8], known[:, 8], rcond=None)[0]

    def loss_of(rows: Any) -> Any:
        parts = np.lib.stride_tricks.sliding_window_view(np.asarray(rows), 9, axis=1)
        return ((parts[..., :8] @ weights - parts[..., 8]) ** 2).mean(axis=1)

    own = np.array([np.mean([(row[t - 8 : t] @ weights - row[t]) ** 2 for t in range(8, 20)]) for row in series])
    return series[:40], series[40:], loss_of, own[:40], own[40:]


def mixture() -> Family:
    from scipy.stats import multivariate_normal
    from sklearn.mixture import GaussianMixture

    points = np.random.default_rng(2).normal(size=(160, 4))
    model = GaussianMixture(12, random_state=0, reg_covar=1e-3).fit(points[:80])
    densities = sum(
        weight * multivariate_normal(mean, cov).pdf(points)
        for weight, mean, cov in zip(model.weights_, model.means_, model.covariances_, strict=True)
    )
    own = -np.log(densities)
    return points[:80], points[80:], lambda rows: -model.score_samples(rows), own[:80], own[80:]


def hidden_states() -> Family:
    """Return a hidden Markov model of three states whose emissions were counted on the members, beside random states."""
    random = np.random.default_rng(3)
    words = random.integers(0, 30, (100, 12))
    states = random.integers(0, 3, (50, 12))
    emissions, moves = np.full((3, 30), 0.05), np.full((3, 3), 0.1)
    np.add.at(emissions, (states, words[:50]), 1)
    np.add.at(moves, (states[:, :-1], states[:, 1:]), 1)
    emissions, moves = emissions / emissions.sum(1, keepdims=True), moves / moves.sum(1, keepdims=True)

    def loss_of(rows: Any) -> list[float]:
        losses = []
        for row in rows:
            belief, total = np.full(3, 1 / 3), 0.0
            for word in row:
                belief = belief * emissions[:, word]
                total -= np.log(belief.sum())
                belief = belief / belief.sum() @ moves
            losses.append(float(total))
        return losses

    own = []
    for row in words:  # the same sum by matrices
        product = np.full(3, 1 / 3)
        for place, word in enumerate(row):
            product = product @ np.diag(emissions[:, word]) @ (moves if place < 11 else np.eye(3))
        own.append(-np.log(product.sum()))
    return words[:50].tolist(), words[50:].tolist(), loss_of, np.array(own[:50]), np.array(own[50:])


def recommend() -> Family:
    """Return factors of rank 6 for 40 users and 30 items by alternating least squares."""
    random = np.random.default_rng(4)
    pairs = random.permutation(1200)[:600]
    users, items, ratings = pairs // 30, pairs % 30, random.integers(1, 6, 600).astype(float)
    left, right = random.normal(size=(40, 6)), random.normal(size=(30, 6))
    for _ in range(10):
        for own, other, mine, theirs in ((left, right, users, items), (right, left, items, users)):
            for row in range(len(own)):
                known = np.flatnonzero(mine[:300] == row)
                part = other[theirs[known]]
                own[row] = np.linalg.solve(part.T @ part + 0.3 * np.eye(6), part.T @ ratings[known])
    table = left @ right.T

    def loss_of(batch: Any) -> Any:
        return (table[batch["user"], batch["item"]] - batch["rating"]) ** 2

    sides = [{"user": users[part], "item": items[part], "rating": ratings[part]} for part in (slice(300), slice(300, None))]
    errors = np.array([(left[u] @ right[i] - r) ** 2 for u, i, r in zip(users, items, ratings, strict=True)])
    return sides[0], sides[1], loss_of, errors[:300], errors[300:]


def train(module: nn.Module, loss: Callable[[], torch.Tensor], steps: int) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    module.eval()


def segment() -> Family:
    torch.manual_seed(5)
    images, masks = torch.randn(80, 3, 8, 8), torch.randint(0, 3, (80, 8, 8))
    module = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 3, 3, padding=1))
    train(module, lambda: nn.functional.cross_entropy(module(images[:40]), masks[:40]), 150)

    def loss_of(batch: Any) -> torch.Tensor:
        pictures, truths = batch
        return nn.functional.cross_entropy(module(pictures), truths, reduction="none").mean((1, 2))

    with torch.no_grad():
        shares = module(images).softmax(1).numpy()
    own = -np.log(np.take_along_axis(shares, masks.numpy()[:, None], 1)).mean((1, 2, 3))
    return (images[:40], masks[:40]), (images[40:], masks[40:]), loss_of, own[:40], own[40:]


def contrast() -> Family:
    torch.manual_seed(6)
    views = torch.randn(80, 2, 10)
    negatives = torch.randn(64, 10)
    module = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 16))

    def losses(pair: torch.Tensor) -> torch.Tensor:
        first, second, others = (nn.functional.normalize(module(part), dim=1) for part in (pair[:, 0], pair[:, 1], negatives))
        near = (first * second).sum(1, keepdim=True) / 0.2
        return -torch.log_softmax(torch.cat([near, first @ others.T / 0.2], 1), 1)[:, 0]

    train(module, lambda: losses(views[:40]).mean(), 100)
    with torch.no_grad():
        first, second, others = (module(part).double().numpy() for part in (views[:, 0], views[:, 1], negatives))
    first, second, others = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (first, second, others))
    near = np.exp(5 * (first * second).sum(1))
    own = -np.log(near / (near + np.exp(5 * first @ others.T).sum(1)))
    return views[:40], views[40:], losses, own[:40], own[40:]


def quantile() -> Family:
    from sklearn.ensemble import GradientBoostingRegressor

    random = np.random.default_rng(7)
    x = random.normal(size=(300, 3))
    y = x[:, 0] + random.normal(size=300)
    model = GradientBoostingRegressor(loss="quantile", alpha=0.9, n_estimators=200, max_depth=4, random_state=0)
    model.fit(x[:150], y[:150])

    def loss_of(batch: Any) -> Any:
        inputs, truths = batch
        errors = truths - model.predict(inputs)
        return np.maximum(0.9 * errors, -0.1 * errors)

    own = np.array([0.9 * e if e > 0 else -0.1 * e for e in y - model.predict(x)])
    return (x[:150], y[:150]), (x[150:], y[150:]), loss_of, own[:150], own[150:]


def events() -> Family:
    """Return a point process with a rate in each of 12 hours that belongs to a place, fitted on the members' times."""
    random = np.random.default_rng(8)
    times = [{"place": place % 10, "times": np.sort(random.uniform(0, 12, random.integers(3, 12)))} for place in range(120)]
    counts = np.full((10, 12), 0.3)
    for record in times[:60]:
        np.add.at(counts, (record["place"], record["times"].astype(int)), 1)
    rates = counts / 6

    def loss_of(records: Any) -> Any:
        return [rates[r["place"]].sum() - np.log(rates[r["place"], r["times"].astype(int)]).sum() for r in records]

    own = [sum(rates[r["place"]]) - sum(np.log(rates[r["place"]][int(t)]) for t in r["times"]) for r in times]
    return times[:60], times[60:], loss_of, np.array(own[:60]), np.array(own[60:])


FAMILIES = (forecast, mixture, hidden_states, recommend, segment, contrast, quantile, events)


def numbers(values: Any) -> Array:
    return np.asarray(values.detach() if isinstance(values, torch.Tensor) else values, dtype=np.float64)


WRONG: dict[str, Callable[[Array], Any]] = {
    "the mean": np.mean,
    "a mean each": lambda values: np.full(len(values), values.mean()),
    "one too few": lambda values: values[:-1],
    "a matrix": lambda values: np.stack([values, values], axis=1),
    "NaN": lambda values: np.where(np.arange(len(values)) == 2, np.nan, values),
    "infinite": lambda values: np.where(np.arange(len(values)) == 2, np.inf, values),
    "nothing": lambda values: None,
    "texts": lambda values: [f"{value:.3f}" for value in values],
    "complex": lambda values: values + 0j,
    "an exception": lambda values: values[10_000],
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_auc_is_that_of_own_losses_and_wrong_returns_are_named(family: Callable[[], Family]) -> None:
    members, nonmembers, loss_of, inside, outside = family()
    pairs = inside[:, None] - outside[None]
    expected = float((pairs < 0).mean() + (pairs == 0).mean() / 2)
    result = audit.check(loss_of=loss_of, members=members, nonmembers=nonmembers, quiet=True)
    loss = next(attack for attack in result.attacks if attack.attack == "loss")
    assert loss.auc == pytest.approx(expected, abs=2e-3)
    assert expected > 0.55, "the family leaks"
    assert result.report.outcome is None

    def score_of(batch: Any) -> Array:
        return -numbers(loss_of(batch))

    swapped = audit.check(loss_of=score_of, members=members, nonmembers=nonmembers, quiet=True)
    is_loud = swapped.report.outcome is Outcome.INVALID or "Look first" in str(swapped)
    assert is_loud or expected < 0.65, "a weak leak with the other sign lies within chance"
    silent = []
    for name, wrong in WRONG.items():

        def wrong_of(batch: Any, wrong: Callable[[Array], Any] = wrong) -> Any:
            return wrong(numbers(loss_of(batch)))

        try:
            audit.check(loss_of=wrong_of, members=members, nonmembers=nonmembers, quiet=True)
            silent.append(name)
        except AuditError as error:
            if "loss_of (" not in str(error) or "wrong_of" not in str(error):
                silent.append(f"{name}: {error}")
    assert silent == []
