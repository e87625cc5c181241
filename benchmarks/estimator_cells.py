"""One cell of the calibration tables: an estimator, ours or the peer's, on one law at one size, over many seeded draws.

Finished draws are kept in a folder, a file a cell, so that an interrupted run continues if it was and a changed estimator
costs its own cells only: a stored cell is used if a handful of its draws, made again by the present code, come out the same.
False alarms of estimators whose bounds take long are those of the test that their search makes, put to the truth alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from audit import plugins
from audit.bounds import claim_test
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.events import dp_sgd
from audit.core.game import Game, Inclusion
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.stats.bounds.score_distributions import ScoreLaw

try:
    from jax_privacy import __version__ as jax_version
    from jax_privacy import auditing as jax_auditing
except ImportError:
    jax_auditing, jax_version = None, "not installed"

CONFIDENCE = 0.95
SIGNIFICANCE = 1 - CONFIDENCE
NOISES = (0.1, 0.3, 0.6, 1.0)  # of four further attacks, in standard deviations of the best one's scores
CHUNK = 25  # draws between two writes
TOLERANCE = 2e-5  # in epsilon: searches end where they end
CHECKED = 4  # stored draws that are made again before a cell is believed
SLOW = ("fdp_rank", "sequential")  # estimators with a slow search: their false alarms are tests of the truth,
WHOLE = 50  # but for every fiftieth audit, which makes the bound


def played(law: ScoreLaw, included: np.ndarray, seed: Seed, *, one_run: bool) -> Scores:
    """Scores of `law` for these memberships, with the game they come from."""
    count = len(included)
    game = Game(
        adjacency=Adjacency.ADD_REMOVE,
        access=Access.ALL_STEPS,
        inclusion=Inclusion.COINS,
        canaries=count if one_run else 1,
        runs=1 if one_run else count,
        independent_noise=True,
    )
    mechanism = None
    if law.kind == "gaussian":
        mechanism = dp_sgd(noise_multiplier=2 / law.parameter, clip_norm=1.0, sample_rate=1.0, steps=4)
    elif law.kind == "null":
        mechanism = dp_sgd(noise_multiplier=1e6, clip_norm=1.0, sample_rate=1.0, steps=4)
    values = law.draw(included, seed.child("scores").numpy())
    return Scores(values=values, included=included, game=game, mechanism=mechanism)


def ours(spec: dict, scores: Scores, delta: float, seed: Seed, confidence: float = CONFIDENCE) -> float:
    """The bound of one of this project's estimators."""
    return (
        plugins.build("audit.bounds.estimators", spec)
        .lower_bound(scores, delta=delta, confidence=confidence, seed=seed)
        .epsilon
    )


def above_truth(truth: float, spec: dict, scores: Scores, *terms: Any) -> float:
    """Infinity if the test of an estimator's own search refutes the truth, else 0; arguments as `ours`."""
    delta, seed, confidence = (*terms, CONFIDENCE)[:3]
    estimator = plugins.build("audit.bounds.estimators", spec)
    is_wrong = claim_test.refutes(estimator, scores, epsilon=truth, delta=delta, confidence=confidence, seed=seed)
    return math.inf if is_wrong else 0.0


def largest_bound(spec: dict, scores: Scores, delta: float, seed: Seed, bound: Callable[..., float] = ours) -> float:
    """The largest bound over five attacks on the same runs, the error rate split over them."""
    spread = float(np.std(scores.values)) or 1.0
    result = []
    for index, noise in enumerate((0.0, *NOISES)):
        view = scores.values + spread * noise * seed.child("attack", index).numpy().normal(size=len(scores.values))
        item = Scores(values=view, included=scores.included, game=scores.game, mechanism=scores.mechanism)
        result.append(bound(spec, item, delta, seed.child("bound", index), 1 - SIGNIFICANCE / 5))
    return max(result)


def peer(method: str, strategy: str, scores: Scores, delta: float, seed: Seed) -> float:
    """A bound of jax-privacy; nan if it fails."""
    auditor = jax_auditing.CanaryScoreAuditor(scores.members, scores.nonmembers)
    options = {}
    if strategy:
        split = functools.partial(jax_auditing.Split, seed=seed.integer() % 2**31)
        options["threshold_strategy"] = {"bonferroni": jax_auditing.Bonferroni, "split": split}[strategy]()
    if method == "epsilon_clopper_pearson":
        options["one_sided"] = False
    try:
        return float(getattr(auditor, method)(SIGNIFICANCE, delta=max(delta, 1e-12), **options))
    except ValueError:
        return float("nan")


