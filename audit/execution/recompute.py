"""Numbers of a finished run computed again from report.json and scores.parquet, by code that shares none with this package.

It imports numpy alone (and pyarrow to read scores). `python recompute.py RUN_DIR` runs it without the package.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CLOSE = 1e-9
FEWEST_PAIRS = 100  # pairs from which on limits of areas are compared
GRAVITY = ("consistent", "out_of_reach", "invalid", "violated")
SEARCH = 1e-3  # width, relative above 1, at which the search for a bound ends
SHARES = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)  # of the coins that are guessed
OPTIONS = "guess_fractions|calibration|copies|threshold_by|ratio:"  # of estimators that are computed again without any
CHANCE = 1e-3  # of a sound negative control to fail
SCHEMAS = ("audit-report/1.0", "audit-report/1.1")
APART = ("about", "execution", "name", "title", "output", "unaccounted")  # sections that the hash of a config leaves out
_GUESSES = re.compile(r"([\d,]+) of ([\d,]+) guesses right")


@dataclass(slots=True)
class NumberCheck:
    """How many numbers were compared with what follows from the rest, and a line for each that differs, with its place."""

    numbers: int = 0
    problems: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)  # kinds of numbers that are there and were not computed again

    def equal(self, place: str, written: Any, recomputed: Any) -> None:
        """Compare one value; floats to a relative 1e-9."""
        self.numbers += 1
        if not is_equal(written, recomputed):
            self.problems.append(f"{place}: {written!r} is written, {recomputed!r} follows from the rest")

    def holds(self, place: str, condition: bool, reason: str) -> None:
        """Note a relation between numbers that has to hold."""
        self.numbers += 1
        if not condition:
            self.problems.append(f"{place}: {reason}")

    @property
    def summary(self) -> str:
        """Return how many numbers agree, and which kinds were not computed again, beside others that were."""
        rest_line = f"; not computed again: {', '.join(sorted(self.left))}" if self.left else ""
        return f"{self.numbers - len(self.problems)} of {self.numbers} numbers recomputed{rest_line}"


def is_equal(written: Any, recomputed: Any) -> bool:
    """Return whether two values are the same, floats to a relative 1e-9."""
    if isinstance(written, float | int) and isinstance(recomputed, float | int) and not isinstance(written, bool):
        return math.isclose(written, recomputed, rel_tol=CLOSE, abs_tol=CLOSE)
    return bool(written == recomputed)


def recompute(folder: Path) -> NumberCheck:
    """Return what came of computing the numbers of a run folder again."""
    comparison = NumberCheck()
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"), object_pairs_hook=_unique)
    comparison.holds("schema", report.get("schema") in SCHEMAS, f"{report.get('schema')!r} is not a schema that is known here")
    tables = _read_scores(folder, report, comparison)
    _identity(report, folder, comparison)
    for result in report["mechanisms"]:
        _mechanism(result, report, tables, comparison)
    outcomes = [result["outcome"] for result in report["mechanisms"] if result["outcome"] is not None]
    comparison.equal("outcome", report["outcome"], max(outcomes, key=GRAVITY.index, default=None))
    return comparison


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one with a key twice is read differently by different readers."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("report.json holds a key twice: " + ", ".join({name for name in names if names.count(name) > 1}))
    return dict(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackScores:
    """Scores and memberships of one attack, `(n,)` each, with names of records if the file has them."""

    scores: NDArray[np.float64]
    member: NDArray[np.bool_]
    records: tuple[str, ...]


def _read_scores(folder: Path, report: Mapping[str, Any], comparison: NumberCheck) -> dict[tuple[str, str, str], AttackScores]:
    """Return the scores by training, game and attack; empty if the run has none."""
    path = folder / "scores.parquet"
    if not path.is_file():
        return {}
    from pyarrow import parquet

    table = {name: np.asarray(values) for name, values in parquet.read_table(path).to_pydict().items()}
    games = [(result["name"], game) for result in report["mechanisms"] for game in result["games"]]
    owners = [(name, game["name"]) for name, game in games]
    attack_keys = {(name, game["name"], attack["scorer"]) for name, game in games for attack in game["attacks"]}
    first = owners[0] if owners else ("", "")
    training, of_game = (table.get(("mechanism", "game")[k], np.full(len(table["score"]), first[k])) for k in (0, 1))
    columns = {}
    for key in sorted(set(zip(training.tolist(), of_game.tolist(), table["attack"].tolist(), strict=True))):
        rows = (training == key[0]) & (of_game == key[1]) & (table["attack"] == key[2])
        names = [table[name][rows].tolist() for name in ("record", "run", "canary") if name in table]
        keys, place = list(zip(*names, strict=True)), "scores.parquet " + "/".join(key)
        comparison.holds(place, len(set(keys)) == len(keys), "a record is there twice")
        comparison.holds(place, key in attack_keys, "no attack of the report has these scores")
        records = tuple(map(str, table["record"][rows].tolist())) if "record" in table else ()
        columns[key] = AttackScores(
            scores=table["score"][rows].astype(np.float64), member=table["member"][rows].astype(bool), records=records
        )
    for owner in owners:
        sides = [column.member for key, column in columns.items() if key[:2] == owner]
        alike = all(np.array_equal(side, sides[0]) for side in sides)
        comparison.holds("/".join(owner), alike, "its attacks have different memberships in scores.parquet")
    return columns


def _identity(report: Mapping[str, Any], folder: Path, comparison: NumberCheck) -> None:
    """Compare id, hash of the config and seed with the config's text; and that with the file of the run."""
    digest, text = report["provenance"]["config_sha256"], report["config"]
    comparison.equal("id", report["id"], f"PA-{digest[:8].upper()}")
    if text:
        bare = "".join(part for part in re.split(r"(?m)^(?=\w[^\n]*:)", text) if part.partition(":")[0] not in APART)
        digests = {hashlib.sha256(content.encode()).hexdigest() for content in (text, bare)}
        comparison.holds("provenance.config_sha256", digest in digests, "not the hash of the config in the report")
        for name, value in {**report, "seed": report["provenance"]["seed"]}.items():
            match = re.search(rf"(?m)^{name}: *([\d.eE+-]+)\s*$", text)
            if match and name in ("seed", "delta", "confidence"):
                comparison.equal(name, value, json.loads(match[1]))
    path, machine = folder / "config.resolved.yaml", folder / "environment.json"
    if path.is_file():
        comparison.holds("config", path.read_text(encoding="utf-8") == text, "not the text of config.resolved.yaml")
    stated = report["provenance"] | {"packages": dict(report["provenance"]["packages"])}
    for name, value in json.loads(machine.read_text(encoding="utf-8")).items() if machine.is_file() else ():
        comparison.equal(f"provenance.{name}", stated.get(name, value), value)


