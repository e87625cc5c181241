"""Numbers of a finished run computed again from report.json and scores.parquet, by code that shares none with this package.

It imports numpy alone (and pyarrow to read scores). `python recompute.py RUN_DIR` runs it without the package. `RULES` says for
places in the report what is compared there: a formula gives the value written and the one that follows, or a truth value.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CLOSE, BISECTIONS, SEARCH = 1e-9, 60, 1e-3  # the last: width, relative above 1, at which the search for a bound ends
SHARES = (0.01, 0.018, 0.032, 0.056, 0.1, 0.18, 0.32, 0.56, 1.0)  # of the coins that are guessed
OPTIONS = r"guess_fractions|calibration|copies: [^1]|threshold_by|ratio:|distance"  # of estimators that are left out
GRAVITY = ("consistent", "out_of_reach", "invalid", "violated")
APART = ("about", "execution", "name", "title", "output", "unaccounted")  # sections that the hash of a config leaves out
LETTERS, PARTS = {"mechanisms": "m", "games": "g", "attacks": "a"}, {"m": "result", "m.g": "game", "m.g.a": "attack"}


class Row(dict[str, Any]):
    """A JSON object, its members read as attributes."""

    __getattr__ = dict.__getitem__


@dataclass(slots=True)
class NumberCheck:
    """How many numbers were compared with what follows from the rest, a line for each that differs, and what was left out."""

    numbers: int = 0
    problems: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def take(self, place: str, answer: Any) -> None:
        """Compare what a formula gives: written and following value, or whether a relation holds, or why it does not."""
        self.numbers += len(answer[0]) if isinstance(answer, tuple) and isinstance(answer[0], list) else 1
        if isinstance(answer, tuple) and not is_equal(*answer):
            self.problems.append(f"{place}: {str(answer[0])[:200]} is written, {str(answer[1])[:200]} follows from the rest")
        elif not isinstance(answer, tuple) and (isinstance(answer, str) or not answer):
            self.problems.append(f"{place}: {answer or 'does not go with the rest'}")

    @property
    def summary(self) -> str:
        """Return how many numbers agree."""
        return f"{self.numbers - len(self.problems)} of {self.numbers} numbers recomputed"


def is_equal(value: Any, follows: Any, tolerance: float = CLOSE) -> bool:
    """Return whether two values, or lists of them, are the same; floats to a relative tolerance."""
    if isinstance(value, list) and isinstance(follows, list):
        return len(value) == len(follows) and all(map(is_equal, value, follows, [tolerance] * len(value)))
    numbers = all(isinstance(number, float | int) and not isinstance(number, bool) for number in (value, follows))
    return bool(math.isclose(value, follows, rel_tol=tolerance, abs_tol=tolerance) if numbers else value == follows)


def recompute(folder: Path) -> tuple[Row, NumberCheck]:
    """Return report.json of a run folder, and what came of computing its numbers again."""
    check, text = NumberCheck(), (folder / "report.json").read_text(encoding="utf-8")
    report = Row(json.loads(text, object_pairs_hook=_unique))
    at = Row(report=report, tables=read_scores(folder, report, check), result=None, game=None, attack=None)
    _walk(report, "", at, check)
    return report, check


def _unique(pairs: list[tuple[str, Any]]) -> Row:
    """Return a JSON object; one with a key twice is read differently by different readers."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("report.json holds a key twice, among " + ", ".join(sorted(name for name, _ in pairs)))
    return Row(pairs)


def _walk(value: Any, path: str, at: Any, check: NumberCheck) -> None:
    """Compare a value with what the rules of its path say, and all within it."""
    at = Row(at | {"value": value} | ({PARTS[path]: value} if path in PARTS else {}))
    at["column"] = lambda attack: at.tables.get((at.result.name, at.game.name, attack.scorer))
    at["scores"] = at.column(at.attack) if at.attack else None
    names = [str(row[key]) for row, key in ((at.result, "name"), (at.game, "name"), (at.attack, "scorer")) if row]
    for words, formula in (RULES.get(path, {}) | (OF_SCORES.get(path, {}) if at.scores else {})).items():
        try:
            answer = formula(at)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            answer = f"cannot be computed ({type(error).__name__}: {error})"
        check.take(f"{'/'.join(names) or 'report'}: {words}", answer)
    for name, inner in value.items() if isinstance(value, dict) else ():
        if inner is not None:
            _walk(inner, f"{path}.{name}".removeprefix("."), at, check)
        for row in inner if isinstance(inner, list) and inner and isinstance(inner[0], dict) else ():
            _walk(row, f"{path}.{LETTERS.get(name, f'{name}[]')}".removeprefix("."), at, check)


