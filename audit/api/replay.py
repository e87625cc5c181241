"""The replay of any differentially private program, as a function; torch is never imported."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError

if TYPE_CHECKING:
    from audit.replays.report import ReplayReport


def replay(
    function: Callable[..., Any],
    data: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    mu: float | None = None,
    adjacency: Adjacency | str | None = None,
    unit: str | None = None,
    low: float | None = None,
    high: float | None = None,
    sampling_seconds: float = 10.0,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayReport:
    """Run a program on a data set, hand its releases back on neighbours, and count what still differs.

    Args:
        function: `function(data, rng) -> output`, or `function(data)`. Noise of numpy, scipy and Python's `random` is followed.
        data: a data set, of which neighbours are made; or a list of pairs `(data, neighbour)`.
        epsilon, delta: what is claimed; or else
        mu: of Gaussian differential privacy.
        adjacency: which data sets are neighbours, "add_remove" (default), "replace_one" or "zero_out".
        unit: column or key that names the user, if the claim is about all records of a user.
        low, high: ends of the range of a number.
        sampling_seconds: for outputs of the pair that is left open; 0 samples none.
        progress: is called with the pairs done and all pairs.

    Guarantee: "proved" holds for these pairs and these paths if all randomness was followed; a program that keeps its claim
    is refuted with probability at most 2e-6, but for a part that is fixed by the data in fewer runs than that takes, with rare
    draws among them (docs/theory/replay.md).

    Names of numpy, math and random are replaced in the whole process while a replay runs: one runs at a time, and other threads
    should not draw meanwhile. Globals, attributes and modules that the program changes are put back where they can be copied;
    files that it writes and other state stay as it leaves them. `sys.exit` in the program is an exception of the program.

    Raises:
        ConfigError: no claim, a range that has no number, or data of which no neighbours can be made.

    >>> import numpy as np
    >>> def noisy_sum(data, rng):
    ...     return np.clip(data, 0, 1).sum() + rng.laplace(0, 0.5)
    >>> report = replay(noisy_sum, np.array([0.2, 0.9, 0.4]), epsilon=1.0, high=1.0)
    >>> report.verdict.value, report.worst.loss > 1
    ('refuted', True)
    """
    from audit.mechanism_checks.open_pair import sample_pair
    from audit.mechanism_checks.run import function_name
    from audit.replays import neighbours
    from audit.replays.claims import ReplayClaim
    from audit.replays.report import ReplayReport
    from audit.replays.run import LOCK
    from audit.replays.search import search
    from audit.replays.witness import definition, import_name

    if (epsilon is None) == (mu is None):
        raise ConfigError("the claim is epsilon (with delta) or mu: give one of them")
    claim = ReplayClaim(epsilon=epsilon or 0.0, delta=delta, mu=mu)
    for end, name in ((low, "low"), (high, "high")):
        if end is not None:
            checks.finite(end, name)
    if low is not None and high is not None and low > high:
        raise ConfigError(f"low is {low} and high is {high}; expected low to be at most high")
    relation = Adjacency.ADD_REMOVE if adjacency is None else Adjacency.by_name(adjacency)
    start = time.perf_counter()
    decide = functools.partial(sample_pair, seconds=sampling_seconds) if sampling_seconds > 0 else None
    with LOCK:
        own = neighbours.own_pairs(data)
        pairs = own or neighbours.make_pairs(data, relation, low=low, high=high, unit=unit)
        pool = functools.partial(neighbours.PairPool, data, relation, (low, high)) if own is None and unit is None else None
        results = search(function, pairs, claim, pool=pool, decide=decide, progress=progress)
    seconds = time.perf_counter() - start
    name, folder = import_name(function) or (function_name(function), None)
    return ReplayReport(
        name=name,
        claim=claim,
        adjacency=relation.value,
        results=tuple(results),
        seconds=seconds,
        place=definition(function),
        folder=folder,
    )
