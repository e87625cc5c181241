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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CLOSE, BISECTIONS = 1e-9, 60
GRAVITY = ("consistent", "out_of_reach", "invalid", "violated")
SEARCH = 1e-3  # width, relative above 1, at which the search for a bound ends
SHARES = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)  # of the coins that are guessed
OPTIONS = r"guess_fractions|calibration|copies: [^1]|threshold_by|ratio:|distance"  # of estimators that are left out
CHANCE = 1e-3  # of a sound negative control to fail
SCHEMAS = ("audit-report/1.0", "audit-report/1.1")
APART = ("about", "execution", "name", "title", "output", "unaccounted")  # sections that the hash of a config leaves out


@dataclass(slots=True)
class NumberCheck:
    """How many numbers were compared with what follows from the rest, and a line for each that differs, with its place."""

    numbers: int = 0
    problems: list[str] = field(default_factory=list)
    left: set[str] = field(default_factory=set)  # kinds of numbers that are there and were not computed again
    tables: dict[tuple[str, str, str], AttackScores] = field(default_factory=dict)  # scores by training, game and attack

    def equal(self, place: str, written: Any, recomputed: Any, tolerance: float = CLOSE) -> None:
        """Compare one value, or a list of them; floats to a relative tolerance."""
        size = len(written) if isinstance(written, list) else 1
        self.numbers += size
        if not is_equal(written, recomputed, tolerance):
            self.problems.append(f"{place}: {str(written)[:200]} is written, {str(recomputed)[:200]} follows from the rest")

    def holds(self, place: str, condition: Any, reason: str) -> None:
        """Note a relation between numbers that has to hold."""
        self.numbers += 1
        if not condition:
            self.problems.append(f"{place}: {reason}")

    @property
    def summary(self) -> str:
        """Return how many numbers agree, and which kinds were not computed again, beside others that were."""
        rest_line = f"; not computed again: {', '.join(sorted(self.left))}" if self.left else ""
        return f"{self.numbers - len(self.problems)} of {self.numbers} numbers recomputed{rest_line}"


def is_equal(written: Any, recomputed: Any, tolerance: float = CLOSE) -> bool:
    """Return whether two values, or lists of them, are the same."""
    if isinstance(written, list) and isinstance(recomputed, list):
        return len(written) == len(recomputed) and all(map(is_equal, written, recomputed, [tolerance] * len(written)))
    numbers = all(isinstance(value, float | int) and not isinstance(value, bool) for value in (written, recomputed))
    return bool(math.isclose(written, recomputed, rel_tol=tolerance, abs_tol=tolerance) if numbers else written == recomputed)