def read_scores(folder: Path, report: Any, check: NumberCheck) -> dict[tuple[str, str, str], Row]:
    """Return the scores by training, game and attack, in the order of the file."""
    results, path = report.mechanisms, folder / "scores.parquet"
    keys = [(result.name, game.name, attack.scorer) for result in results for game in result.games for attack in game.attacks]
    if not keys or not path.is_file():
        check.take("scores.parquet", not keys or "missing; without it no figure of an attack can be computed again")
        return {}
    from pyarrow import parquet

    table = {name: np.asarray(values) for name, values in parquet.read_table(path).to_pydict().items()}
    parts = [table.get(name, np.full(len(table["score"]), keys[0][k])) for k, name in enumerate(("mechanism", "game"))]
    columns, keys_of_rows = {}, [name for name in ("record", "run", "canary") if name in table]
    for key in dict.fromkeys(zip(*(part.tolist() for part in (*parts, table["attack"])), strict=True)):
        rows, place = (parts[0] == key[0]) & (parts[1] == key[1]) & (table["attack"] == key[2]), f"scores.parquet {key}"
        lines = list(zip(*(table[name][rows].tolist() for name in keys_of_rows), strict=True))
        scores, member = table["score"][rows].astype(np.float64), table["member"][rows].astype(bool)
        spots = itertools.product(*(range(last + 1) for last in lines[-1][-2:])) if "canary" in table else ()
        twice = len(set(lines)) < len(lines) or any(line[-2:] != spot for line, spot in zip(lines, spots, strict=False))
        check.take(place, not twice or "a record is there twice, or not in its order")
        check.take(place, key in keys or "no attack of the report has these scores")
        check.take(place, (not np.isnan(scores).any() and member.any() and not member.all()) or "not two sides of numbers")
        records = tuple(map(str, table["record"][rows].tolist())) if "record" in table else ()
        labels = table["label"][rows].astype(str) if "label" in table and table["label"][0] is not None else None
        sides = [int(member.sum()), int((~member).sum())]
        columns[key] = Row(scores=scores, member=member, records=records, labels=labels, sides=sides)
    check.take("scores.parquet", bool(columns) or "holds no scores")
    return columns


def figure(bound: Any, name: str = "epsilon") -> float:
    """Return epsilon or ceiling of a bound of any type."""
    return float(next(bound[key] for key in (name, f"{name}_inside", f"void_{name}") if key in bound))


def find_parts(result: Any, name: str) -> list[Any]:
    """Return bounds or controls of a training, of all attacks and of all looks together."""
    rows = [row for game in result.games for row in (*game.attacks, *([game.watched] if game.watched else []))]
    return [part for row in rows if row.get(name) for part in (row[name] if isinstance(row[name], list) else [row[name]])]


def sound(result: Any) -> bool:
    """Return whether all controls of a training passed."""
    return all(control.passed for control in find_parts(result, "control"))


def area(scores: Any, member: Any) -> float:
    """Return the chance that a member's score is above a nonmember's, ties counting half, by sums of ranks."""
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    members = int(member.sum())
    return float((ranks[member].sum() - members * (members + 1) / 2) / (members * (len(member) - members)))


