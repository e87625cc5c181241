"""Records, groups and settings that a report lists, held against its scores and its config.

As `audit.execution.recompute`, which it adds to, it imports nothing else of this package.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from audit.execution.recompute import CLOSE, NumberCheck, area, area_limit, is_equal


def check_records(report: Any, check: NumberCheck) -> None:
    """Compare bands, bins, the exposed records and the groups of each game with its scores."""
    for result in report["mechanisms"]:
        for game in result["games"]:
            keys = [(result["name"], game["name"], attack["scorer"]) for attack in game["attacks"]]
            columns = [check.tables[key] for key in keys if key in check.tables]
            for attack, key in zip(game["attacks"], keys, strict=True):
                _band(attack["roc"], "/".join(key), check)
                if key in check.tables:
                    _bins(attack["histogram"], check.tables[key], "/".join(key), check)
            if columns:
                _record_list(game, columns, f"{result['name']}/{game['name']}", check)
                _groups(game, result, report["confidence"], columns, check)


def _band(curve: Any, place: str, check: NumberCheck) -> None:
    """Check that the band rises with its curve and is about as wide as its level asks for."""
    tpr, lower, upper = (np.array(curve[name]) for name in ("tpr", "lower", "upper"))
    check.holds(place, len(tpr) == len(lower) == len(upper), "points without a band")
    rises = all(bool((np.diff(side) >= -CLOSE).all()) for side in (lower, upper)) and bool(
        ((lower <= tpr + CLOSE) & (tpr <= upper + CLOSE)).all()
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        for side in (lower, upper):
            parts = [
                np.where(mask > 0, mask * np.log(mask / chance), 0.0) for mask, chance in ((tpr, side), (1 - tpr, 1 - side))
            ]
            apart = curve["members"] * sum(parts)
            rises &= bool(((apart >= 1) | (side == tpr) & ((tpr == 0) | (tpr == 1))).all())
    check.holds(f"{place}: band", rises, "it falls, leaves its curve or is narrower than its level allows")


def _bins(bins: Any, column: Any, place: str, check: NumberCheck) -> None:
    finite = column.scores[np.isfinite(column.scores)]
    if np.abs(finite).max(initial=0) > 1e300:
        return
    low, high = np.quantile(finite, (0.005, 0.995)) if len(finite) else (0.0, 1.0)
    half = max(0.5, abs(low) * 1e-9) * (low == high)
    edges = np.linspace(low - half, high + half, 41)
    check.holds(f"{place}: edges", np.allclose(bins["edges"], edges, rtol=1e-9, atol=0), "other bins follow from the scores")
    for name, side in (("members", column.member), ("nonmembers", ~column.member)):
        counts = np.histogram(np.clip(column.scores[side], edges[0], edges[-1]), edges)[0]
        differences = np.abs(counts - bins[name]).sum() if len(bins[name]) == len(counts) else 9
        check.holds(f"{place}: histogram {name}", differences <= 2 and sum(bins[name]) == side.sum(), "other counts follow")


def _record_list(game: Any, columns: list[Any], place: str, check: NumberCheck) -> None:
    """Compare the list of most exposed records with that which an attack's scores of the first run give."""
    lists, rows_of_report = (
        [],
        [[row.get(key) for key in ("rank", "member", "score", "fpr", "record", "label")] for row in game["records"]],
    )
    for column in columns if rows_of_report else ():
        count = len(column.scores) // game["game"]["runs"]
        scores, member = column.scores[:count], column.member[:count]
        order = np.argsort(-scores, kind="stable")[:30].tolist()
        shares = [float((scores[~member] >= scores[i]).sum() / max(1, (~member).sum())) for i in order]
        names = [[*column.records[i : i + 1], *([] if column.labels is None else [column.labels[i]])] for i in order]
        rows = [[k + 1, bool(member[i]), float(scores[i]), shares[k], *names[k]] for k, i in enumerate(order)]
        lists.append((rows, [row[: len(rows[0])] for row in rows_of_report]))
    if lists:
        nearest, rows_shown = max(lists, key=lambda pair: sum(row in pair[1] for row in pair[0]))
        check.numbers += len(nearest)
        check.holds(f"{place}: records", rows_shown == nearest, "other rows follow from the scores")


