"""What is written twice or is alike everywhere in a report, and what its config says of it: no number is computed here.

As `audit.execution.recompute`, which it adds to, it imports nothing else of this package.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from audit.execution.recompute import NumberCheck, all_bounds, is_equal, number, rate_upper
from audit.execution.report_claims import (
    ReportPlace,
    bounds_course_fits,
    claims_fit,
    cost_fits,
    costs_agree,
    course_fits,
    rises,
    step_count,
    unique,
)
from audit.execution.report_records import check_records, read_config

OUTPUTS = ("label_only", "final_model", "final_weights", "all_steps")  # of access, each with all before it
WHITE = ("final_weights", "all_steps", "released_models", "secure_sum", "each_update")
BLACK = ("label_only", "final_model", "generations", "log_probabilities", "token_distributions")
CLASSES: tuple[tuple[str, tuple[str, ...]], ...] = (  # of attack, in the order of the report; with the secrets of its games
    ("Membership inference, black box", BLACK), ("Membership inference, white box", WHITE),
    ("Attribute inference", ("attribute",)), ("Property inference", ("property",)),
    ("Model inversion, reconstruction", ("candidate",)), ("Extraction of secrets from texts", ("text secret",)),
    ("Poisoning, backdoor", ("backdoor",)), ("Exfiltration", ()),
)  # fmt: skip
ROWS = {"scores": set[str](), "model": {"membership", "blind"}, "training": {"coins"}, "run": {"finite"}}  # of each training
CLAIM_ROWS = {"unit", "adjacency", "accountants", "release", "floating-point"}  # of one that claims something
SHARES = ("accuracy", "AUC", "macro-F1")  # figures that are shares
RATES = {"tpr@10%": 0.1, "tpr@1%": 0.01, "tpr@0.1%": 0.001, "max_tpr_at_1_percent_fpr": 0.01}
REASONS = {  # what an outcome may be explained by
    "consistent": r"no bound lies above the claim; perfect scores would have proved up to \S+( inside the family '\w+')?",
    "out_of_reach": r"even perfect scores would have proved at most \S+( inside the family '\w+')?, so this audit could not"
    " have refuted the claim|membership was decided by a data split, not by recorded coins, so no epsilon can be proven or"
    " refuted",
    "violated": r"\w+ (proves epsilon|refutes the claimed curve) .*, above the claimed \S+",
    "invalid": r".+",  # a doubt in its finder's words
}
KINDS = {
    "evaluation": "figures over several targets", "checks": "measurements of the training", "utility": "accuracies",
    "bound_trajectories": "bounds over the steps", "certificates": "simulated audits", "detectable": "detectable shares",
    "estimates": "estimates", "control": "false alarms of controls", "guesses": "guesses of secrets", "limit": "limit curves",
    "risks": "risks of tables", "roc": "bands of curves", "tpr_at": "limits of rates", "costs": "costs",
    "trajectories": "claims over the steps",
}  # fmt: skip


def check_form(report: Any, check: NumberCheck) -> None:
    """Check what is written twice or alike everywhere, and what the config says of it."""
    text = json.dumps(report)
    check.left |= {words for key, words in KINDS.items() if re.search(rf'"{key}": (\[?\{{|\["\w)', text)} | {
        "what is said in words"
    }
    config = read_config(report["config"])
    first = {"scores": "scores", "model": "model", "trained": "training"}.get(next(iter(config), ""))
    kind = first or ("run" if "mechanisms.0.name" in config else report["kind"])
    check_records(report, check)
    if kind in ROWS:
        _walk(report, "", ReportPlace(report=report, config=config, kind=kind), check)
        check_settings(report, config, check)


def _walk(value: Any, path: str, at: ReportPlace, check: NumberCheck) -> None:
    """Apply the rules of a path to a value, and to all within it."""
    for rule_path, fits in RULES:
        if rule_path == path:
            check.holds(path, fits(value, at), f"{str(value)[:90]} does not go with the rest")
    part = {"m": "result", "m.g": "game", "m.g.a": "attack"}.get(path)
    for row in value if isinstance(value, list) else [value]:
        inside = replace(at, **{part: row}) if part else at
        for name, inner in row.items() if isinstance(row, dict) else ():
            _walk(inner, f"{path}.{SHORT.get(name, name)}".removeprefix("."), inside, check)


def row_fits(row: Any, at: ReportPlace) -> bool:
    """Return whether a check's status and words are those of its figures."""
    value, status, fits = row["value"], row["status"], row["status"] in ("checked", "declared", "gap", "failed")
    if steps_match := re.fullmatch(r"(\d+) taken, (\d+) accounted", value):
        fits &= (status == "checked") == (steps_match[1] == steps_match[2]) and int(steps_match[2]) == (
            step_count(at) or int(steps_match[2])
        )
    if chance := re.match(r"AUC \S+ p = (\S+), tested at 1%", value):
        fits &= (status == "failed") == (float(chance[1]) < 0.01)
    if finite := re.fullmatch(r"all (\d+) models stayed finite", value):
        fits &= int(finite[1]) in [game["models"] for game in at.result["games"]]
    if match := re.search(r"(\S+) accounted$", value):
        name = {"noise": "noise_multiplier", "sampling": "sample_rate"}.get(row["code"], "")
        fits &= math.isclose(float(match[1]), (at.result["mechanism"] or {}).get(name, float(match[1])), rel_tol=1e-3)
    if row["code"] == "accountants" and len(at.accountants) > 1:
        ends = sorted(number(claim["epsilon"]) for claim in at.result["claims"] if claim["source"] in at.accountants)
        fits &= value == f"{len(ends)} accountants state {ends[0]:.3g} to {ends[-1]:.3g}"
    if row["code"] == "unit" and at.result["claims"]:
        fits &= value == f"one training {at.result['claims'][0]['unit']}"
    if row["code"] == "membership" and at.kind == "model":
        fits &= value.startswith("a data split") == (at.result["games"][0]["game"]["inclusion"] == "split")
    words = [row["value"] for row in at.result["checks"] if row["code"] == "coins"] if "commitment" in at.config else []
    return bool(fits and all(at.config["commitment"].replace("null", "") in text for text in words))


