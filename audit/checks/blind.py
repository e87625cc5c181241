"""The first guard: can members be distinguished from nonmembers without the model? Then attack figures are not leakage."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from audit.core.data import Array
from audit.core.phrases import phrase
from audit.core.results import Check, Status
from audit.core.seeds import Seed

SIGNIFICANCE = 0.01
LARGEST_SIDE = 2000
FEWEST = 20
COMPONENTS = 64
RANDOM_FEATURES = 300
PERMUTATIONS = 999
NEIGHBOURS = 10
WORDS = 1 << 10  # columns that words of texts are hashed to
# values that these leave as they are were written with so few digits
ROUNDINGS: Sequence[Callable[[Array], Array]] = (
    lambda values: values.astype(np.float16).astype(np.float64),
    lambda values: values.astype(np.float32).astype(np.float64),
    lambda values: np.round(values, 3),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """What the blind classifiers found.

    Attributes:
        auc: of the more successful classifier on records it was not fitted on, or None if there were too few records.
        p_value: how often exchangeable records look at least as different as these, or an upper limit on it.
    """

    auc: float | None
    p_value: float

    @property
    def has_bias(self) -> bool:
        """True if members and nonmembers differ before any model is asked."""
        return self.p_value < SIGNIFICANCE

    @property
    def check(self) -> Check:
        item = "Blind classifier on the inputs"
        if self.auc is None:
            value = phrase("not run: it needs inputs and at least {records} records on each side", records=FEWEST)
            return Check(code="blind", item=item, value=value, status=Status.GAP)
        figures = {"auc": f"{self.auc:.3f}", "p": f"{self.p_value:.2g}", "level": f"{SIGNIFICANCE:.0%}"}
        if self.has_bias:
            value = phrase("AUC {auc}, p = {p}, tested at {level}: inputs alone tell members from nonmembers", **figures)
            return Check(code="blind", item=item, value=value, status=Status.FAILED)
        value = phrase("AUC {auc}, p = {p}, tested at {level}: inputs alone do not tell members from nonmembers", **figures)
        return Check(code="blind", item=item, value=value, status=Status.CHECKED)


NOT_RUN = Guard(auc=None, p_value=1.0)


def guard(inputs: Array, labels: Array | None, included: Array, seed: Seed) -> Guard:
    """Return whether inputs (and labels) alone distinguish members from nonmembers.

    Two classifiers and the counts of each class share the significance: ridge regressions on inputs, summaries, labels and
    random smooth functions of them, with a leave-one-out success that is compared with that under permuted memberships, each
    fitted anew; and boosted trees, fitted on one half and tested by permutation on the other, both ways round. Counts show a
    class that one side has too few of, which moves a regression on everything little.

    Guarantee: if members and nonmembers are exchangeable, `has_bias` is True with probability at most `SIGNIFICANCE`.
        Features do not depend on membership, so all tests are exact; twice the mean of the halves' p-values is a p-value
        whatever their dependence (Vovk and Wang 2020, arXiv 1212.4966), and so is the least times how many there are.

    Args:
        inputs: `(n, ...)`.
        labels: `(n,)` classes, or None.
        included: `(n,)` bool.
    """
    generator = seed.child("blind").numpy()
    rows = _sample(included, generator)
    member = included[rows]
    if min(member.sum(), (~member).sum()) < FEWEST:
        return NOT_RUN
    blocks = _features(inputs[rows], None if labels is None else labels[rows], seed.child("features"))
    tests = [_ridge(blocks, member, generator), _trees(np.concatenate(blocks, axis=1), member, seed.child("trees"), generator)]
    if labels is not None:
        tests.append(_counts(labels[rows], member))
    auc, p_value = min(tests, key=lambda pair: (pair[1], -pair[0]))
    return Guard(auc=auc, p_value=min(1.0, len(tests) * p_value))


def _sample(included: Array, generator: np.random.Generator) -> Array:
    """At most `LARGEST_SIDE` records of each side, in random order, so that ties fall at random."""
    sides = [np.flatnonzero(included), np.flatnonzero(~included)]
    return generator.permutation(np.concatenate([generator.permutation(side)[:LARGEST_SIDE] for side in sides]))


def _halves(member: Array, generator: np.random.Generator) -> tuple[Array, Array]:
    """Two random halves with as many of each side in both, to within one."""
    first, second = [], []
    for side in (np.flatnonzero(member), np.flatnonzero(~member)):
        order = generator.permutation(side)
        first.append(order[: len(order) // 2])
        second.append(order[len(order) // 2 :])
    return np.concatenate(first), np.concatenate(second)


def _features(inputs: Array, labels: Array | None, seed: Seed) -> list[Array]:
    """Standardised inputs (their main components if there are many), summaries of each record, its class, and its digits.

    Also whether records nearby have its class, which shows wrong labels, and how many of its values fit into fewer digits.
    """
    from sklearn.decomposition import PCA

    flat = inputs.reshape(len(inputs), -1).astype(np.float64)
    with np.errstate(over="ignore"):  # what is too large for half precision does not fit into it
        digits = [(flat == rounding(flat)).mean(axis=1) for rounding in ROUNDINGS]
    summaries = np.stack([flat.mean(axis=1), flat.std(axis=1), flat.min(axis=1), flat.max(axis=1)], axis=1)
    if flat.shape[1] > COMPONENTS:
        # a seed of 32 bits, as scikit-learn takes
        solver = PCA(COMPONENTS, svd_solver="randomized", random_state=seed.integer() % 2**32)
        flat = solver.fit_transform(flat) if len(flat) > COMPONENTS else flat[:, :COMPONENTS]
    blocks = [_standardise(flat), _standardise(summaries), _standardise(np.stack(digits, axis=1))]
    if labels is not None:
        blocks.append(_standardise(_label_agreement(blocks[0], labels)))
        blocks.append(_standardise((labels[:, None] == np.unique(labels)[None, :100]).astype(np.float64)))
    return blocks


def _label_agreement(inputs: Array, labels: Array) -> Array:
    """Return the share of a record's nearest records that have its label, and whether at most one has it, `(n, 2)`.

    A few wrong labels are lost among the shares of all others.
    """
    from sklearn.neighbors import NearestNeighbors

    finder = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(inputs) - 1), algorithm="brute").fit(inputs)
    shares = np.mean(labels[finder.kneighbors(return_distance=False)] == labels[:, None], axis=1)
    return np.stack([shares, shares <= 1 / NEIGHBOURS], axis=1)


def _standardise(columns: Array) -> Array:
    std = columns.std(axis=0)
    return np.asarray((columns - columns.mean(axis=0)) / np.where(std > 0, std, 1.0))


def _ridge(blocks: Sequence[Array], member: Array, generator: np.random.Generator) -> tuple[float, float]:
    """Leave-one-out AUC of the most successful of some ridge regressions, and the p-value of that success.

    Success is the correlation of the predictions with membership, in standard deviations of what permuted memberships
    give; these take the best of the same regressions, too.
    """
    targets = np.stack([member, *(generator.permutation(member) for _ in range(PERMUTATIONS))], axis=1) - member.mean()
    full = np.concatenate(blocks, axis=1)
    waves = generator.normal(size=(full.shape[1], RANDOM_FEATURES)) / np.sqrt(full.shape[1])
    smooth = _standardise(np.cos(full @ waves + generator.uniform(0, 2 * np.pi, RANDOM_FEATURES)))
    pairs = [(full, 0.1), (full, 3.0), (smooth, 0.3), *((block, 0.1) for block in blocks)]
    predictions = [_left_out(features, targets, penalty) for features, penalty in pairs]
    norms = [np.linalg.norm(prediction, axis=0) for prediction in predictions]  # 0 if labels, say, are all the same
    scales = [np.where(norm > 0, norm, 1.0) for norm in norms]
    success = np.stack([(fit * targets).sum(axis=0) / scale for fit, scale in zip(predictions, scales, strict=True)])
    success = np.maximum(success, 0.0)  # how far a single column fails says nothing, and would widen the spread
    spread = success.std(axis=1, keepdims=True)
    standing = (success - success.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    best = standing.max(axis=0)
    auc, _ = _rank_test(predictions[int(np.argmax(standing[:, 0]))][:, 0], member, None)
    return auc, float(np.mean(best >= best[0]))


def _counts(labels: Array, member: Array) -> tuple[float, float]:
    """Return the AUC of the class with the most different shares on the sides, and its p-value times the number of classes."""
    from audit.stats.bounds import excess_success

    classes, place = np.unique(labels, return_inverse=True)
    sizes, inside = (np.bincount(place, weights=weights).astype(np.float64) for weights in (None, member))
    p_values = excess_success.side_p_values(inside, sizes, int(member.sum()), len(member))
    worst = int(np.argmin(p_values))
    rates = inside[worst] / member.sum(), (sizes[worst] - inside[worst]) / (~member).sum()
    # no finer than a permutation test, so that between two sure ones the larger AUC is shown
    p_value = max(1 / (1 + PERMUTATIONS), float(p_values[worst]) * len(classes))
    return float(0.5 + abs(rates[0] - rates[1]) / 2), min(1.0, p_value)


def _left_out(features: Array, targets: Array, penalty: float) -> Array:
    """Leave-one-out ridge predictions for each column of targets, in closed form, centred."""
    basis, sizes, _ = np.linalg.svd(features, full_matrices=False)
    weight = sizes**2 / (sizes**2 + penalty * len(features))
    own = (basis**2 @ weight)[:, None]
    # leaving a record out in closed form: the hat matrix' diagonal is what its own target adds to its prediction
    prediction = (basis @ (weight[:, None] * (basis.T @ targets)) - own * targets) / (1 - own)
    return np.asarray(prediction - prediction.mean(axis=0))


def _trees(features: Array, member: Array, seed: Seed, generator: np.random.Generator) -> tuple[float, float]:
    """AUC of boosted trees on the half they were not fitted on, mean of both ways round, and a p-value."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    halves = _halves(member, generator)
    tests = []
    for train, test in (halves, halves[::-1]):
        trees = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=seed.integer() % 2**32)
        trees.fit(features[train], member[train])
        tests.append(_rank_test(trees.predict_proba(features[test])[:, 1], member[test], generator))
    return float(np.mean([auc for auc, _ in tests])), min(1.0, sum(p for _, p in tests))  # twice the mean of two p-values