def recompute(folder: Path) -> NumberCheck:
    """Return what came of computing the numbers of a run folder again."""
    check = NumberCheck()
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"), object_pairs_hook=_unique)
    check.holds("schema", report["schema"] in SCHEMAS, f"{report['schema']!r} is not a schema that is known here")
    tables = check.tables = _read_scores(folder, report, check)
    _identity(report, folder, check)
    for result in report["mechanisms"]:
        for game in result["games"]:
            _game(game, result, report, tables, check)
        _verdicts(result, check)
    outcomes = [result["outcome"] for result in report["mechanisms"] if result["outcome"] is not None]
    check.equal("outcome", report["outcome"], max(outcomes, key=GRAVITY.index, default=None))
    return check


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; one with a key twice is read differently by different readers."""
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("report.json holds a key twice: " + ", ".join({name for name in names if names.count(name) > 1}))
    return dict(pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackScores:
    """Scores and memberships of one attack, `(n,)` each, with names and labels of records if the file has them."""

    scores: Any
    member: Any
    records: tuple[str, ...] = ()
    labels: Any = None


def _read_scores(folder: Path, report: Any, check: NumberCheck) -> dict[tuple[str, str, str], AttackScores]:
    """Return the scores by training, game and attack."""
    games = [(result["name"], game) for result in report["mechanisms"] for game in result["games"]]
    keys = [(name, game["name"], attack["scorer"]) for name, game in games for attack in game["attacks"]]
    path = folder / "scores.parquet"
    if not keys or not path.is_file():
        check.holds("scores.parquet", not keys, "missing; without it no figure of an attack can be computed again")
        return {}
    from pyarrow import parquet

    table = {name: np.asarray(values) for name, values in parquet.read_table(path).to_pydict().items()}
    parts = [table.get(name, np.full(len(table["score"]), keys[0][k])) for k, name in enumerate(("mechanism", "game"))]
    columns = {}
    for key in sorted(set(zip(*(part.tolist() for part in (*parts, table["attack"])), strict=True))):
        rows = (parts[0] == key[0]) & (parts[1] == key[1]) & (table["attack"] == key[2])
        names = [table[name][rows].tolist() for name in ("record", "run", "canary") if name in table]
        rows_named, place = list(zip(*names, strict=True)), "scores.parquet " + "/".join(key)
        check.holds(place, len(set(rows_named)) == len(rows_named), "a record is there twice")
        check.holds(place, key in keys, "no attack of the report has these scores")
        records = tuple(map(str, table["record"][rows].tolist())) if "record" in table else ()
        scores, member = table["score"][rows].astype(np.float64), table["member"][rows].astype(bool)
        check.holds(place, not np.isnan(scores).any() and member.any() and not member.all(), "not two sides of numbers")
        labels = table["label"][rows].astype(str) if "label" in table and table["label"][0] is not None else None
        columns[key] = AttackScores(scores=scores, member=member, records=records, labels=labels)
    for name, game in games:
        sides = [column.member for key, column in columns.items() if key[:2] == (name, game["name"])]
        alike = all(np.array_equal(side, sides[0]) for side in sides)
        check.holds(f"{name}/{game['name']}", alike, "its attacks have different memberships in scores.parquet")
    return columns


def _identity(report: Any, folder: Path, check: NumberCheck) -> None:
    """Compare id, hash of the config and seed with the config's text; and that with the files of the run."""
    digest, text = report["provenance"]["config_sha256"], report["config"]
    check.equal("id", report["id"], f"PA-{digest[:8].upper()}")
    bare = "".join(part for part in re.split(r"(?m)^(?=\w[^\n]*:)", text) if part.partition(":")[0] not in APART)
    digests = {hashlib.sha256(content.encode()).hexdigest() for content in (text, bare)}
    check.holds("provenance.config_sha256", digest in digests, "not the hash of the config in the report")
    for name, value in {**report, "seed": report["provenance"]["seed"]}.items():
        match = re.search(rf"(?m)^{name}: *([\d.eE+-]+)\s*$", text)
        if match and name in ("seed", "delta", "confidence"):
            check.equal(name, value, json.loads(match[1]))
    path, machine = folder / "config.resolved.yaml", folder / "environment.json"
    if path.is_file():
        check.holds("config", path.read_text(encoding="utf-8") == text, "not the text of config.resolved.yaml")
    stated = report["provenance"] | {"packages": dict(report["provenance"]["packages"])}
    for name, value in json.loads(machine.read_text(encoding="utf-8")).items() if machine.is_file() else ():
        check.equal(f"provenance.{name}", stated.get(name, value), value)


def _game(game: Any, result: Any, report: Any, tables: Any, check: NumberCheck) -> None:
    """Compare a game's attacks with their scores, and what its attacks have in common."""
    owner, rules, attacks = f"{result['name']}/{game['name']}", game["game"], game["attacks"]
    columns = [tables.get((result["name"], game["name"], attack["scorer"])) for attack in attacks]
    for attack, column in zip(attacks, columns, strict=True):
        place = f"{owner}/{attack['scorer']}"
        check.holds(place, column is not None or not tables, "scores.parquet has no scores of it")
        if column is not None:
            _attack(attack, (result, game, report), column, place, check)
        for bound in attack["bounds"]:
            _bound(bound, (game, report), column, f"{place}: {bound['estimator']}", check)
        members, total = attack["roc"]["members"], attack["roc"]["members"] + attack["roc"]["nonmembers"]
        share = rules["inclusion_probability"]
        if rules["choices"] == 1 and rules["inclusion"] == "coins":
            fits = abs(members - share * total) <= 6 * math.sqrt(share * (1 - share) * total) + 1
            check.holds(f"{owner}: coins", fits, f"{members} members of {total} are not from coins of {share:g}")
        check.holds(f"{owner}: coins", not attack["bounds"] or rules["inclusion"] == "coins", "bounds without coins")
        if attack["control"] is not None or attack["bounds"]:
            _control(attack["control"], attack["bounds"], place, check)
    forms = [json.dumps([[row["target_fpr"] for row in attack["tpr_at"]]]) for attack in attacks]
    check.holds(owner, set(forms) <= {"[[0.1, 0.01, 0.001]]"}, "its attacks have other targets")
    proven = [attack for attack in attacks if attack["bounds"]]
    estimators = [json.dumps([row[key] for key in ("estimator", "family", "assumes")]) for a in proven for row in a["bounds"]]
    check.holds(owner, all(estimators.count(name) == len(proven) for name in estimators), "its attacks have different bounds")