def look_fits(look: Any, at: ReportPlace) -> bool:
    """Return whether the first look has the figures of the attacks and the accuracies."""
    rates = {row["name"]: row["value"] for row in at.result["utility"]}
    areas = [attack["auc"] for game in at.result["games"] for attack in game["attacks"]]
    fits = look["auc"] is None or not areas or any(is_equal(look["auc"], value) for value in areas)
    if any(game["game"]["unit"] for game in at.result["games"]):  # is a look at records, where games are about users
        return bool(0 <= look["chance"] <= 1)
    for side in ("members", "nonmembers"):
        usual = None if look["measure"] in ("accuracy", "") else look[side]
        fits &= look[side] == rates.get(f"{look['measure']} on {side}", usual)
    classes = re.search(r"logits of (\d+) classes", look["reading"])
    fits &= not classes or int(classes[1]) == at.report["data"]["classes"]
    return fits and bool(look["measure"] or look["baseline"] is None) and 0 <= look["chance"] <= 1


def rules_fit(rules: Any, at: ReportPlace) -> bool:
    """Return whether a game's rules fit its audit and its attacks."""
    external, names = at.kind != "run", [attack["scorer"] for attack in at.game["attacks"]]
    fits = rules["substitutes"] == (external and rules["adjacency"] == "replace_one")
    fits &= (rules["choices"] > 1) == bool(rules["secret"]) and (rules["aim"] == "backdoor") == bool(at.game["trigger"])
    fits &= rules["access"] not in OUTPUTS[:3] or not rules["independent_noise"]
    fits &= rules["copies"] == 1 or "copies" in at.config or bool(rules["unit"] or rules["secret"] or at.game["trigger"])
    if not external:
        return bool(fits and rules["inclusion"] == "coins" and (not rules["unit"] or rules["unit"] in at.report["config"]))
    if at.config.get("columns", "null") != "null":
        fits &= sorted(names) == sorted(json.loads(at.config["columns"]))
    fits &= rules["choices"] == 1 and rules["adjacency"] == at.config["adjacency"]
    if at.kind == "training":
        return bool(
            fits and not rules["unit"] and all(str(rules[key]) == at.config[key] for key in ("canaries", "runs", "references"))
        )
    fits &= rules["access"] == "final_model" and rules["inclusion_probability"] == 0.5 and not rules["independent_noise"]
    texts = json.dumps([at.result["checks"], at.report["notes"]])
    fits &= not rules["unit"] or (at.kind == "model" and rules["unit"] in texts)
    fits &= bool(rules["references"]) <= (at.kind == "model" and "reference" in texts)
    return bool(fits and (rules["unit"] or {rules["canaries"], rules["runs"]} == {1, int(at.config["records"])}))