def _mechanism(result: Mapping[str, Any], report: Mapping[str, Any], tables: Any, comparison: NumberCheck) -> None:
    name = result["name"]
    for game in result["games"]:
        for attack in game["attacks"]:
            place = f"{name}/{game['name']}/{attack['scorer']}"
            column = tables.get((name, game["name"], attack["scorer"]))
            comparison.holds(place, column is not None or not tables, "scores.parquet has no scores of it")
            _attack(attack, game, column, place, comparison)
            _bounds(attack["bounds"], report, column, place, comparison)
        _records(game, tables, name, comparison)
    _verdicts(result, comparison)


def _attack(attack: Any, game: Any, column: AttackScores | None, place: str, comparison: NumberCheck) -> None:
    """Compare area, curve, rates, bins and control of one attack."""
    curve = attack["roc"]
    members, nonmembers = curve["members"], curve["nonmembers"]
    if column is not None:
        comparison.equal(f"{place}: sides", [members, nonmembers], [int(column.member.sum()), int((~column.member).sum())])
        comparison.equal(f"{place}: auc", attack["auc"], area(column.scores, column.member))
        rules = game["game"]
        comparison.equal(f"{place}: scores", len(column.scores), rules["canaries"] * rules["runs"] * rules["choices"])
        _bins(attack["histogram"], column, place, comparison)
    _curve(curve, column, place, comparison)
    within = 0 <= attack["auc_lower"] <= attack["auc"] <= attack["auc_upper"] <= 1
    comparison.holds(f"{place}: auc_lower", within, "the area is not between its limits")
    if game["watched"] is None and min(members, nonmembers) >= FEWEST_PAIRS:  # looks at other games are paid for as well
        level = math.log(2 / (1 - curve["confidence"])) / min(members, nonmembers)
        limits = entropy_limit(attack["auc"], level), 1 - entropy_limit(1 - attack["auc"], level)
        for name, value in zip(("auc_lower", "auc_upper"), limits, strict=True):
            comparison.holds(f"{place}: {name}", abs(attack[name] - value) < 0.02, f"not about {value:.4f}, which follows")
    for row in attack["tpr_at"]:
        _rate(row, curve, column, f"{place}: tpr at {row['target_fpr']:g}", comparison)
    if attack["control"] is not None:
        _control(attack["control"], attack["bounds"], place, comparison)