def _rank_test(values: Array, member: Array, generator: np.random.Generator | None) -> tuple[float, float]:
    """AUC, and the permutation p-value of the members' rank sum (ties by mid-ranks; 1 without a generator)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    size, members = len(values), int(member.sum())
    rank_sum = ranks[member].sum()
    auc = (rank_sum - members * (members + 1) / 2) / (members * (size - members))
    if generator is None:
        return float(auc), 1.0
    permutation_sums = np.array([generator.permutation(ranks)[:members].sum() for _ in range(PERMUTATIONS)])
    # the order that was seen is one of the permutations, so that no p-value is 0
    return float(auc), float((1 + np.count_nonzero(permutation_sums >= rank_sum)) / (1 + PERMUTATIONS))


def text_features(texts: Sequence[str]) -> Array:
    """Return `(n, d)` float32: counts of words, hashed; length, compressed length and their ratio.

    Given to `guard` in place of inputs: on published sets of members and nonmembers such features alone beat
    the attacks.

    References:
        Das, Zhang and Tramer 2024, arXiv 2406.16201; Meeus et al. 2024, arXiv 2406.17975.

    >>> text_features(["one two", "three"]).shape
    (2, 1027)
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    words = HashingVectorizer(n_features=WORDS, norm=None, alternate_sign=False, token_pattern=r"\S+")
    counts = words.transform(list(texts)).toarray()
    contents = [text.encode("utf-8") for text in texts]
    lengths = np.array([[len(content), len(zlib.compress(content, 9))] for content in contents], dtype=np.float64)
    ratios = lengths[:, 1:] / np.maximum(lengths[:, :1], 1)
    return np.concatenate([counts, np.log1p(lengths), ratios], axis=1).astype(np.float32)