def audits_fit(row: Any, at: ReportPlace) -> bool:
    """Return whether limits on simulated audits' error follow from their counts."""
    wrong, trials, law = row["wrong"], row["repetitions"], re.search(r"epsilon ([\d.]+)(?:, of (\d+) copies)?", row["law"])
    plain = not row["epsilon"] or bool(re.search("claimed|mu|allows", row["law"]))
    fits = is_equal(row["epsilon"], float(law[1]) / int(law[2] or 1)) if law else plain
    tenth = -(-trials // 10)
    limits = [
        [1 - rate_upper(n - k, n, 0.005), rate_upper(k, n, 0.005)]
        for k, n in [(wrong, trials), *((k, tenth) for k in range(min(wrong, tenth) + 1))]
    ]
    pairs = [limits[0], *([max(pair) for pair in zip(limits[0], later, strict=True)] for later in limits[1:])]
    share = row["nominal"] * at.report["comparisons"] / (1 - at.report["confidence"])
    fits &= any(is_equal([row["lower"], row["upper"]], pair, 1e-6) for pair in pairs) and abs(share - round(share)) < 1e-6
    return bool(fits and 0.5 < share < len(at.bounds) + 0.5 and trials <= int(at.config.get("certificates", trials)))


def evaluation_fits(value: Any, at: ReportPlace) -> bool:
    """Return whether figures over several targets lie between their ends."""
    names, targets = [attack["scorer"] for attack in at.game["attacks"]], value["targets"] + value["spared"]
    rows = [row for scorer in value["scorers"] for row in scorer["figures"]] + [row["auc"] for row in value["groups"]]
    fits = (
        {*names} - {"auto"} <= {row["scorer"] for row in value["scorers"]} <= {*names}
        and value["leading"] in names
        and unique(value["scorers"], "scorer")
    )
    fits &= at.game["game"]["runs"] <= targets <= at.game["models"] and unique(value["records"], "record")
    for row in rows:
        reach = (row["highest"] - row["lowest"]) * max(row["targets"] / max(row["targets"] - 1, 1), 1) ** 0.5 / 2
        fits &= row["lowest"] <= row["mean"] <= row["highest"] and 0 <= row["std"] <= reach + 1e-9 and row["targets"] <= targets
    fits &= (
        value["usage"] is None
        or value["usage"]["target"]["lower"] <= value["usage"]["target"]["share"] <= value["usage"]["target"]["upper"]
    )
    return bool(fits and len(value["groups"]) <= len(at.game["groups"]))


def comparisons_fit(count: int, at: ReportPlace) -> bool:
    """Return whether the error is shared by the bounds that are there: fewer only if some were left out for a reason."""
    bounds = [bound for result in at.report["mechanisms"] for bound in all_bounds(result)]
    reasons = re.search(r'"left-out-|"status": "failed"|"watched": \{|"choices": (?!1[,}])', json.dumps(at.report))
    return count == max(len(bounds), 1) or (bool(reasons) and count > len(bounds))


def covers(at: ReportPlace) -> bool:
    """Return whether attack classes are listed as games were played."""
    games = [(result["training"] or result["name"], game) for result in at.report["mechanisms"] for game in result["games"]]
    if any(game["game"]["access"] not in WHITE + BLACK for _, game in games):
        return True
    follows = []
    for name, secrets in CLASSES:
        own = [(training, game) for training, game in games if _secret(game["game"]) in secrets]
        trainings = {(training, game["name"]): game["game"] for training, game in own}.values()
        canaries, runs = sum(row["canaries"] * row["runs"] for row in trainings), sum(row["runs"] for row in trainings)
        noun = "canaries" if all(row["choices"] == 1 for row in trainings) else "secrets"
        attacks = ", ".join(sorted({attack["scorer"] for _, game in own for attack in game["attacks"]}))
        text = f"{canaries:,} {noun} over {runs} training {'run' if runs == 1 else 'runs'}, scorers {attacks}"
        absent = ["none", "not run"] if secrets else ["outside the scope of a model test", "out of scope"]
        follows.append([name, *([text, "run"] if own else absent)])
    rows_shown = [[row["attack_class"], row["done"], row["status"]] for row in at.report["coverage"]]
    return rows_shown[: len(CLASSES)] == follows and unique(rows_shown)


def _secret(rules: Any) -> str:
    """Return a game's secret, which tells its class."""
    return str(rules["access"] if rules["choices"] == 1 and rules["aim"] == "membership" else rules["secret"] or rules["aim"])


def gates_fit(gates: Any, at: ReportPlace) -> bool:
    """Return whether gates are those in config or command, with the report's figures."""
    policy = {path[7:]: float(value) for path, value in at.config.items() if path.startswith("policy.") and value != "null"}
    for name, rate, limit, percent in re.findall(
        r"--gate[ =]'?(auc|\w+_epsilon|tpr@([\d.]+)%) ?<= ?([\d.]+)(%?)", at.report["provenance"]["command"]
    ):
        policy[name if rate else f"max_{name}"] = float(limit) / (100 if percent else 1)
    results = [result for result in at.report["mechanisms"] if result["claims"]] or at.report["mechanisms"]
    attacks = [attack for result in results for game in result["games"] for attack in game["attacks"]]
    rows_shown = {gate["gate"]: gate["limit"] for gate in gates}
    command = at.report["provenance"]["command"]  # others may stand in a file of options
    is_complete = at.kind == "run" or (" " in command and "--config" not in command)
    fits = rows_shown == policy if is_complete else policy.items() <= rows_shown.items()
    fits &= len(rows_shown) == len(gates)
    for gate in gates:
        name, end = gate["gate"], min if gate["gate"].startswith("min_") else max
        rates = [row["tpr"] for attack in attacks for row in attack["tpr_at"] if row["target_fpr"] == RATES.get(name)]
        values = {
            "max_auc": [attack["auc"] for attack in attacks],
            "max_proven_epsilon": [
                bound["epsilon"] for result in results for bound in all_bounds(result) if "epsilon" in bound
            ],
        } | {
            "max_claimed_epsilon": [
                min(number(row["epsilon"]) for row in result["claims"]) for result in results if result["claims"]
            ],
            "min_accuracy": [row["value"] for result in results for row in result["utility"] if row["name"] == "accuracy"],
        }
        reading = end(values.get(name, [rate for rate in rates if rate is not None]), default=None)
        is_met = reading is not None and (reading >= gate["limit"] if end is min else reading <= gate["limit"])
        fits &= is_equal(gate["found"], reading) and gate["met"] == is_met
    return bool(fits)


def classes_fit(classes: int, at: ReportPlace) -> bool:
    """Return whether there are as many classes as a model has outputs, and no fewer than groups and labels."""
    games = [game for result in at.report["mechanisms"] for game in result["games"]]
    labels = {row["label"] for game in games for row in game["records"]} | {
        row["group"] for game in games for row in game["groups"] if " " not in row["group"]
    }
    outputs = re.search(r", ([\d,]+) outputs$", at.report["model"])
    return (
        classes >= len(labels) * bool(classes)
        and (not outputs or not classes or int(outputs[1].replace(",", "")) == classes)
        and (bool(classes) or not labels or not outputs)
    )


def check_settings(report: Any, config: Mapping[str, str], check: NumberCheck) -> None:
    """Compare the settings on the page, the rules of each game and DP-SGD's parameters with the config of a run."""
    if "mechanisms.0.name" not in config:
        return
    rows = [(f"settings: {path}", path, value) for path, value in report["settings"]]
    names = {(path[: -len("name")], value) for path, value in config.items() if re.fullmatch(r"[gm]\w+\.\d+\.name", path)}
    for result in report["mechanisms"]:
        for game in result["games"]:
            rules = game["game"] | {"count": game["game"]["canaries"]}
            rules |= {"runs": game["watched"]["planned"]} if game["watched"] else {}
            keys = ("access", "adjacency", "inclusion_probability", "references", "runs", "count")[bool(result["training"]) :]
            starts = [start for start, name in names if start[0] == "g" and name == game["name"]]
            rows += [(f"{result['name']}/{game['name']}: {key}", start + key, rules[key]) for start in starts for key in keys]
        event = result["mechanism"] or {}
        for start in (
            start for start, name in names if start[0] == "m" and name == result["name"] and event.get("type") == "DpSgd"
        ):
            keys = tuple(key for key in ("noise_multiplier", "clip_norm") if config.get(start + key) != "null")
            rows += [(f"{result['name']}: {key}", start + key, event[key]) for key in keys]
            steps = start + "training.steps" if config.get(start + "training.steps") != "null" else "training.steps"
            if config.get(steps, "null") != "null" and config.get(start + "training.epochs") == "null":
                rows.append((f"{result['name']}: steps", steps, event["steps"]))
    if report["data"]:
        rows += [
            (f"data.{key}", f"data.{key}", report["data"][key])
            for key in ("train", "pool", "test")
            if config.get(f"data.{key}", "").isdigit()
        ]
    rows.append(("title", "title" if plain(config["title"]) != "none" else "name", report["title"]))
    for place, path, value in rows:
        check.equal(place, plain(str(value)), plain(config.get(path, str(value))))


def plain(text: str) -> str:
    """Return a value of a config in one spelling."""
    text = " ".join(text.lower().split())
    try:
        return str(float(text))
    except ValueError:
        return "none" if text in ("", "null", "[]", "{}") else text


def has_claims(at: ReportPlace) -> bool:
    """Return whether anything is claimed of any training."""
    return any(result["claims"] for result in at.report["mechanisms"])


def own_settings(at: ReportPlace) -> list[str]:
    """Return the settings that the user gave."""
    return [path for path, origin in at.report["origins"] if origin != "default"]


def is_total(at: ReportPlace) -> bool:
    """Return whether members and nonmembers are all records of the config."""
    return bool(at.report["data"]["train"] + at.report["data"]["pool"] == int(at.config["records"]))


def models(at: ReportPlace) -> int:
    """Return the models that a game needs."""
    return int(at.game["game"]["runs"] + at.game["game"]["references"])


def is_within(access: str, most: str) -> bool:
    """Return whether an access is part of another."""
    return not {access, most} <= {*OUTPUTS} or OUTPUTS.index(access) <= OUTPUTS.index(most)


def blind(at: ReportPlace) -> list[Any]:
    """Return the rows of checks that the cover repeats."""
    return [row for result in at.report["mechanisms"] for row in result["checks"] if row["code"] == "blind"]


def coins(at: ReportPlace) -> bool:
    """Return whether coins decided in each game."""
    games = [game for result in at.report["mechanisms"] for game in result["games"]]
    return all(game["game"]["inclusion"] == "coins" for game in games)


SHORT = {"mechanisms": "m", "games": "g", "attacks": "a"}
RULES: tuple[tuple[str, Any], ...] = (  # of the value at a path
    ("created", lambda v, at: re.fullmatch(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", v)),
    ("kind", lambda v, at: v == at.kind),
    ("comparisons", comparisons_fit),
    ("coverage", lambda v, at: covers(at)),
    ("costs", lambda v, at: bool(v) or at.config.get("output.costs") != "course" or not has_claims(at)),
    ("costs", lambda v, at: all(cost_fits(cost, at) for cost in v)),
    ("policy", gates_fit),
    ("origins", lambda v, at: unique(v) and sorted(row[0] for row in v) == (sorted(at.config) if at.kind == "run" else [])),
    ("settings", lambda v, at: unique(v) and [row[0] for row in v] == own_settings(at)),
    ("config_lines", lambda v, at: unique(v) and rises([row[1] for row in v]) and bool(v) <= bool(at.report["settings"])),
    ("data", lambda v, at: (v is None) == (at.kind in ("scores", "training"))),
    ("data.classes", classes_fit),
    ("data.test", lambda v, at: at.kind == "run" or v == 0),
    ("data.name", lambda v, at: v == at.config.get("audited", v)),
    ("data.sha256", lambda v, at: re.fullmatch("[0-9a-f]{64}|", v) and v == at.config.get("sha256", v)),
    ("data.train", lambda v, at: at.config.get("overlap") != "refuse" or is_total(at)),
    ("model", lambda v, at: v.partition(" (")[0] == at.config["model"].partition(" (")[0] if at.kind == "model" else True),
    ("provenance.command", lambda v, at: v.startswith("audit")),
    ("provenance.packages", lambda v, at: unique(v) and {"numpy", "scipy"} <= {row[0] for row in v}),
    ("provenance.packages", lambda v, at: all(re.match(r"\d+\.\d", row[1]) for row in v)),
    ("provenance.python", lambda v, at: re.fullmatch(r"3\.\d+\.\d+\S*", v)),
    ("provenance.version", lambda v, at: re.fullmatch(r"\d+\.\d+\.\d+\S*", v)),
    ("provenance.threads", lambda v, at: v >= 1),
    ("m", lambda v, at: unique(v, "name")),
    ("m.name", lambda v, at: at.config.get({"run": "-"}.get(at.kind, next(iter(at.config))), v).startswith(v)),
    ("m.training", lambda v, at: at.kind == "run" or not v),
    ("m.mechanism", lambda v, at: (v is None) == (at.kind != "run")),
    ("m.models", lambda v, at: v == sum(game["models"] for game in at.result["games"]) or (v == 0 and at.result["training"])),
    ("m.claims", claims_fit),
    ("m.claims", lambda v, at: all(costs_agree(row, at.result["mechanism"]) for row in v)),
    ("m.checks", lambda v, at: unique(v, "code", "item") and at.rows.keys() >= ROWS[at.kind]),
    ("m.checks", lambda v, at: "steps" in at.rows or (at.result["mechanism"] or {}).get("type") not in ("DpSgd", "NonPrivate")),
    ("m.checks", lambda v, at: all(row_fits(row, at) for row in v)),
    ("m.checks", lambda v, at: not at.result["claims"] or at.result["mechanism"] is None or at.rows.keys() >= CLAIM_ROWS),
    ("m.checks", lambda v, at: at.kind != "scores" or at.rows.keys() & {"game", "coins"}),
    ("m.checks", lambda v, at: "commitment" not in at.config or {"blind", "order"} <= at.rows.keys()),
    ("m.checks", lambda v, at: at.config.get("decoys", "0") == "0" or "decoys" in at.rows),
    ("m.verdicts", lambda v, at: all(re.fullmatch(REASONS[row["outcome"]], row["reason"]) for row in v)),
    ("m.utility", lambda v, at: unique(v, "name") and all(row["spread"] >= 0 and row["models"] >= 1 for row in v)),
    ("m.utility", lambda v, at: all(0 <= row["value"] <= 1 for row in v if row["name"].startswith(SHARES))),
    ("m.utility", lambda v, at: at.kind != "model" or len(v) % 2 == 0),
    ("m.trajectories", lambda v, at: unique(v, "accountant")),
    ("m.trajectories", lambda v, at: {row["accountant"] for row in v} in (set(), {*at.accountants})),
    ("m.trajectories", lambda v, at: v or (at.result["mechanism"] or {}).get("type") != "DpSgd" or not at.accountants),
    ("m.trajectories", lambda v, at: all(course_fits(row, at) for row in v)),
    ("m.bound_trajectories", lambda v, at: unique(v, "label") and all(bounds_course_fits(row, at) for row in v)),
    ("m.limit", lambda v, at: v is None or (rises(v["fpr"]) and rises(v["tpr"]) and v["tpr"][-1] == 1)),
    ("m.preflight", lambda v, at: look_fits(v, at) if v else not any(game["attacks"] for game in at.result["games"])),
    ("notes", lambda v, at: unique(v) and (at.kind != "model" or "data split" in "".join(v) or coins(at))),
    ("notes", lambda v, at: "commitment" not in at.config or {*v} >= {f"{row['item']}: {row['value']}." for row in blind(at)}),
    ("m.outcome", lambda v, at: v == "invalid" or not (at.result["preflight"] or {"doubt": ""})["doubt"]),
    ("m.g", lambda v, at: unique(v, "name")),
    ("m.g.name", lambda v, at: at.kind == "run" or v in ("scores", "membership")),
    ("m.g.note", lambda v, at: at.kind != "model" or (at.game["game"]["inclusion"] == "split") == ("data split" in v)),
    ("m.g.models", lambda v, at: v == models(at) or (v == 0 and at.kind not in ("run", "model"))),
    ("m.g.game", rules_fit),
    ("m.g.a", lambda v, at: unique(v, "scorer")),
    ("m.g.a.access", lambda v, at: is_within(v, at.game["game"]["access"])),
    ("m.g.a.access", lambda v, at: v in WHITE + BLACK or v == at.game["game"]["access"]),
    ("m.g.certificates", lambda v, at: unique(v) and bool(v) == bool(at.bounds and at.config.get("certificates", "0") != "0")),
    ("m.g.certificates", lambda v, at: all(audits_fit(row, at) for row in v)),
    ("m.g.detectable", lambda v, at: unique(v) and {row["estimator"] for row in v} <= {row["estimator"] for row in at.bounds}),
    ("m.g.detectable", lambda v, at: bool(v) == bool(at.game["certificates"])),
    ("m.g.detectable.claim", lambda v, at: v in (0.0, *(number(row["epsilon"]) for row in at.result["claims"]))),
    ("m.g.detectable.power", lambda v, at: v == 0.8),
    ("m.g.detectable.draws", lambda v, at: 20 <= v <= 1000),
    ("m.g.records", lambda v, at: unique(v, "record") and (bool(v) or at.kind != "model")),
    ("m.g.records.record", lambda v, at: re.fullmatch("[0-9a-f]{8,64}", v)),
    ("m.g.groups", lambda v, at: unique(v, "group")),
    ("m.g.groups", lambda v, at: v or at.kind != "model" or not at.report["data"]["classes"] or at.game["game"]["unit"]),
    ("m.g.groups", lambda v, at: all(row["accuracy"] is None or 0 <= row["accuracy"] <= 1 for row in v)),
    ("m.g.evaluation", lambda v, at: v is None or evaluation_fits(v, at)),
    ("m.g.evaluation", lambda v, at: v or at.kind != "run" or not (at.game["game"]["references"] and at.game["groups"])),
)  # fmt: skip