def area(scores: NDArray[np.float64], member: NDArray[np.bool_]) -> float:
    """Return the chance that a member's score is above a nonmember's, ties counting half, by sums of ranks."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    members = int(member.sum())
    return float((ranks[member].sum() - members * (members + 1) / 2) / (members * (len(member) - members)))


def entropy_limit(share: float, level: float) -> float:
    """Return the lower limit by Hoeffding's inequality with relative entropy, at most slightly wider than that by hinges."""
    low, high = 0.0, share
    for _ in range(60):
        middle = (low + high) / 2
        first = share * math.log(share / middle) if middle > 0 and share > 0 else math.inf
        second = (1 - share) * math.log((1 - share) / (1 - middle)) if share < 1 else 0.0
        low, high = (middle, high) if first + second > level else (low, middle)
    return low


def _curve(curve: Any, column: AttackScores | None, place: str, comparison: NumberCheck) -> None:
    """Compare each point with counts of scores above a threshold; between equal scores the order is chance's."""
    fpr, tpr = np.array(curve["fpr"]), np.array(curve["tpr"])
    rising = len(fpr) == len(tpr) and (np.diff(fpr) >= 0).all() and (np.diff(tpr) >= 0).all()
    comparison.holds(f"{place}: roc", bool(rising), "the curve falls")
    band = ((np.array(curve["lower"]) <= tpr + CLOSE) & (tpr <= np.array(curve["upper"]) + CLOSE)).all()
    comparison.holds(f"{place}: roc band", bool(band), "the band does not hold the curve")
    hits, misses = tpr * curve["members"], fpr * curve["nonmembers"]
    rest = max(np.abs(hits - np.rint(hits)).max(), np.abs(misses - np.rint(misses)).max())
    comparison.holds(f"{place}: roc", bool(rest < 1e-6), "a rate is no count over the number of records")
    if column is None:
        return
    lowest, highest = _members_above(column)
    for cut, count in zip(np.rint(hits + misses).astype(int), np.rint(hits).astype(int), strict=True):
        above = min(int(cut), len(lowest) - 1)
        follows = bool(lowest[above] <= count <= highest[above])
        comparison.holds(f"{place}: roc", follows, f"{count} members among the {above} largest scores do not follow")