def _attack(attack: Any, owners: tuple[Any, Any, Any], column: AttackScores, place: str, check: NumberCheck) -> None:
    """Compare area, curve, band, rates and bins of one attack with those that follow from its scores."""
    (result, game, report), scores, member, curve = owners, column.scores, column.member, attack["roc"]
    rules = game["game"]
    sides = [int(member.sum()), int((~member).sum())]
    check.equal(f"{place}: sides", [curve["members"], curve["nonmembers"]], sides)
    check.equal(f"{place}: scores", len(scores), rules["canaries"] * rules["runs"] * rules["choices"])
    attacks, looks = len(game["attacks"]), (game["watched"] or {"looks": 1})["looks"]
    level = (1 - report["confidence"]) / (attacks * looks)
    share = area(scores, member)
    limits = [share, area_limit(share, min(sides), level / 2), 1 - area_limit(1 - share, min(sides), level / 2)]
    check.equal(f"{place}: auc", [attack[name] for name in ("auc", "auc_lower", "auc_upper")], limits, 1e-6)
    words = "simulated level, concave curves" + f", for all {attacks} attacks at once" * (attacks > 1)
    check.equal(f"{place}: band", curve["band"], words + f", at any of {looks} looks" * (looks > 1))
    check.equal(f"{place}: confidence of the curve", curve["confidence"], report["confidence"])
    ranking = spread(scores, member)
    false, true = (np.concatenate([[0], np.cumsum(side)]) for side in (~ranking, ranking))
    last = np.flatnonzero(np.append(np.diff(false) > 0, True))
    if len(last) > 400:
        index = np.searchsorted(false[last] / sides[1], np.geomspace(1 / sides[1], 1, 399), side="right") - 1
        last = last[np.unique(np.concatenate([[0], np.maximum(index, 0), [len(last) - 1]]))]
    check.equal(f"{place}: fpr", curve["fpr"], (false[last] / sides[1]).tolist())
    check.equal(f"{place}: tpr", curve["tpr"], (true[last] / sides[0]).tolist())
    for row in attack["tpr_at"]:
        target = row["target_fpr"]
        follows: list[float | None] = [None] * 4
        if target * sides[1] >= 1 - CLOSE:
            at = int(np.searchsorted(false, target * sides[1] * (1 + 1e-12), side="right")) - 1
            follows = [expected_rate(column, target), float(false[at] / sides[1]), int(false[at]), int(true[at])]
            near = np.searchsorted(curve["fpr"], target) + np.array([-3, 2])  # a limit grows with the rate
            for side in ("lower", "upper"):
                ends = np.array(curve[side])[np.clip(near, 0, len(curve[side]) - 1)]
                fits = ends[0] - 0.002 <= row[side] <= ends[1] + 0.002
                check.holds(f"{place}: {side} at {target:g}", fits, "not within the band")
        names = ("tpr", "realised_fpr", "false_positives", "true_positives")
        check.equal(f"{place}: at {target:g}", [row[name] for name in names], follows)
        check.equal(f"{place}: limits at {target:g}", (row["lower"] is None, row["upper"] is None), (follows[0] is None,) * 2)
        if rules["choices"] == rules["copies"] == 1:
            check.equal(f"{place}: allowed at {target:g}", row["allowed"], allowed_rate(result, rules, target))


def area(scores: Any, member: Any) -> float:
    """Return the chance that a member's score is above a nonmember's, ties counting half, by sums of ranks."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    members = int(member.sum())
    return float((ranks[member].sum() - members * (members + 1) / 2) / (members * (len(member) - members)))


def area_limit(share: float, pairs: int, level: float) -> float:
    """Return the lower limit on an area by Hoeffding's inequality for hinges, as for that share of so many coins."""
    cuts = np.ceil(share * pairs) - np.unique(np.rint(np.geomspace(1, max(pairs, 2), 400)))
    cuts = cuts[cuts >= 0].astype(int)

    def surprises(rate: float) -> bool:
        tails = np.cumsum(mass(pairs, rate)[::-1])[::-1]
        hinges = np.append(np.cumsum(tails[::-1])[::-1], 0.0)[cuts + 1]
        return bool((hinges / (share * pairs - cuts)).min(initial=math.inf) <= level)

    return bisect(surprises, 0.0, share)[0] if share > 0 else 0.0


def bisect(goes_up: Any, low: float, high: float) -> tuple[float, float]:
    """Return the ends of the last bracket of a search; a middle of which `goes_up` is true is its new lower end."""
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if goes_up(middle) else (low, middle)
    return low, high