def area_limits(share: float, pairs: int, level: float) -> list[float]:
    """Return an area with its limits, by Hoeffding's inequality for hinges, as for that share of so many coins."""

    def goes_up(rate: float, share: float) -> bool:
        cuts = np.ceil(share * pairs) - np.unique(np.rint(np.geomspace(1, max(pairs, 2), 400)))
        tails = np.cumsum(mass(pairs, rate)[::-1])[::-1]
        hinges = np.append(np.cumsum(tails[::-1])[::-1], 0.0)[(cuts := cuts[cuts >= 0].astype(int)) + 1]
        return bool((hinges / (share * pairs - cuts)).min(initial=math.inf) <= level)

    ends = [
        bisect(lambda rate, side=side: goes_up(rate, side), 0.0, side)[0] if side > 0 else 0.0 for side in (share, 1 - share)
    ]
    return [share, ends[0], 1 - ends[1]]


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
    sizes = np.stack([np.bincount(tie[side == column], minlength=tie[-1] + 1) for column in (False, True)])
    column = np.where(side, np.cumsum(side), np.cumsum(~side)) - (np.cumsum(sizes, 1) - sizes)[side.astype(int), tie]
    behind = np.where(side, -(-column * sizes[0][tie] // np.maximum(sizes[1][tie], 1)), column)
    return side[np.lexsort((side, behind, tie))]


def curve(scores: Any) -> list[float]:
    """Return the rates of the points of a curve that a report shows: of nonmembers, then of members."""
    ranking = spread(scores.scores, scores.member)
    false, true = (np.concatenate([[0], np.cumsum(side)]) for side in (~ranking, ranking))
    last = np.flatnonzero(np.append(np.diff(false) > 0, True))
    if len(last) > 400:
        index = np.searchsorted(false[last] / false[-1], np.geomspace(1 / false[-1], 1, 399), side="right") - 1
        last = last[np.unique(np.concatenate([[0], np.maximum(index, 0), [len(last) - 1]]))]
    return [*(false[last] / false[-1]).tolist(), *(true[last] / true[-1]).tolist()]


def rates(scores: Any, target: float) -> list[float | None]:
    """Return the rate of members above so many nonmembers, expected over all orders of equal scores, and what one realises."""
    falling, members = -np.sort(-scores.scores[~scores.member]), scores.scores[scores.member]
    count = min(math.floor(target * len(falling) * (1 + 1e-12)), len(falling))
    if target * len(falling) < 1 - CLOSE:
        return [None] * 4
    cut = falling[count] if count < len(falling) else -math.inf
    shares = (count - (falling > cut).sum()) / max(1, (falling == cut).sum())
    mean_rate = ((members > cut).sum() + (members == cut).sum() * shares) / len(members) if count < len(falling) else 1.0
    above = np.flatnonzero(np.append(~spread(scores.scores, scores.member), True))[count] - count
    return [float(mean_rate), count / len(falling), count, int(above)]


def allowed_rate(at: Any) -> Any:
    """Return the most true positives that the tightest claim and the mechanism's curve leave an attack."""
    claims, limit, target = at.result.claims, at.result.limit, at.value.target_fpr
    epsilon, delta = min(((float(row.epsilon), row.delta) for row in claims), default=(math.inf, 0.0))
    if at.game.game.inclusion != "coins" or (limit is None and math.isinf(epsilon)):
        return None
    chances = [math.exp(min(epsilon, 700)) * target + delta, 1 - math.exp(-epsilon) * max(1 - delta - target, 0), 1.0]
    return min(chances + ([] if limit is None else [float(np.interp(target, limit.fpr, limit.tpr))]))


def records_fit(at: Any) -> Any:
    """Return whether the list of most exposed records is that which an attack's scores of the first run give."""
    fits = not at.value or not at.tables
    for column in filter(None, map(at.column, at.game.attacks if at.value else ())):
        first = slice(len(column.scores) // at.game.game.runs)
        scores, member = column.scores[first], column.member[first]
        rows: list[dict[str, Any]] = []
        for i in np.argsort(-scores, kind="stable")[:30].tolist():
            share = float((scores[~member] >= scores[i]).sum() / max(1, (~member).sum()))
            row = {"rank": len(rows) + 1, "member": bool(member[i]), "score": float(scores[i]), "fpr": share}
            row |= {"record": column.records[i]} if column.records else {}
            row |= {"label": column.labels[i]} if column.labels is not None else {}
            rows.append(row)
        fits |= len(rows) == len(at.value) and all(old.items() >= row.items() for old, row in zip(at.value, rows, strict=True))
    return fits or "other rows follow from the scores"


def group_rows(at: Any) -> tuple[list[Any], list[Any], float]:
    """Return counts, area and limits of a group, and those that follow from the scores of an attack with that area."""
    group, first, groups = at.value, at.game.attacks[0].roc, at.game.groups
    columns = [column for column in map(at.column, at.game.attacks) if column and column.labels is not None]
    figures = [group.members, group.nonmembers, group.auc, group.auc_lower, group.auc_upper]
    follows = figures[:]
    if columns and (mask := columns[0].labels == group.group).any():
        follows[:2] = [int((mask & (columns[0].member == side)).sum()) for side in (True, False)]
        areas = [area(column.scores[mask], column.member[mask]) for column in columns if min(follows[:2]) > 1]
        follows[2] = next((value for value in areas if is_equal(group.auc, value)), areas[0] if areas else None)
    if sum(row.members for row in groups) == first.members:  # one column divides the records
        level = (1 - at.report.confidence) / len(groups)
        follows[2:] = [None] * 3 if follows[2] is None else area_limits(follows[2], min(follows[:2]), level / 2)
    return figures, follows, 1e-6


def mass(trials: int, rate: float) -> Any:
    """Return the chances `(trials + 1,)` of each count of hits."""
    hits, logs = np.arange(trials + 1), np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    return np.exp(logs[-1] - logs - logs[::-1] + hits * math.log(rate) + hits[::-1] * math.log1p(-rate))


def gaussian_near(bound: Any) -> bool:
    """Return whether delta lies between those of a mu-GDP mechanism next to a bound's epsilon (Balle and Wang 2018)."""
    mu, ends = bound.parameter, [figure(bound) - SEARCH, figure(bound) + SEARCH]
    tails = [[math.erfc((end / mu - side * mu / 2) / math.sqrt(2)) / 2 for side in (1, -1)] for end in ends if ends[0] > 0]
    deltas = [tail[0] - math.exp(min(end, 300)) * tail[1] for end, tail in zip(ends, tails, strict=False)]
    return not 0 < figure(bound) < 300 or not deltas or deltas[0] >= bound.delta >= deltas[1]


def rectangles(scores: Any, member: Any, delta: float, error: float) -> tuple[float, int, None]:
    """Return the epsilon of rectangles of error rates at ranks fixed before, and their number (Clopper and Pearson 1934)."""
    ranking = member[np.lexsort((member, -scores))].astype(bool)
    rows, best = [], 0.0
    for side in (ranking, ~ranking[::-1]):  # members above a nonmember; nonmembers below a member
        above, others = np.cumsum(side)[~side], int(side.sum())
        powers = range(int(math.log(max(1, len(above) // 2)) / math.log(3) + CLOSE) + 1)
        rows += [((3**power - 1, len(above)), (others - int(above[3**power - 1]), others)) for power in powers]
    for row in rows:
        rates = [rate_upper(count, trials, error / (2 * len(rows))) for count, trials in row]
        for wrong, misses in (rates, rates[::-1]):
            best = max(best, math.log((1 - misses - delta) / wrong) if misses + delta < 1 else 0.0)
    return best, len(rows), None


def rate_upper(count: int, trials: int, level: float) -> float:
    """Return the rate at which so few hits have the chance `level`: 1 if all are hits."""
    return bisect(lambda rate: mass(trials, rate)[: count + 1].sum() > level, 0.0, 1.0)[1] if count < trials else 1.0


def one_run(scores: Any, member: Any, delta: float, error: float) -> tuple[float, int, str]:
    """Return the epsilon that all counts of guesses refute, how many, and the most informative (docs/theory/one-run.md)."""
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

    def refutes_alone(rate: float) -> bool:  # by one of every second count, if delta leaves no room for all together
        chances = []
        for n, k in hits[::-1][::2]:
            exact, tail = mass(n, rate)[k], mass(n, rate)[k:].sum()
            solution = tail * (1 - tail) / (k * exact) if min(k, exact, tail) > 1e-290 else math.inf
            chances.append(tail + size * delta * solution)
        return bool(min(chances) <= error / len(chances))

    def refutes(low: float, high: float) -> bool:
        first, last = 1 / (1 + math.exp(-low)), 1 / (1 + math.exp(-high))
        sure = np.minimum(counts - 1, math.floor(1 / (2 * math.e * first * (1 - first))))
        remainder = math.sqrt((1 - first) / (2 * math.e * first)) * (roots[counts - 1] - roots[sure])
        escape = size * delta * float((((1 - first) * (1 + sure) + remainder) / counts).sum())
        budget, smallest = error - min(escape, 0.9 * error), min(surprises(last))
        if smallest > budget or high >= 30 or (escape > 0.9 * error and not refutes_alone(last)):
            return False
        trials, alive, chance = 0, np.ones(1), 1e-12
        for count in counts.tolist():
            alive, trials = np.convolve(alive, mass(count - trials, last)), count
            limit = int(np.count_nonzero(np.cumsum(mass(count, first)[::-1])[::-1] > smallest * (1 + 1e-5)))
            chance, alive = chance + float(alive[limit:].sum()), alive[:limit]
        return chance <= budget

    def follow(low: float, high: float) -> float:
        if refutes(low, high):
            return high
        if high - low <= SEARCH / 2 * max(1.0, low):
            return low
        end = follow(low, middle := (low + high) / 2)
        return end if end < middle else follow(middle, high)

    epsilon = follow(0.0, 32.0)
    index = int(np.argmin(surprises(1 / (1 + math.exp(-epsilon)))))
    return epsilon, len(counts), f"{right[index]:,} of {counts[index]:,} guesses right" if epsilon > 0 else ""


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


def bound_follows(at: Any) -> Any:
    """Return epsilon, ceiling and words of a bound, and those that its estimator proves from the scores."""
    bound, rules, error = at.value, at.game.game, 1 - at.value.confidence
    is_usual = bound.estimator in ("one_run", "clopper_pearson") and bound.family is None
    if not is_usual or rules.choices > 1 or rules.copies > 1 or re.search(OPTIONS, at.report.config):
        return True
    proves = one_run if bound.estimator == "one_run" else rectangles
    epsilon, tests, words = proves(at.scores.scores, at.scores.member, bound.delta, error)
    ceiling = max(epsilon, proves(at.scores.member.astype(float), at.scores.member, bound.delta, error)[0])
    figures = [figure(bound), figure(bound, "ceiling"), bound.comparisons, words if words is None else bound.selected]
    return figures, [epsilon, ceiling, tests, words], SEARCH


def verdict_follows(at: Any) -> Any:
    """Return whether a verdict is that which bounds, controls and checks give."""
    verdict, bound, epsilon = at.value, at.value.bound, float(at.value.claim.epsilon)
    runs_valid = all(row.status != "failed" for row in at.result.checks)
    families = (None, verdict.claim.family)
    able = [row for row in find_parts(at.result, "bounds") if row.delta == verdict.claim.delta and row.family in families]
    above, reach = any(figure(row) > epsilon for row in able), max((figure(row, "ceiling") for row in able), default=0.0)
    likely = "violated" if above else "out_of_reach" if reach <= epsilon else "consistent"
    likely = likely if sound(at.result) and (runs_valid or above) else "invalid"
    attacks_there = able or find_parts(at.result, "control")
    if verdict.outcome not in (likely, "invalid" if not runs_valid or not attacks_there else None):
        return f"{verdict.outcome} is written, {likely} follows from bounds and claim"
    if (bound is None and able) or (bound is not None and bound not in able):
        return "no game has this bound"
    return above or not able or is_equal(figure(bound), max(map(figure, able))) or "not the largest that could refute the claim"


def outcome_follows(at: Any) -> bool:
    """Return whether the outcome of a training is that of its verdicts."""
    outcomes = [row.outcome for row in sorted(at.value.verdicts, key=lambda row: float(row.claim.epsilon))]
    usual = next((word for word in ("violated", "invalid") if word in outcomes), outcomes[0] if outcomes else None)
    follows = (usual, usual if sound(at.value) else "invalid")
    return not outcomes or not any(game.attacks for game in at.value.games) or at.value.outcome in follows


def config_follows(at: Any) -> Any:
    """Return whether a config's text has the hash of the report, and the seed, delta and confidence there."""
    text, digest, column = at.value.config, at.value.provenance.config_sha256, {**at.value, "seed": at.value.provenance.seed}
    bare = "".join(part for part in re.split(r"(?m)^(?=\w[^\n]*:)", text) if part.partition(":")[0] not in APART)
    if digest not in {hashlib.sha256(content.encode()).hexdigest() for content in (text, bare)}:
        return "its hash is not that of the config in the report"
    settings = dict(re.findall(r"(?m)^(seed|delta|confidence): *([\d.eE+-]+)\s*$", text))
    return [column[name] for name in settings], [json.loads(value) for value in settings.values()]


def coins_fit(at: Any) -> Any:
    """Return whether a share of members comes from coins of the game's chance."""
    rules, share, total = at.game.game, at.game.game.inclusion_probability, at.value.members + at.value.nonmembers
    near = abs(at.value.members - share * total) <= 6 * math.sqrt(share * (1 - share) * total) + 1
    return rules.choices > 1 or rules.inclusion != "coins" or near or f"{at.value.members} of {total} are not from its coins"


def shared_error(at: Any) -> float:
    """Return the error of each side of an area's limits: those of all attacks at all looks hold together."""
    return float((1 - at.report.confidence) / len(at.game.attacks) / (at.game.watched or {"looks": 1})["looks"] / 2)


def bounds_alike(at: Any) -> bool:
    """Return whether coins decided where bounds are, and the attacks with bounds have the same ones."""
    proven = [attack for attack in at.value.attacks if attack.bounds]
    names = [json.dumps([row[key] for key in ("estimator", "family", "assumes")]) for a in proven for row in a.bounds]
    return (not proven or at.game.game.inclusion == "coins") and all(names.count(name) == len(proven) for name in names)


OF_SCORES: dict[str, dict[str, Any]] = {  # of an attack with scores
    "m.g.a": {
        "scores": lambda t: (len(t.scores.scores), math.prod(t.game.game[key] for key in ("canaries", "runs", "choices"))),
        "area": lambda t: (
            [t.value.auc, t.value.auc_lower, t.value.auc_upper],
            [None] * 3
            if min(t.scores.sides) < 2
            else area_limits(area(t.scores.scores, t.scores.member), min(t.scores.sides), shared_error(t)),
            1e-6,
        ),
    },
    "m.g.a.roc": {
        "sides": lambda t: ([t.value.members, t.value.nonmembers], t.scores.sides),
        "curve": lambda t: ([*t.value.fpr, *t.value.tpr], curve(t.scores)),
    },
    "m.g.a.tpr_at[]": {
        "rates": lambda t: (
            [t.value[key] for key in ("tpr", "realised_fpr", "false_positives", "true_positives")],
            rates(t.scores, t.value.target_fpr),
        ),
        "allowed": lambda t: t.game.game.choices * t.game.game.copies > 1 or (t.value.allowed, allowed_rate(t)),
    },
    "m.g.a.bounds[]": {"epsilon, ceiling and guesses": bound_follows},
}
OF_BOUNDS: dict[str, Any] = {
    "delta": lambda t: (t.value.delta, t.report.delta),
    "confidence": lambda t: (t.value.confidence, 1 - (1 - t.report.confidence) / t.report.comparisons),
    "void": lambda t: ("void_epsilon" in t.value, t.result.outcome == "invalid" or not sound(t.result)),
    "family": lambda t: (t.value.family is None, "epsilon" in t.value or ("void_epsilon" in t.value and not t.value.family)),
    "epsilon": lambda t: 0 <= figure(t.value) <= figure(t.value, "ceiling") + CLOSE or "not from 0 to its ceiling",
    "mu": lambda t: t.value.estimator != "gaussian" or gaussian_near(t.value),
}
RULES: dict[str, dict[str, Any]] = {
    "": {
        "schema": lambda t: t.value.schema in ("audit-report/1.0", "audit-report/1.1", "audit-report/2.0"),
        "id": lambda t: (t.value.id, f"PA-{t.value.provenance.config_sha256[:8].upper()}"),
        "config": config_follows,
        "outcome": lambda t: (
            t.value.outcome,
            max((r.outcome for r in t.value.mechanisms if r.outcome), key=GRAVITY.index, default=None),
        ),
        "trainings": lambda t: len({row.name for row in t.value.mechanisms}) == len(t.value.mechanisms),
    },
    "m": {
        "games": lambda t: len({row.name for row in t.value.games}) == len(t.value.games),
        "claims": lambda t: ([row.claim for row in t.value.verdicts], t.value.claims),
        "outcome": outcome_follows,
    },
    "m.verdicts[]": {"outcome and bound": verdict_follows},
    "m.g": {
        "attacks": lambda t: len({row.scorer for row in t.value.attacks}) == len(t.value.attacks),
        "scores.parquet": lambda t: not t.tables or all(t.column(attack) for attack in t.value.attacks) or "lacks an attack",
        "memberships": lambda t: len({column.member.tobytes() for a in t.value.attacks if (column := t.column(a))}) <= 1,
        "bounds": bounds_alike,
    },
    "m.g.records": {"most exposed records": records_fit},
    "m.g.a": {
        "targets": lambda t: ([row.target_fpr for row in t.value.tpr_at], [0.1, 0.01, 0.001]),
        "control": lambda t: t.value.control is not None or not t.value.bounds,
    },
    "m.g.a.roc": {
        "coins": coins_fit,
        "confidence": lambda t: (t.value.confidence, t.report.confidence),
    },
    "m.g.a.control": {"passed": lambda t: (t.value.passed, t.value.false_alarms <= t.value.allowed)},
    "m.g.groups[]": {"counts, area and limits": group_rows},
    "m.g.a.bounds[]": OF_BOUNDS,
    "m.g.watched.bounds[]": OF_BOUNDS,
}


def main(folder: str) -> int:
    """Print what differs, and how many numbers were computed again."""
    _, check = recompute(Path(folder))
    sys.stdout.write("\n".join([*check.problems, check.summary, ""]))
    return int(bool(check.problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