def _members_above(column: AttackScores) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `(n + 1,)` the fewest and the most members among so many of the largest scores, over all orders of equal ones."""
    orders = (np.lexsort((first, -column.scores)) for first in (column.member, ~column.member))
    fewest, most = (np.concatenate([[0], np.cumsum(column.member[order])]) for order in orders)
    return fewest, most


def _bins(bins: Any, column: AttackScores, place: str, comparison: NumberCheck) -> None:
    for name, side in (("members", column.member), ("nonmembers", ~column.member)):
        counts = np.histogram(np.clip(column.scores[side], bins["edges"][0], bins["edges"][-1]), bins["edges"])[0]
        differences = int(np.abs(counts - np.array(bins[name])).sum())
        comparison.holds(f"{place}: histogram {name}", differences <= 2, "other counts follow from the scores")
        comparison.equal(f"{place}: histogram {name}", sum(bins[name]), int(side.sum()))


def _rate(row: Any, curve: Any, column: AttackScores | None, place: str, comparison: NumberCheck) -> None:
    """Compare a rate with the expected share of members above so many nonmembers, over all orders of equal scores."""
    if row["tpr"] is None:
        return
    wrong = math.floor(row["target_fpr"] * curve["nonmembers"] + CLOSE)
    comparison.equal(f"{place}: realised", row["realised_fpr"], row["false_positives"] / curve["nonmembers"])
    comparison.holds(place, row["false_positives"] <= wrong, "more false positives than the target")
    comparison.equal(f"{place}: count", row["true_positives"], math.floor(row["tpr"] * curve["members"] + CLOSE))
    inside = 0 <= row["lower"] <= row["tpr"] + CLOSE and row["tpr"] <= row["upper"] + CLOSE <= 1 + 2 * CLOSE
    comparison.holds(place, inside, "outside of its limits")
    if column is not None and wrong < curve["nonmembers"]:
        edge = -np.sort(-column.scores[~column.member])[wrong]
        above, level = column.scores > edge, column.scores == edge
        share = (wrong - (above & ~column.member).sum()) / (level & ~column.member).sum()
        hits = (above & column.member).sum() + share * (level & column.member).sum()
        comparison.equal(place, row["tpr"], float(hits / curve["members"]))


def _control(control: Any, bounds: Any, place: str, comparison: NumberCheck) -> None:
    """Compare the verdict of a negative control with its counts, and the number of alarms it is allowed."""
    comparison.equal(f"{place}: control", control["passed"], control["false_alarms"] <= control["allowed"])
    rate, repetitions = sum(1 - bound["confidence"] for bound in bounds), control["repetitions"]
    if bounds:
        allowed = np.searchsorted(np.cumsum(mass(repetitions, rate)), 1 - CHANCE) if rate < 1 else repetitions
        comparison.equal(f"{place}: control allows", control["allowed"], min(int(allowed), repetitions))


def figure(bound: Any, name: str = "epsilon") -> float:
    """Return epsilon or ceiling of a bound of any type."""
    return number(next(bound[key] for key in (name, f"{name}_inside", f"void_{name}") if key in bound))


def _bounds(bounds: Any, report: Any, column: AttackScores | None, owner: str, comparison: NumberCheck) -> None:
    for bound in bounds:
        place = f"{owner}: {bound['estimator']}"
        comparison.equal(f"{place}: delta", bound["delta"], report["delta"])
        comparison.holds(
            f"{place}: epsilon", 0 <= figure(bound) <= figure(bound, "ceiling") + CLOSE, "not from 0 to its ceiling"
        )
        comparison.equal(f"{place}: confidence", bound["confidence"], 1 - (1 - report["confidence"]) / report["comparisons"])
        usual = column is not None and not re.search(OPTIONS, report["config"])
        if usual and bound["estimator"] in ("one_run", "clopper_pearson") and bound.get("family") is None:
            _proof(bound, column, place, comparison)
        else:
            comparison.left.add(f"epsilon and ceiling of {bound['estimator']}")
        if bound["estimator"] == "gaussian" and 0 < figure(bound) < 300:
            mu, epsilon = bound["parameter"], figure(bound)
            limits = gaussian_delta(mu, epsilon - SEARCH), gaussian_delta(mu, epsilon + SEARCH)
            comparison.holds(f"{place}: epsilon", limits[0] >= bound["delta"] >= limits[1], f"not that of mu {mu:.6f}")


def _proof(bound: Any, column: Any, place: str, comparison: NumberCheck) -> None:
    """Compare epsilon, ceiling, comparisons and guesses of a bound with those that follow from the scores."""
    error, delta, perfect = 1 - bound["confidence"], bound["delta"], column.member.astype(float)
    if bound["estimator"] == "one_run":
        epsilon, right, count, tests = one_run(column.scores, column.member, delta, error)
        ceiling = one_run(perfect, column.member, delta, error)[0]
        if guesses := _GUESSES.search(bound["selected"]):
            comparison.equal(f"{place}: guesses", [int(text.replace(",", "")) for text in guesses.groups()], [right, count])
    else:
        epsilon, tests = rectangles(column.scores, column.member, delta, error)
        ceiling = rectangles(perfect, column.member, delta, error)[0]
    comparison.equal(f"{place}: comparisons", bound["comparisons"], tests)
    for name, value in (("epsilon", epsilon), ("ceiling", max(epsilon, ceiling))):
        close = abs(figure(bound, name) - value) < SEARCH
        comparison.holds(f"{place}: {name}", close, f"not {value:.6f}, which follows from the scores")


def mass(trials: int, rate: float) -> Any:
    """Return the chances `(trials + 1,)` of each count of hits."""
    hits = np.arange(trials + 1)
    return np.exp(_choices(trials) + hits * math.log(rate) + hits[::-1] * math.log1p(-rate))


@functools.lru_cache(maxsize=64)
def _choices(trials: int) -> Any:
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    return factorials[trials] - factorials - factorials[::-1]


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-GDP mechanism at epsilon (Balle and Wang 2018)."""
    first, second = (math.erfc((epsilon / mu - side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1))
    return first - math.exp(epsilon) * second


def rectangles(scores: Any, member: Any, delta: float, error: float) -> tuple[float, int]:
    """Return the epsilon of rectangles of error rates at ranks fixed before, and their number (Clopper and Pearson 1934)."""
    ranking = member[np.lexsort((member, -scores))].astype(bool)
    rows, best = [], 0.0
    for side in (ranking, ~ranking[::-1]):  # members above a nonmember; nonmembers below a member
        above, others = np.cumsum(side)[~side], int(side.sum())
        powers = range(int(math.log(max(1, len(above) // 2)) / math.log(3) + CLOSE) + 1)
        rows += [((3**power - 1, len(above)), (others - int(above[3**power - 1]), others)) for power in powers]
    for row in rows:
        rates = [rate_upper(count, trials, error / (2 * len(rows))) for count, trials in row]
        for wrong, missed in (rates, rates[::-1]):
            best = max(best, math.log((1 - missed - delta) / wrong) if missed + delta < 1 else 0.0)
    return best, len(rows)


def rate_upper(count: int, trials: int, level: float) -> float:
    """Return the rate at which so few hits have the chance `level`: 1 if all are hits."""
    low, high = 0.0, 1.0
    for _ in range(60 if count < trials else 0):
        rate = (low + high) / 2
        low, high = (rate, high) if mass(trials, rate)[: count + 1].sum() > level else (low, rate)
    return high


def one_run(scores: Any, member: Any, delta: float, error: float) -> tuple[float, int, int, int]:
    """Return the epsilon that all counts of guesses refute, the most informative one, and how many (docs/theory/one-run.md)."""
    size = len(scores)
    ranking, cut = member[np.lexsort((member, -scores))], _cut(-np.sort(-scores))
    shares = (*SHARES[:-1], 0.86, 1.0) if size >= 400 else SHARES
    counts = np.unique(np.clip(np.rint(np.array(shares) * size).astype(int), 2, size))
    top = np.clip(counts // 2, counts - (size - cut), cut)
    above, below = (np.concatenate([[0], np.cumsum(side)]) for side in (ranking, ~ranking[::-1]))
    right = above[top] + below[counts - top]
    roots = np.concatenate([[0.0], np.cumsum(np.arange(1, size + 1) ** -0.5)])
    hits = list(zip(counts.tolist(), right.tolist(), strict=True))

    def surprises(rate: float) -> list[float]:
        return [float(mass(n, rate)[k:].sum()) for n, k in hits]

    def refuted_alone(rate: float) -> bool:  # by one of every second count, if delta leaves no room for all together
        chances = []
        for n, k in hits[::-1][::2]:
            exact, tail = mass(n, rate)[k], mass(n, rate)[k:].sum()
            solution = tail * (1 - tail) / (k * exact) if min(k, exact, tail) > 1e-290 else math.inf
            chances.append(tail + size * delta * solution)
        return bool(min(chances) <= error / len(chances))

    def refuted(low: float, high: float) -> bool:
        first, last = 1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))
        sure = np.minimum(counts - 1, math.floor(1 / (2 * math.e * first * (1 - first))))
        remainder = math.sqrt((1 - first) / (2 * math.e * first)) * (roots[counts - 1] - roots[sure])
        escape = size * delta * float((((1 - first) * (1 + sure) + remainder) / counts).sum())
        budget, smallest = error - min(escape, 0.9 * error), min(surprises(last))
        if smallest > budget or high >= 30 or (escape > 0.9 * error and not refuted_alone(last)):
            return False
        trials, alive, chance = 0, np.ones(1), 1e-12
        for count in counts.tolist():
            alive, trials = np.convolve(alive, mass(count - trials, last)), count
            limit = int(np.count_nonzero(np.cumsum(mass(count, first)[::-1])[::-1] > smallest * (1 + 1e-5)))
            chance, alive = chance + float(alive[limit:].sum()), alive[:limit]
        return chance <= budget

    def follow(low: float, high: float) -> float:
        if refuted(low, high):
            return high
        if high - low <= SEARCH / 2 * max(1.0, low):
            return low
        end = follow(low, middle := (low + high) / 2)
        return end if end < middle else follow(middle, high)

    epsilon = follow(0.0, 32.0)
    index = int(np.argmin(surprises(1 / (1 + math.exp(-epsilon)))))
    return epsilon, int(right[index]), int(counts[index]), len(counts)


def _cut(falling: Any) -> int:
    """Return how many of the scores, from the highest, are above the cut with the least variance within both groups."""
    size, falling = len(falling), np.clip(falling, -1e300, 1e300)
    cuts = np.arange(1, size)
    eligible = (falling[:-1] > falling[1:]) & (np.abs(2 * cuts - size) <= 6.5 * math.sqrt(size))
    if not eligible.any():
        return size // 2
    reach = max(0, min(size // 4, math.floor((size - 4 * math.sqrt(size)) / 2)))
    top, bottom = (falling[reach], falling[-1 - reach]) if falling[reach] > falling[-1 - reach] else (falling[0], falling[-1])
    sums = np.cumsum((np.clip(falling, bottom, top) - bottom) / (top - bottom))
    between = (sums[-1] * cuts / size - sums[:-1]) ** 2 / (cuts * (size - cuts))
    best = eligible & (between >= (1 - 1e-9) * between[eligible].max())
    return int(cuts[np.argmin(np.where(best, np.abs(2 * cuts - size), size + 1))])


def _records(game: Any, tables: Any, name: str, comparison: NumberCheck) -> None:
    """Compare the list of most exposed records with that which an attack's scores of the first run give."""
    columns = [column for key, column in tables.items() if key[:2] == (name, game["name"])] if game["records"] else []
    if lists := [_list_exposed(column, len(column.scores) // game["game"]["runs"]) for column in columns]:
        written = [[row[key] for key in ("rank", "member", "score", "fpr", "record")] for row in game["records"]]
        written = [row[: len(lists[0][0])] for row in written]
        place, nearest = f"{name}/{game['name']}", max(lists, key=lambda rows: sum(row in rows for row in written))
        comparison.equal(f"{place}: records", len(written), len(nearest))
        for row, follows in zip(written, nearest, strict=False):
            comparison.equal(f"{place}: record {row[0]}", row, follows)


def _list_exposed(column: AttackScores, count: int) -> list[list[Any]]:
    """Return rank, membership, score, share of nonmembers at least as high, and a name if known, of the 30 highest scores."""
    scores, member = column.scores[:count], column.member[:count]
    order = np.argsort(-scores, kind="stable")[:30].tolist()
    shares = [float((scores[~member] >= scores[i]).sum() / max(1, (~member).sum())) for i in order]
    rows = enumerate(zip(order, shares, strict=True), start=1)
    return [[k, bool(member[i]), float(scores[i]), share, *column.records[i : i + 1]] for k, (i, share) in rows]


def number(value: Any) -> float:
    """Return a number as the report writes it."""
    return math.inf if value == "Infinity" else float(value)


def _verdicts(result: Any, comparison: NumberCheck) -> None:
    """Compare each verdict with bounds, claim, controls and checks, and the outcome with the verdicts."""
    name, rows = result["name"], list(all_bounds(result))
    controls = [attack["control"] for game in result["games"] for attack in game["attacks"] if attack["control"]]
    controls += [game["watched"]["control"] for game in result["games"] if game["watched"] and game["watched"].get("control")]
    evidence = all(control["passed"] for control in controls)
    training_valid = all(check["status"] != "failed" for check in result["checks"])
    claims = [json.dumps(claim, sort_keys=True) for claim in result["claims"]]
    comparison.equal(f"{name}: claims", [json.dumps(row["claim"], sort_keys=True) for row in result["verdicts"]], claims)
    for verdict in result["verdicts"]:
        claim, epsilon = verdict["claim"], number(verdict["claim"]["epsilon"])
        place = f"{name}: claim by {claim['source']}"
        able = [bound for bound in rows if bound["delta"] == claim["delta"] and bound["family"] in (None, claim["family"])]
        verdict_bound = verdict["bound"]
        comparison.holds(f"{place}: bound", verdict_bound is None or verdict_bound in able, "no game has this bound")
        comparison.equal(f"{place}: bound", verdict_bound is None, not able)
        above = any(figure(bound) > epsilon for bound in able)
        reach = max((figure(bound, "ceiling") for bound in able), default=0.0)
        likely_outcome = "violated" if above else "out_of_reach" if reach <= epsilon else "consistent"
        if not evidence or (not training_valid and not above):
            likely_outcome = "invalid"
        agrees = verdict["outcome"] in (likely_outcome, "invalid" if not training_valid or not (able or controls) else None)
        comparison.holds(place, agrees, f"{verdict['outcome']} is written, {likely_outcome} follows from bounds and claim")
        if verdict_bound is not None:
            largest = above or is_equal(figure(verdict_bound), max((figure(bound) for bound in able), default=0.0))
            comparison.holds(f"{place}: bound", largest, "not the largest that could refute the claim")
        numbers = [float(text) for text in re.findall(r"(?:at least|at most|up to|claimed) (\d+\.?\d*)", verdict["reason"])]
        figures = [epsilon, *(figure(bound, kind) for bound in rows for kind in ("epsilon", "ceiling"))]
        figures += [bound["parameter"] for bound in rows if bound["parameter"] is not None]
        strange = [value for value in numbers if not any(abs(value - row) <= 0.0101 for row in figures if math.isfinite(row))]
        comparison.holds(f"{place}: reason", not strange, f"{strange} is no bound, ceiling or claim of this training")
    outcomes = [row["outcome"] for row in sorted(result["verdicts"], key=lambda row: number(row["claim"]["epsilon"]))]
    if outcomes and any(game["attacks"] for game in result["games"]):
        usual = next((word for word in ("violated", "invalid") if word in outcomes), outcomes[0])
        agrees = result["outcome"] in (usual, usual if evidence else "invalid")
        comparison.holds(f"{name}: outcome", agrees, f"{result['outcome']!r} is written, {usual!r} follows from its verdicts")
    void = result["outcome"] == "invalid" or not evidence
    for bound in rows:
        comparison.equal(f"{name}: {bound['estimator']}: void", "void_epsilon" in bound, void)


def all_bounds(result: Any) -> Iterator[Any]:
    """Yield the bounds of a training."""
    for game in result["games"]:
        for attack in game["attacks"]:
            yield from attack["bounds"]
        if game["watched"] is not None:
            yield from game["watched"]["bounds"]


def main(folder: str) -> int:
    """Print what differs, and how many numbers were computed again."""
    comparison = recompute(Path(folder))
    sys.stdout.write("\n".join([*comparison.problems, comparison.summary, ""]))
    return int(bool(comparison.problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