def spread(scores: Any, member: Any) -> Any:
    """Return memberships from the highest score down, members of a tie spread evenly among its nonmembers."""
    tie = np.unique(-scores, return_inverse=True)[1]
    order = np.lexsort((member, tie))
    tie, side = tie[order], member[order]
    sizes = np.stack([np.bincount(tie[side == own], minlength=tie[-1] + 1) for own in (False, True)])
    own = np.where(side, np.cumsum(side), np.cumsum(~side)) - (np.cumsum(sizes, 1) - sizes)[side.astype(int), tie]
    behind = np.where(side, -(-own * sizes[0][tie] // np.maximum(sizes[1][tie], 1)), own)
    return side[np.lexsort((side, behind, tie))]


def expected_rate(column: AttackScores, target: float) -> float:
    """Return the expected share of members above so many nonmembers, over all orders of equal scores."""
    falling, members = -np.sort(-column.scores[~column.member]), column.scores[column.member]
    count = math.floor(target * len(falling) * (1 + 1e-12))
    if count >= len(falling):
        return 1.0
    cut = falling[count]
    shares = (count - (falling > cut).sum()) / (falling == cut).sum()
    return float(((members > cut).sum() + (members == cut).sum() * shares) / len(members))


def allowed_rate(result: Any, rules: Any, target: float) -> float | None:
    """Return the most true positives that the tightest claim and the mechanism's curve leave an attack."""
    claim, curve = min(result["claims"], key=lambda row: number(row["epsilon"]), default=None), result["limit"]
    epsilon = math.inf if claim is None else number(claim["epsilon"])
    if rules["inclusion"] != "coins" or (curve is None and math.isinf(epsilon)):
        return None
    rates = [1.0]
    if claim is not None and math.isfinite(epsilon):
        rates += [math.exp(min(epsilon, 700)) * target + claim["delta"]]
        rates += [1 - math.exp(-epsilon) * max(1 - claim["delta"] - target, 0)]
    return min(rates + ([] if curve is None else [float(np.interp(target, curve["fpr"], curve["tpr"]))]))


def _control(control: Any, bounds: Any, place: str, check: NumberCheck) -> None:
    """Compare the verdict of a negative control with its counts, and the number of alarms it is allowed."""
    if control is None:
        check.holds(f"{place}: control", False, "bounds without a negative control")
        return
    check.equal(f"{place}: control", control["passed"], control["false_alarms"] <= control["allowed"])
    rate, trials = sum(1 - bound["confidence"] for bound in bounds), control["repetitions"]
    check.equal(f"{place}: control", trials, 20)
    if bounds:
        allowed = np.searchsorted(np.cumsum(mass(trials, rate)), 1 - CHANCE) if rate < 1 else trials
        check.equal(f"{place}: control allows", control["allowed"], min(int(allowed), trials))


def figure(bound: Any, name: str = "epsilon") -> float:
    """Return epsilon or ceiling of a bound of any type."""
    return number(next(bound[key] for key in (name, f"{name}_inside", f"void_{name}") if key in bound))


def number(value: Any) -> float:
    """Return a number as the report writes it."""
    return math.inf if value == "Infinity" else float(value)


def _bound(bound: Any, owners: tuple[Any, Any], column: AttackScores | None, place: str, check: NumberCheck) -> None:
    """Compare a bound with the report's terms, and where its estimator is known here with what follows from the scores."""
    game, report = owners
    check.equal(f"{place}: delta", bound["delta"], report["delta"])
    check.holds(f"{place}: epsilon", 0 <= figure(bound) <= figure(bound, "ceiling") + CLOSE, "not from 0 to its ceiling")
    check.equal(f"{place}: confidence", bound["confidence"], 1 - (1 - report["confidence"]) / report["comparisons"])
    usual = "epsilon" in bound or ("void_epsilon" in bound and not bound["family"])
    check.equal(f"{place}: family", bound["family"] is None, usual)
    if bound["estimator"] == "gaussian" and 0 < figure(bound) < 300:
        limits = [gaussian_delta(bound["parameter"], figure(bound) + step) for step in (-SEARCH, SEARCH)]
        check.holds(f"{place}: epsilon", limits[0] >= bound["delta"] >= limits[1], f"not that of mu {bound['parameter']:.6f}")
    is_known = bound["estimator"] in ("one_run", "clopper_pearson") and bound["family"] is None and game["game"]["choices"] == 1
    if column is None or not is_known or game["game"]["copies"] > 1 or re.search(OPTIONS, report["config"]):
        check.left.add(f"epsilon and ceiling of {bound['estimator']}")
        return
    error, delta, perfect = 1 - bound["confidence"], bound["delta"], column.member.astype(float)
    if bound["estimator"] == "one_run":
        epsilon, right, count, tests = one_run(column.scores, column.member, delta, error)
        ceiling = one_run(perfect, column.member, delta, error)[0]
        check.equal(f"{place}: guesses", bound["selected"], f"{right:,} of {count:,} guesses right" if epsilon > 0 else "")
    else:
        epsilon, tests = rectangles(column.scores, column.member, delta, error)
        ceiling = rectangles(perfect, column.member, delta, error)[0]
    check.equal(f"{place}: comparisons", bound["comparisons"], tests)
    for name, value in (("epsilon", epsilon), ("ceiling", max(epsilon, ceiling))):
        close = abs(figure(bound, name) - value) < SEARCH
        check.holds(f"{place}: {name}", close, f"not {value:.6f}, which follows from the scores")


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
    return bisect(lambda rate: mass(trials, rate)[: count + 1].sum() > level, 0.0, 1.0)[1] if count < trials else 1.0


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


def _verdicts(result: Any, check: NumberCheck) -> None:
    """Compare each verdict with bounds, claim, controls and checks, and the outcome with the verdicts."""
    name, rows = result["name"], list(all_bounds(result))
    controls = [attack["control"] for game in result["games"] for attack in game["attacks"] if attack["control"]]
    controls += [game["watched"]["control"] for game in result["games"] if game["watched"] and game["watched"].get("control")]
    evidence = all(control["passed"] for control in controls)
    training_valid = all(check["status"] != "failed" for check in result["checks"])
    claims = [json.dumps(claim, sort_keys=True) for claim in result["claims"]]
    check.equal(f"{name}: claims", [json.dumps(row["claim"], sort_keys=True) for row in result["verdicts"]], claims)
    for verdict in result["verdicts"]:
        claim, epsilon = verdict["claim"], number(verdict["claim"]["epsilon"])
        place = f"{name}: claim by {claim['source']}"
        able = [bound for bound in rows if bound["delta"] == claim["delta"] and bound["family"] in (None, claim["family"])]
        verdict_bound = verdict["bound"]
        check.holds(f"{place}: bound", verdict_bound is None or verdict_bound in able, "no game has this bound")
        check.equal(f"{place}: bound", verdict_bound is None, not able)
        above = any(figure(bound) > epsilon for bound in able)
        reach = max((figure(bound, "ceiling") for bound in able), default=0.0)
        likely_outcome = "violated" if above else "out_of_reach" if reach <= epsilon else "consistent"
        if not evidence or (not training_valid and not above):
            likely_outcome = "invalid"
        agrees = verdict["outcome"] in (likely_outcome, "invalid" if not training_valid or not (able or controls) else None)
        check.holds(place, agrees, f"{verdict['outcome']} is written, {likely_outcome} follows from bounds and claim")
        if verdict_bound is not None:
            largest = above or is_equal(figure(verdict_bound), max((figure(bound) for bound in able), default=0.0))
            check.holds(f"{place}: bound", largest, "not the largest that could refute the claim")
        numbers = [float(text) for text in re.findall(r"(?:at least|at most|up to|claimed) (\d+\.?\d*)", verdict["reason"])]
        figures = [epsilon, *(figure(bound, kind) for bound in rows for kind in ("epsilon", "ceiling"))]
        figures += [bound["parameter"] for bound in rows if bound["parameter"] is not None]
        strange = [value for value in numbers if not any(abs(value - row) <= 0.0101 for row in figures if math.isfinite(row))]
        check.holds(f"{place}: reason", not strange, f"{strange} is no bound, ceiling or claim of this training")
    outcomes = [row["outcome"] for row in sorted(result["verdicts"], key=lambda row: number(row["claim"]["epsilon"]))]
    if outcomes and any(game["attacks"] for game in result["games"]):
        usual = next((word for word in ("violated", "invalid") if word in outcomes), outcomes[0])
        agrees = result["outcome"] in (usual, usual if evidence else "invalid")
        check.holds(f"{name}: outcome", agrees, f"{result['outcome']!r} is written, {usual!r} follows from its verdicts")
    void = result["outcome"] == "invalid" or not evidence
    for bound in rows:
        check.equal(f"{name}: {bound['estimator']}: void", "void_epsilon" in bound, void)


def all_bounds(result: Any) -> Iterator[Any]:
    """Yield the bounds of a training."""
    for game in result["games"]:
        for attack in game["attacks"]:
            yield from attack["bounds"]
        if game["watched"] is not None:
            yield from game["watched"]["bounds"]


def main(folder: str) -> int:
    """Print what differs, and how many numbers were computed again."""
    check = recompute(Path(folder))
    sys.stdout.write("\n".join([*check.problems, check.summary, ""]))
    return int(bool(check.problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
