"""The first guard: can members be told from nonmembers without the model? Then attack figures are not leakage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.records import Array
from audit.core.results import Check, Status
from audit.core.seeds import Seed

SIGNIFICANCE = 0.01
LARGEST_SIDE = 2000
FEWEST = 20
COMPONENTS = 64
PERMUTATIONS = 1999


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What the blind classifiers found.

    Attributes:
        auc: of the better classifier on records it was not fitted on, or None where there were too few records.
        p_value: that split halves of exchangeable records look as different as these.
    """

    auc: float | None
    p_value: float

    @property
    def biased(self) -> bool:
        """True where members and nonmembers differ before any model is asked."""
        return self.p_value < SIGNIFICANCE

    @property
    def check(self) -> Check:
        """The row in the assumptions table."""
        item = "Blind classifier on the inputs"
        if self.auc is None:
            value = f"not run: it needs inputs and at least {FEWEST} records on each side"
            return Check(code="blind", item=item, value=value, status=Status.GAP)
        found = f"AUC {self.auc:.3f}, p = {self.p_value:.2g}, tested at {SIGNIFICANCE:.0%}"
        if self.biased:
            value = f"{found}: inputs alone tell members from nonmembers"
            return Check(code="blind", item=item, value=value, status=Status.FAILED)
        value = f"{found}: inputs alone do not tell members from nonmembers"
        return Check(code="blind", item=item, value=value, status=Status.CHECKED)


NOT_RUN = Guard(auc=None, p_value=1.0)


def guard(inputs: Array, labels: Array | None, included: Array, seed: Seed) -> Guard:
    """Whether inputs (and labels) alone tell members from nonmembers.

    Guarantee: where members and nonmembers are exchangeable, `biased` is True with probability at most `SIGNIFICANCE`.
        Features do not depend on membership; each of two classifiers is fitted on one half and its scores on the other
        half are tested by a permutation test of the rank sum, both ways round. Twice the mean of two p-values is a
        p-value whatever their dependence (Vovk and Wang 2020, arXiv 1212.4966), and two classifiers double it again.

    Args:
        inputs: `(n, ...)`.
        labels: `(n,)` classes, or None.
        included: `(n,)` bool.
    """
    generator = seed.child("blind").numpy()
    rows = _sample(included, generator)
    if min(included[rows].sum(), (~included[rows]).sum()) < FEWEST:
        return NOT_RUN
    features = _features(inputs[rows], None if labels is None else labels[rows], seed.child("features"))
    member = included[rows]
    halves = _halves(member, generator)
    found = []
    for index, make in enumerate((_linear, _trees)):
        tests = []
        for fitted, tested in (halves, halves[::-1]):
            model = make(seed.child("classifier", index)).fit(features[fitted], member[fitted])
            tests.append(_rank_test(model.predict_proba(features[tested])[:, 1], member[tested], generator))
        found.append((min(1.0, sum(p for _, p in tests)), float(np.mean([auc for auc, _ in tests]))))
    p_value, auc = min(found, key=lambda pair: (pair[0], -pair[1]))
    return Guard(auc=auc, p_value=min(1.0, 2 * p_value))


def _sample(included: Array, generator: np.random.Generator) -> Array:
    """At most `LARGEST_SIDE` records of each side."""
    sides = [np.flatnonzero(included), np.flatnonzero(~included)]
    return np.concatenate([generator.permutation(side)[:LARGEST_SIDE] for side in sides])


def _halves(member: Array, generator: np.random.Generator) -> tuple[Array, Array]:
    """Two random halves with as many of each side in both, to within one."""
    first, second = [], []
    for side in (np.flatnonzero(member), np.flatnonzero(~member)):
        order = generator.permutation(side)
        first.append(order[: len(order) // 2])
        second.append(order[len(order) // 2 :])
    return np.concatenate(first), np.concatenate(second)


def _features(inputs: Array, labels: Array | None, seed: Seed) -> Array:
    """Standardised inputs (their main components where there are many), four summaries of each record, its class."""
    from sklearn.decomposition import PCA

    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    summaries = np.stack([flat.mean(axis=1), flat.std(axis=1), flat.min(axis=1), flat.max(axis=1)], axis=1)
    if flat.shape[1] > COMPONENTS:
        solver = PCA(COMPONENTS, svd_solver="randomized", random_state=seed.integer() % 2**32)
        flat = solver.fit_transform(flat) if len(flat) > COMPONENTS else flat[:, :COMPONENTS]
    blocks = [_standardised(flat), _standardised(summaries)]
    if labels is not None:
        blocks.append((labels[:, None] == np.unique(labels)[None, :100]).astype(np.float64))
    return np.concatenate(blocks, axis=1)


def _standardised(columns: Array) -> Array:
    spread = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _linear(seed: Seed) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=0.1, max_iter=200, random_state=seed.integer() % 2**32)


def _trees(seed: Seed) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed.integer() % 2**32)


def _rank_test(values: Array, member: Array, generator: np.random.Generator) -> tuple[float, float]:
    """AUC, and the permutation p-value of the members' rank sum (ties by mid-ranks)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    size, members = len(values), int(member.sum())
    observed = ranks[member].sum()
    drawn = np.array([generator.permutation(ranks)[:members].sum() for _ in range(PERMUTATIONS)])
    auc = (observed - members * (members + 1) / 2) / (members * (size - members))
    return float(auc), float((1 + np.count_nonzero(drawn >= observed)) / (1 + PERMUTATIONS))