def _groups(game: Any, result: Any, confidence: float, columns: list[Any], check: NumberCheck) -> None:
    """Compare counts, areas and limits of groups with the scores, and their accuracies with that of all records."""
    groups, sides, place = game["groups"], ("members", "nonmembers"), f"{result['name']}/{game['name']}"
    if not groups:
        return
    curve, rates = game["attacks"][0]["roc"], {row["name"]: row["value"] for row in result["utility"]}
    counts = [sum(group[side] for group in groups) for side in sides]
    parts = round(counts[0] / max(1, curve["members"]))  # columns that divide the records
    check.equal(f"{place}: groups", counts, [parts * curve[side] for side in sides])
    names = [group["group"] for group in groups]
    check.holds(
        f"{place}: groups", len(set(names)) == len(names) and (parts > 1 or names == sorted(names)), "names not in order"
    )
    for group in groups:
        level, pairs = (1 - confidence) / len(groups), min(group[side] for side in sides)
        row = [group[name] for name in ("auc", "auc_lower", "auc_upper")]
        follows: list[float | None] = [None] * 3
        if pairs > 0 and group["auc"] is not None:
            share = group["auc"]
            follows = [share, area_limit(share, pairs, level / 2), 1 - area_limit(1 - share, pairs, level / 2)]
        if parts == 1:
            check.equal(f"{place}: group {group['group']}", row, follows, 1e-6)
        mask = [column.labels == group["group"] for column in columns if column is not None and column.labels is not None]
        if mask and mask[0].any():
            check.equal(
                f"{place}: group",
                [group[side] for side in sides],
                [int((mask[0] & (columns[0].member == side)).sum()) for side in (True, False)],
            )
            areas = [area(column.scores[mask[0]], column.member[mask[0]]) for column in columns if pairs > 0]
            check.holds(
                f"{place}: group {group['group']}",
                not areas or any(is_equal(group["auc"], value) for value in areas),
                "no attack has its area",
            )
    if "accuracy on members" in rates and None not in [group["accuracy"] for group in groups]:
        hits = sum(group["accuracy"] * sum(group[side] for side in sides) for group in groups)
        check.equal(f"{place}: accuracy", hits, parts * sum(rates[f"accuracy on {side}"] * curve[side] for side in sides))


def read_paths(text: str) -> dict[str, str]:
    """Return the leaves of a resolved config, YAML in block style as PyYAML writes it, by path."""
    stack: list[tuple[int, str]] = []
    values: dict[str, str] = {}
    for line in filter(None, text.splitlines()):
        column = len(line) - len(line.lstrip(" "))
        path, entry = ".".join(name for _, name in stack), line.strip()
        if values.get(path) and column > stack[-1][0]:  # a long text goes on
            values[path] += f" {entry}"
            continue
        while entry.startswith("- "):
            items = [int(name) for place, name in stack if place == column and name.isdigit()]
            stack = [row for row in stack if row[0] < column or (row[0] == column and not row[1].isdigit())]
            stack.append((column, str(items[0] + 1 if items else 0)))
            column, entry = column + 2, entry[2:]
        if key := re.match(r"(\w+):(?: |$)", entry):
            stack = [*(row for row in stack if row[0] < column), (column, key[1])]
            entry = entry[key.end() :]
        values[".".join(name for _, name in stack)] = entry
    return values


def read_config(text: str) -> dict[str, str]:
    """Return the leaves of a config by path, without quotation marks."""
    return {path: value.strip("\"'").replace("''", "'") for path, value in read_paths(text).items() if value}