@dataclass(frozen=True)
class Cell:
    """What is simulated.

    Attributes:
        spec: one of our estimators, or `{"peer": method, "strategy": name}`.
        count: scores a side, or coins of one run.
        stream: names the random draws; cells of one stream see the same scores.
        five: the largest of five attacks.
    """

    spec: dict
    law: ScoreLaw
    count: int
    one_run: bool
    stream: str
    five: bool = False

    @property
    def name(self) -> str:
        """For the file and the progress line."""
        label = "-".join(str(value) for value in self.spec.values() if value)
        return f"{label} {self.law.name} {'m' if self.one_run else 'n'}{self.count} {self.stream}{' x5' if self.five else ''}"

    def draw(self, index: int) -> float:
        """The bound of simulated audit number `index`."""
        seed = Seed(1).child(f"{self.stream} {self.law.name} {self.count} {self.one_run}", index)
        if self.one_run:
            included = seed.child("coins").numpy().random(self.count) < 0.5
        else:
            included = np.arange(2 * self.count) < self.count
        scores = played(self.law, included, seed, one_run=self.one_run)
        if "peer" in self.spec:
            return peer(self.spec["peer"], self.spec["strategy"], scores, self.law.delta, seed)
        bound: Callable[..., float] = ours
        if self.stream == "alarms" and self.spec["kind"] in SLOW and index % WHOLE:
            bound = functools.partial(above_truth, self.law.epsilon)
        if self.five:
            bound = functools.partial(largest_bound, bound=bound)
        return bound(self.spec, scores, self.law.delta, seed)

    @property
    def possible(self) -> bool:
        """False if the estimator is about a family that the law is not in, or needs a mechanism that the law has not."""
        if self.law.kind in ("null", "gaussian") or "peer" in self.spec:
            return True
        if self.spec["kind"] == "fdp_rank":
            return False
        included = np.arange(20) % 2 == 0
        scores = played(self.law, included, Seed(0), one_run=self.one_run)
        probe = plugins.build("audit.bounds.estimators", self.spec)
        return probe.lower_bound(scores, delta=self.law.delta, confidence=CONFIDENCE, seed=Seed(0)).family is None


@dataclass(frozen=True)
class Store:
    """A folder of finished draws.

    Attributes:
        closed: nothing is made that is not there; cells are as long as they are.
    """

    folder: Path
    closed: bool = False

    def bounds(self, cell: Cell, draws: int) -> np.ndarray:
        """The first `draws` bounds of a cell, `(draws,)`; made if they are not there yet."""
        path = self._path(cell)
        result = self._trusted(cell, path)
        if self.closed:
            return np.array(result[:draws])
        if len(result) < draws:
            print(f"{cell.name}: {len(result)} of {draws} draws there", file=sys.stderr, flush=True)
        while len(result) < draws:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result += [cell.draw(index) for index in range(len(result), min(draws, len(result) + CHUNK))]
            self._write(cell, path, result)
        return np.array(result[:draws])

    def _path(self, cell: Cell) -> Path:
        key = asdict(cell) | {"version": jax_version if "peer" in cell.spec else ""}
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:10]
        words = "".join(letter if letter.isalnum() else "-" for letter in cell.name)
        return self.folder / f"{words}-{digest}.json"

    def _trusted(self, cell: Cell, path: Path) -> list[float]:
        """What the file holds, or nothing if the present code says otherwise of some draws (the largest among them)."""
        if not path.is_file():
            return []
        result: list[float] = json.loads(path.read_text())["bounds"]
        picked = {0, len(result) - 1, len(result) // 2, int(np.nanargmax([*result, -1.0])) % len(result)}
        if all(
            np.isclose(cell.draw(index), result[index], rtol=0, atol=TOLERANCE, equal_nan=True)
            for index in sorted(picked)[:CHECKED]
        ):
            return result
        print(f"{cell.name}: the present code gives other bounds; made again", file=sys.stderr, flush=True)
        return []

    @staticmethod
    def _write(cell: Cell, path: Path, results: list[float]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".partial")
        part.write_text(json.dumps({"cell": cell.name, "bounds": results}))
        part.replace(path)
