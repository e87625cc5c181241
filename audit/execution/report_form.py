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
_COVERAGE = re.compile(r"[\d,]+ (?:canaries|secrets) over \d+ training runs?, scorers (.*)")
LEVELS = ("label_only", "final_model", "final_weights", "all_steps")  # of access, each with all before it
REASONS = {  # what an outcome may be explained by
    "consistent": r"no bound lies above the claim; perfect scores would have proved up to \S+( inside the family '\w+')?",
    "out_of_reach": r"even perfect scores would have proved at most \S+( inside the family '\w+')?, so this audit could not"
    " have refuted the claim|membership was decided by a data split, not by recorded coins, so no epsilon can be proven or"
    " refuted",
    "violated": r"\w+ (proves epsilon|refutes the claimed curve) .*, above the claimed \S+",
    "invalid": r".+",  # a doubt in its finder's words
}
LEFT = {
    "evaluation": "figures over several targets",
    "preflight": "figures of the first look",
    "checks": "checks of the training",
    "notes": "remarks",
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
    singles = [("trainings", [result["name"] for result in report["mechanisms"]])]
    text = json.dumps(report)
    present_kinds = {words for key, words in LEFT.items() if re.search(rf'"{key}": (\[?\{{|\["\w)', text)}
    comparison.left |= {"what is said in words"} | present_kinds
    count = sum(len(list(all_bounds(result))) for result in report["mechanisms"])
    comparison.holds("comparisons", count <= report["comparisons"], f"{count} bounds are there")
    first = report["config"].partition(":")[0]
    kind = first if first in ("scores", "model") else "run" if "\nmechanisms:" in report["config"] else report["kind"]
    comparison.holds("kind", report["kind"] == kind, f"the config is of {kind}")
    options = dict(re.findall(r"(?m)^(\w+): (.+)$", report["config"])) if kind in ("scores", "model") else {}
    config = read_paths(report["config"]) if kind == "run" else {}
    check_settings(report, config, comparison)
    _check_coverage(report, comparison)
    for result in report["mechanisms"]:
        for verdict in result["verdicts"]:
            form = re.fullmatch(REASONS[verdict["outcome"]], verdict["reason"])
            comparison.holds(f"{result['name']}: reason", bool(form), f"no reason for {verdict['outcome']}")
        models = sum(game["models"] for game in result["games"])
        is_within = result["models"] <= models and all(row["models"] <= result["models"] for row in result["utility"])
        comparison.holds(f"{result['name']}: models", is_within, "more than its games have")
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
            _groups(game, result, place, comparison)
            for bound in (row for attack in game["attacks"] for row in attack["bounds"] if "void_epsilon" not in row):
                comparison.equal(f"{place}: family", bound["family"] is not None, "epsilon_inside" in bound)
        _trajectories(result, comparison)
        if options:
            _check_options(result, report, options, comparison)
    for index, gate in enumerate(report["policy"]):
        _gate(gate, report, f"policy[{index}]", comparison)
    for place, names in singles:
        comparison.holds(place, len(set(names)) == len(names), "a name is there twice")


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


def check_settings(report: Any, config: Mapping[str, str], comparison: NumberCheck) -> None:
    """Compare the settings on the page, the rules of each game and DP-SGD's parameters with the config of a run."""
    rows = [(f"settings: {path}", path, value) for path, value in report["settings"]]
    names = {
        (path[: -len("name")], value) for path, value in config.items() if re.fullmatch(r"(games|mechanisms)\.\d+\.name", path)
    }
    for result in report["mechanisms"]:
        for game in result["games"]:
            for start in (start for start, name in names if start[0] == "g" and name == game["name"]):
                keys = ("access", "adjacency", "inclusion_probability", "references", "runs")
                rows += [(f"{result['name']}/{game['name']}: {key}", start + key, game["game"][key]) for key in keys]
            for attack in game["attacks"]:
                comparison.equal("confidence of a curve", attack["roc"]["confidence"], report["confidence"])
        event = result["mechanism"] or {}
        if event.get("type") == "DpSgd":
            rows += [
                (f"{result['name']}: {key}", start + key, event[key])
                for start, name in names
                for key in ("noise_multiplier", "clip_norm")
                if start[0] == "m" and name == result["name"] and config.get(start + key) != "null"
            ]
            for own in (f"{start}training." for start, name in names if start[0] == "m" and name == result["name"]):
                steps = own + "steps" if config.get(own + "steps") != "null" else "training.steps"
                if config.get(steps, "null") != "null" and config.get(own + "epochs") == "null":
                    rows.append((f"{result['name']}: steps", steps, event["steps"]))
    if config and report["data"]:
        paths = [f"data.{key}" for key in ("train", "pool") if config.get(f"data.{key}", "").isdigit()]
        rows += [(path, path, report["data"][path[5:]]) for path in paths]
    if config:
        title = config["title"] if _plain(config["title"]) != "none" else config["name"]
        rows.append(("title", "title", report["title"]))
        config = {**config, "title": title}
    for place, path, value in rows:
        if not config.get(path, '"').startswith('"'):
            comparison.equal(place, _plain(str(value)), _plain(config[path]))


def _plain(text: str) -> str:
    """Return a value of a config in one spelling."""
    text = " ".join(text.strip("'").replace("''", "'").lower().split())
    try:
        return str(float(text))
    except ValueError:
        return "none" if text in ("", "null", "[]", "{}") else text


def _check_coverage(report: Any, comparison: NumberCheck) -> None:
    """Check that the attacks that coverage names are those of the report, and that no other class says it was run."""
    attacks = {attack["scorer"] for result in report["mechanisms"] for game in result["games"] for attack in game["attacks"]}
    rows = [(row["attack_class"], row["status"], _COVERAGE.fullmatch(row["done"])) for row in report["coverage"]]
    comparison.equal("coverage", {name for _, _, text in rows if text for name in text[1].split(", ")}, attacks)
    for name, status, text in rows:
        comparison.equal(f"coverage: {name}", status == "run", text is not None)


def _alike(game: Any, place: str, comparison: NumberCheck) -> None:
    """Check that the attacks of a game have the same targets and form, and that its coins fit its rules."""
    attacks, rules = game["attacks"], game["game"]
    comparison.holds(f"{place}: models", game["models"] <= rules["runs"] + rules["references"], "more than runs and references")
    sees_sums = rules["access"] not in LEVELS[:3]
    comparison.holds(f"{place}: noise", sees_sums or not rules["independent_noise"], "independent without steps")
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
        levels = [LEVELS.index(name) for name in (attack["access"], rules["access"]) if name in LEVELS]
        comparison.holds(f"{place}/{attack['scorer']}: access", levels == sorted(levels), "more than the game gives")
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
    if "model" in options:
        comparison.holds("model", report["model"].startswith(name), "not the model of the config")
        data = report["data"]
        comparison.equal("data.sha256", data["sha256"], options["sha256"].strip('"'))
        if options["overlap"] == '"refuse"':
            comparison.equal("data", data["train"] + data["pool"], int(options["records"]))
        rates = {row["value"] for row in result["utility"]}
        read = [(result["preflight"] or {}).get(side) for side in ("members", "nonmembers")]
        comparison.holds("preflight", not rates or rates.issuperset(filter(None, read)), "no accuracy of the training")
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
        texts = [game["note"], *map(json.dumps, (report["notes"], result["checks"]))]
        says = rules["inclusion"] != "split" or all("data split" in text for text in texts)
        comparison.holds("notes", says, "not said everywhere that a split decided")
        sizes = [*sorted((rules["canaries"], rules["runs"])), rules["copies"]]
        comparison.equal("records", sizes, [1, int(options["records"]), 1])
        comparison.equal("adjacency", rules["adjacency"], options["adjacency"].strip('"'))
        if options.get("columns", "null") != "null":
            comparison.equal(
                "columns", sorted(attack["scorer"] for attack in game["attacks"]), sorted(json.loads(options["columns"]))
            )
        bounds = sum(len(attack["bounds"]) for attack in game["attacks"])
        comparison.holds("comparisons", bounds in (0, report["comparisons"]), f"{bounds} bounds are there")


def _groups(game: Any, result: Any, owner: str, comparison: NumberCheck) -> None:
    """Check counts and areas of groups, and that their accuracies are that of all records."""
    groups, sides = game["groups"], ("members", "nonmembers")
    if groups and game["attacks"]:
        curve = game["attacks"][0]["roc"]
        counts = [sum(group[side] for group in groups) for side in sides]
        parts = round(counts[0] / max(1, curve["members"]))  # columns that divide the records
        comparison.equal(f"{owner}: groups", counts, [parts * curve[side] for side in sides])
        rates = {row["name"]: row["value"] for row in result["utility"]}
        if "accuracy on members" in rates and None not in [group["accuracy"] for group in groups]:
            hits = sum(group["accuracy"] * sum(group[side] for side in sides) for group in groups)
            follows = parts * sum(rates[f"accuracy on {side}"] * curve[side] for side in sides)
            comparison.equal(f"{owner}: accuracy", hits, follows)
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
