"""The audit of any randomised function, as a function; torch is never imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Claim
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.mechanism_checks.report import MechanismReport
    from audit.mechanism_checks.sampling import Pair


def mechanism(
    function: Callable[..., Any],
    *,
    epsilon: float,
    delta: float = 0.0,
    pairs: Sequence[Any] | None = None,
    neighbours: str | None = None,
    size: int = 5,
    low: float = 0.0,
    high: float = 1.0,
    within: bool = False,
    adjacency: Adjacency | str | None = None,
    family: str | None = None,
    floating_point: bool = False,
    samples: int = 100_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> MechanismReport:
    """Hold a mechanism against its claim: bounds on epsilon and delta from its outputs on neighbouring data sets.

    Args:
        function: `function(data, rng) -> output`, rng a `numpy.random.Generator` that it may ignore. An output is a number, a
            text, None, or an array, list or dictionary of these. A function that takes the keyword `size` is asked for so
            many outputs at once, first axis first, which is much faster.
        epsilon, delta: what is claimed.
        pairs: neighbouring data sets `(data, neighbour)` to try; or else
        neighbours: "records" (`size` numbers in `[low, high]` that differ in one record, by `adjacency`) or "answers" (vectors
            of `size` query answers of which one record moves *each* by at most 1, such as a sparse vector technique takes).
        within: whether no record ever leaves `[low, high]`. Else pairs of "records" hold NaN, infinite, huge and outer ones
            too, and another order; those for which the function raises an error are left out and named.
        adjacency: which neighbouring data sets the claim is about. None takes it from the sizes of `pairs` (of which one record
            more is "add_remove", as many are "replace_one"), and "replace_one" for `neighbours`.
        family: "gdp" if the claim asserts the whole curve of Gaussian DP: then a bound inside that family counts as well.
        floating_point: look also at the lowest bits of outputs, by which sums in floating point give their data away.
        samples: outputs on either data set of the pair that is chosen: a third to search, the rest to count. No more than about
            `log(samples)` can be proved of epsilon.
        seed: of the generator that the function is given, and of the search.

    Guarantee: with probability at least `confidence` all bounds hold and no drift is reported, if calls, and the outputs within
        a call with `size`, are independent and those on the same data follow one law (docs/use/mechanisms.md,
        docs/theory/anytime.md, "One event").

    Raises:
        ConfigError: a claim, family, pair or number of samples that cannot be used.
        DataError: outputs that cannot be read.

    >>> report = mechanism(lambda data, rng, size: data.sum() + rng.laplace(0, 0.2, size), epsilon=1.0,
    ...     neighbours="records", within=True, samples=3000)
    >>> report.verdict.outcome.value, 2 < report.epsilon.epsilon < 5
    ('violated', True)
    """
    from audit.mechanism_checks.run import Questions, check_mechanism

    tries, relation = neighbouring_pairs(
        pairs, neighbours=neighbours, size=size, low=low, high=high, within=within, adjacency=adjacency
    )
    claim = Claim(epsilon=epsilon, delta=delta, adjacency=relation, source=DECLARED, family=family)
    questions = Questions(claim=claim, confidence=confidence, floating_point=floating_point)
    return check_mechanism(function, tries, questions, samples=samples, seed=seed)


def neighbouring_pairs(
    pairs: Sequence[Any] | None = None,
    *,
    neighbours: str | None = None,
    size: int = 5,
    low: float = 0.0,
    high: float = 1.0,
    within: bool = False,
    adjacency: Adjacency | str | None = None,
) -> tuple[tuple[Pair, ...], Adjacency]:
    """The pairs that a caller gives, or that arguments of `mechanism` describe, and their relation; else `ConfigError`."""
    from audit.mechanism_checks import neighbours as patterns

    relation = None if adjacency is None else Adjacency.by_name(adjacency)
    if pairs is not None:
        own = patterns.own_pairs(pairs)
        return own, relation or patterns.find_relation(own)
    if neighbours is None:
        raise ConfigError(
            "which data sets are neighbours is not said: give pairs, or neighbours='records' (that differ in one record) or "
            "'answers' (of queries that one record moves by at most 1 each)"
        )
    relation = relation or Adjacency.REPLACE_ONE
    return patterns.default_pairs(neighbours, size=size, low=low, high=high, adjacency=relation, within=within), relation
