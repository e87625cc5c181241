"""What is written once or is alike everywhere in a report, and what its config says of it: no number is computed here.

As `audit.execution.recompute`, which it adds to, it imports nothing else of this package.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from audit.execution.recompute import NumberCheck, all_bounds, figure, is_equal, number

_COUNT = re.compile(r"([\d,]+) canaries")
LEFT = {
    "utility": "accuracies",
    "trajectories": "claims over the steps",
    "certificates": "certificates",
    "groups": "areas of groups",
    "claims": "claimed epsilons",
    "tpr_at": "limits of rates",
    "detectable": "detectable shares",
    "estimates": "estimates",
}


def check_form(report: Any, comparison: NumberCheck) -> None:
    """Check what is written once or alike everywhere, and what the config of an audit of scores or of one model says of it."""
    options = dict(re.findall(r"(?m)^(\w+): (.+)$", report["config"])) if report["kind"] in ("scores", "model") else {}
    singles = [("trainings", [result["name"] for result in report["mechanisms"]])]
    comparison.left |= {words for key, words in LEFT.items() if f'"{key}": [{{' in json.dumps(report["mechanisms"])}
    count = sum(len(list(all_bounds(result))) for result in report["mechanisms"])
    comparison.holds("comparisons", count <= report["comparisons"], f"{count} bounds are there")
    for result in report["mechanisms"]:
        areas = [attack["auc"] for game in result["games"] for attack in game["attacks"]]
        preflight = (result["preflight"] or {}).get("auc")
        if preflight is not None and areas:
            comparison.holds("preflight", any(is_equal(preflight, area) for area in areas), "no attack has its area")
        singles.append((f"{result['name']}: games", [game["name"] for game in result["games"]]))
        for game in result["games"]:
            place = f"{result['name']}/{game['name']}"
            singles.append((place, [attack["scorer"] for attack in game["attacks"]]))
            comparison.left |= {"bands of curves"} if game["attacks"] else set()
            _alike(game, place, comparison)
            _groups(game, place, comparison)
            for bound in (row for attack in game["attacks"] for row in attack["bounds"]):
                has_family = bound["family"] is not None
                comparison.equal(
                    f"{place}: family", has_family, "epsilon_inside" in bound or (has_family and "void_epsilon" in bound)
                )
        _trajectories(result, comparison)
        if options:
            _check_options(result, report, options, comparison)
    for index, gate in enumerate(report["policy"]):
        _gate(gate, report, f"policy[{index}]", comparison)
    for place, names in singles:
        comparison.holds(place, len(set(names)) == len(names), "a name is there twice")


def _alike(game: Any, place: str, comparison: NumberCheck) -> None:
    """Check that the attacks of a game have the same targets and form, and that its coins fit its rules."""
    attacks, rules = game["attacks"], game["game"]
    proven = [attack for attack in attacks if attack["bounds"]]
    forms = [{json.dumps([row["target_fpr"] for row in attack["tpr_at"]]) for attack in attacks}]
    forms.append(
        {json.dumps([attack["control"] is None, [bound["assumes"] for bound in attack["bounds"]]]) for attack in proven}
    )
    comparison.holds(place, max(map(len, forms)) <= 1, "its attacks differ in targets, controls or assumptions")
    estimators = [json.dumps([row[key] for key in ("estimator", "delta", "family")]) for a in attacks for row in a["bounds"]]
    balance = all(estimators.count(name) == len(proven) for name in estimators)
    comparison.holds(place, balance, "its attacks have different estimators")
    for attack in attacks:
        ends = [attack["roc"][key][-1] for key in ("fpr", "tpr")]
        comparison.equal(f"{place}/{attack['scorer']}: end of the curve", ends, [1.0, 1.0])
        members, total = attack["roc"]["members"], attack["roc"]["members"] + attack["roc"]["nonmembers"]
        share = rules["inclusion_probability"]
        if rules["choices"] == 1 and rules["inclusion"] == "coins":
            fits = abs(members - share * total) <= 6 * math.sqrt(share * (1 - share) * total) + 1
            comparison.holds(f"{place}: coins", fits, f"{members} members of {total} are not from coins of {share:g}")
        comparison.holds(f"{place}: coins", not attack["bounds"] or rules["inclusion"] == "coins", "bounds without coins")


def _check_options(result: Any, report: Any, options: Mapping[str, str], comparison: NumberCheck) -> None:
    """Compare an audit of scores or of one model with the records and the claim of its config."""
    name = options.get("scores", options.get("model", "")).strip('"')
    comparison.holds("name", name.startswith(result["name"]), f"{result['name']!r} is not what the config names")
    claim_text = options.get("claim_epsilon", "null")
    claims = [[number(claim["epsilon"]), claim["adjacency"], claim["family"]] for claim in result["claims"]]
    follows = [] if claim_text == "null" else [[float(claim_text), options["adjacency"].strip('"'), None]]
    comparison.equal("claims", [row for row in claims if follows or row[0] >= 0], follows)
    for claim in (row for row in result["claims"] if not any(game["game"]["unit"] for game in result["games"])):
        comparison.equal("unit of the claim", claim["unit"], "example")
    for game in result["games"]:
        rules = game["game"]
        counts = {int(text.replace(",", "")) for row in report["coverage"] for text in _COUNT.findall(row["done"])}
        comparison.holds("coverage", counts <= {int(options["records"])}, f"canaries {counts} are not those of the config")
        sizes = [*sorted((rules["canaries"], rules["runs"])), rules["copies"]]
        comparison.equal("records", sizes, [1, int(options["records"]), 1])
        comparison.equal("adjacency", rules["adjacency"], options["adjacency"].strip('"'))
        if options.get("columns", "null") != "null":
            comparison.equal(
                "columns", sorted(attack["scorer"] for attack in game["attacks"]), sorted(json.loads(options["columns"]))
            )
        bounds = sum(len(attack["bounds"]) for attack in game["attacks"])
        comparison.holds("comparisons", bounds in (0, report["comparisons"]), f"{bounds} bounds are there")


def _groups(game: Any, owner: str, comparison: NumberCheck) -> None:
    for group in game["groups"]:
        row = (group["auc_lower"], group["auc"], group["auc_upper"])
        holds = min(group["members"], group["nonmembers"]) >= 0 and (None in row or 0 <= row[0] <= row[1] <= row[2] <= 1)
        comparison.holds(f"{owner}: group {group['group']}", holds, "a negative count, or an area not between its limits")


def _trajectories(result: Any, comparison: NumberCheck) -> None:
    for course in result["trajectories"]:
        values = [number(value) for value in course["epsilon"]]
        place = f"{result['name']}: course of {course['accountant']}"
        comparison.holds(place, all(a <= b + 1e-6 for a, b in pairwise(values)), "epsilon falls over the steps")
        ends = [number(claim["epsilon"]) for claim in result["claims"]]
        close = not values or any(math.isclose(values[-1], end, rel_tol=0.02) for end in ends)
        comparison.holds(place, close or not any(map(math.isfinite, ends)), "does not end at a claim")


def _gate(gate: Any, report: Any, place: str, comparison: NumberCheck) -> None:
    """Compare whether a gate is met with its figure and limit, and the figure with the report."""
    if gate["found"] is None:
        return
    reading, limit = number(gate["found"]), number(gate["limit"])
    name = gate["gate"].lower()
    is_least = "min" in name or ">=" in name or "accuracy" in name
    comparison.equal(f"{place}: met", gate["met"], reading >= limit if is_least else reading <= limit)
    results = [result for result in report["mechanisms"] if result["claims"]] or report["mechanisms"]
    attacks = [attack for result in results for game in result["games"] for attack in game["attacks"]]
    bounds = [figure(bound) for result in report["mechanisms"] for bound in all_bounds(result)]
    sources = {
        "auc": [attack["auc"] for attack in attacks],
        "proven": bounds and [0.0, *bounds],
        "claimed": [number(claim["epsilon"]) for result in report["mechanisms"] for claim in result["claims"]],
    }
    for word, values in sources.items():
        if word in name and values:
            comparison.holds(f"{place}: found", any(is_equal(reading, value) for value in values), f"no {word} has it")
