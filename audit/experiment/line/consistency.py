"""Rules that hold in every untouched report: of what it says in several places or of its config, and no figure decides."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from audit import plugins
from audit.config import read, yaml_text
from audit.core.access import Access, smallest_access
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Outcome
from audit.core.event_forms import encode
from audit.core.game import Inclusion
from audit.core.lower_bounds import read_course, read_epsilon
from audit.core.results import AuditReport
from audit.core.seeds import SHORTEST_SEED
from audit.experiment.line.folder_again import section
from audit.experiment.line.report import model_name

# checks that each training has, by its audit's kind, and one that claims something
ROWS = {"scores": set[str](), "model": {"membership", "blind"}, "training": {"coins"}, "run": {"finite"}, "table": set[str]()}
CLAIM_ROWS = {"unit", "adjacency", "accountants", "release", "floating-point"}
SHARES = ("accuracy", "AUC", "macro-F1")  # figures that are shares
FIRST = {"scores": "scores", "model": "model", "trained": "training", "synthetic": "table"}  # setting of kinds that are no run
GATE = r"--gate[ =]'?(auc|\w+_epsilon|tpr@([\d.]+)%) ?<= ?([\d.]+)(%?)"
OPTIONS = "--config"  # of a command: a file of options, which may hold gates
VERSION, HASH = r"\d+\.\d+\S*", "[0-9a-f]{64}|"

Rule = tuple[str, Any]  # what is compared, and whether it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A report with its config, and which kind it is by that."""

    report: AuditReport
    config: Mapping[str, Any]
    kind: str

    def get(self, name: str, default: Any = None) -> Any:
        value = self.config.get(name)
        return default if value is None else value


def contradictions(report: AuditReport) -> tuple[int, list[str], list[str]]:
    """Return how many rules a report was compared with, a line for each that it breaks, and all that is left open."""
    config = yaml_text.read(report.config)[0] or {}
    first = FIRST.get(next(iter(config), ""))
    kind = first or ("run" if config.get("mechanisms") and config.get("version") else report.kind)
    if kind not in ROWS:
        return 0, [], []
    at = At(report=report, config=config, kind=kind)
    rules = [("report", rule) for rule in (*_provenance_rules(at), *_report_rules(at))]
    for result in report.mechanisms:
        rules += [(result.name, rule) for rule in _training_rules(at, result)]
        rules += [(f"{result.name}/{game.name}", rule) for game in result.games for rule in _game_rules(at, result, game)]
    problems = [f"{place}: {words}: does not go with the rest" for place, (words, holds) in rules if not holds]
    return len(rules), problems, ["gates of a file of options"] * (kind != "run" and OPTIONS in report.provenance.command)


def unique(rows: Sequence[Any], *names: str) -> bool:
    """Return whether no row, or no value of its fields, is there twice."""
    keys = [repr([getattr(row, name) for name in names] if names else row) for row in rows]
    return len(set(keys)) == len(keys)


def rises(values: Sequence[float]) -> bool:
    return all(a <= b + 1e-6 for a, b in pairwise(values))


def _provenance_rules(at: At) -> Iterator[Rule]:
    report, provenance, packages = at.report, at.report.provenance, dict(at.report.provenance.packages)
    yield "created", re.fullmatch(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", report.created)
    yield "command", provenance.command.startswith("audit")
    yield "versions", all(re.match(VERSION, text) for text in packages.values())
    yield "packages", {"numpy", "scipy"} <= packages.keys()
    yield "version", re.fullmatch(r"\d+\.\d+\.\d+\S*", provenance.version)
    yield "python", re.fullmatch(r"3\.\d+\.\d+\S*", provenance.python) and provenance.threads >= 1
    seeds = [at.get(name) for name in ("coins_sha256", "randomised_seed")]
    fits = at.kind == "run" or (None in seeds and (seeds[1] is None or seeds[1] >= SHORTEST_SEED))
    if at.kind in ("scores", "training"):
        fits &= at.get("proven_by") is None and at.get("scorers") is None
        fits &= not at.get("references", 0) or at.kind != "training" or at.get("order") == "distance"
    yield "settings", fits
    leaves = {path: read.in_words(value) for path, value in read.find_leaves(at.config).items()}
    part = [path for path, origin in report.origins if origin != "default"]
    lines = [line for _, line in report.config_lines]
    fits = sorted(path for path, _ in report.origins) == sorted(leaves) and [path for path, _ in report.settings] == part
    fits &= rises(lines) and bool(lines) <= bool(part) and all(leaves.get(path) == value for path, value in report.settings)
    yield "settings and origins", fits if at.kind == "run" else not (report.origins or report.settings or lines)


def _report_rules(at: At) -> Iterator[Rule]:
    report, of_run, notes, about = at.report, at.kind == "run", at.report.notes, at.get("about", {})
    games = [game for result in report.mechanisms for game in result.games]
    yield "kind", report.kind == at.kind and (report.table is not None) == (at.kind == "table")
    yield "title", not of_run or report.title == (at.get("title") or at.config["name"])
    declared = asdict(report.engagement) if report.engagement else {}
    yield "engagement", not of_run or declared == (about if any(about.values()) else {})
    yield "data", data_agree(at)
    yield "trainings, games and attacks", not of_run or trainings_agree(at)
    yield "model", model_agrees(at, games)
    yield "comparisons", comparisons_agree(at, games)
    yield "gates", gates_agree(at)
    yield "ledger", of_run or report.ledger is None
    yield "coverage", unique(report.coverage, "attack_class")
    yield "notes", unique(notes)
    by_coins = all(game.game.inclusion is Inclusion.COINS for game in games)
    yield "split", at.kind != "model" or by_coins or "data split" in "".join(notes)
    seals = {f"{row.item}: {row.value}." for result in report.mechanisms for row in result.checks if row.code == "blind"}
    yield "sealed canaries", "commitment" not in at.config or seals <= set(notes)


def data_agree(at: At) -> bool:
    data, split = at.report.data, at.get("data", {})
    if data is None or at.kind in ("table", "scores", "training"):
        return (data is None) == (at.kind in ("scores", "training"))
    sizes = all(getattr(data, name) == split[name] for name in ("train", "pool", "test") if isinstance(split.get(name), int))
    total = at.get("overlap") != "refuse" or data.train + data.pool == at.get("records")
    has_names = data.name == at.get("audited", data.name) and data.sha256 == at.get("sha256", data.sha256)
    return bool(sizes and total and has_names and re.fullmatch(HASH, data.sha256) and (at.kind == "run" or data.test == 0))


def model_agrees(at: At, games: Sequence[Any]) -> bool:
    """Return whether the model's name is that of the config, and its classes those of outputs, groups and labels."""
    text, data, model = at.report.model, at.report.data, at.get("model", {})
    if at.kind == "run":
        return re.sub(r"[\d,]+ parameters$", "0 parameters", text) == model_name(model, 0)
    if at.kind != "model" or data is None:
        return bool(text)
    labels = {row.label for game in games for row in game.records}
    labels |= {row.group for game in games for row in game.groups if " " not in row.group}
    outputs = re.search(r", ([\d,]+) outputs$", text)
    count = int(outputs[1].replace(",", "")) if outputs else data.classes
    fits = data.classes >= len(labels) and count == data.classes if data.classes else not (labels and outputs)
    return text.startswith(model) and fits


def comparisons_agree(at: At, games: Sequence[Any]) -> bool:
    """Return whether the error is shared by the bounds that are there: fewer only if some were left out for a reason."""
    if at.report.table is not None:
        return at.report.comparisons == len(at.report.table.risks)
    count = sum(len(result.all_bounds) for result in at.report.mechanisms)
    has_gap = any(game.watched or game.game.choices > 1 for game in games) or any(map(has_reason, at.report.mechanisms))
    return at.report.comparisons == max(count, 1) or (has_gap and at.report.comparisons > count)


def has_reason(result: Any, game: str = "") -> bool:
    """Return whether a training's checks say why attacks in a game, or in any, are not there."""
    codes = [row.code if game else row.code[:9] for row in result.checks]
    return f"left-out-{game}" in codes or any(row.status == "failed" for row in result.checks)


def find_names(parts: Any) -> list[str]:
    return [part if isinstance(part, str) else part.get("name") or part["kind"] for part in parts or ()]


def trainings_agree(at: At) -> bool:
    """Return whether each training of a run is one of its config, for a party or for all, with each attack of its games."""
    names, results = [str(part["name"]) for part in at.get("mechanisms", ())], at.report.mechanisms
    bases = [next((base for base in names if f"{row.name} (".startswith(f"{base} (")), "") for row in results]
    if set(bases) != set(names) or bases != sorted(bases, key=names.index):
        return False
    for game in at.get("games", ()):
        for name in game.get("mechanisms") or names:
            own = [result for base, result in zip(bases, results, strict=True) if base == name]
            parts = [part for result in own for part in result.games if part.name == game["name"]]
            scorers = {row.scorer for part in parts for row in part.attacks}
            complete = scorers and set(find_names(game.get("scorers"))) <= scorers
            if not complete and not any(has_reason(result, game["name"]) for result in own):
                return False
    return True


def gates_agree(at: At) -> bool:
    """Return whether gates are those of the config and the command; a command may leave some to a file of options."""
    command, policy = at.report.provenance.command, {k: float(v) for k, v in at.get("policy", {}).items() if v is not None}
    for name, rate, limit, percent in re.findall(GATE, command):
        policy[name if rate else f"max_{name}"] = float(limit) / (100 if percent else 1)
    limits = {gate.gate: gate.limit for gate in at.report.policy}
    names = plugins.names(plugins.FOLDERS["gates"])
    names_fit = at.kind == "run" or all(name in names or re.fullmatch(r"tpr@[\d.]+%", name) for name in limits)
    complete = at.kind == "run" or OPTIONS not in command
    return (
        names_fit and unique(at.report.policy, "gate") and (limits == policy if complete else policy.items() <= limits.items())
    )


def _training_rules(at: At, result: Any) -> Iterator[Rule]:
    title, models = at.report.title if at.kind == "model" else next(iter(at.config.values()), ""), 0 if result.training else -1
    yield "name", at.kind == "run" or result.name == title
    yield "training", not result.training or result.name.startswith(f"{result.training} (")
    yield "mechanism", (result.mechanism is None) == (at.kind != "run")
    yield "models", result.models in (sum(game.models for game in result.games), models)
    yield "claims", claims_agree(at, result)
    event = {} if result.mechanism is None else dict(encode(result.mechanism))
    yield "checks", rows_agree(at, result, event)
    yield "utility and preflight", utility_agrees(at, result)
    courses = result.bound_trajectories
    yield "bounds over the steps", unique(courses, "label") and all(course_ends(row, result, event) for row in courses)


def claims_agree(at: At, result: Any) -> bool:
    """Return whether claims are alike, and those of an audit of something given are the ones declared to it."""
    claims, claim = result.claims, at.get("claim_epsilon")
    fits = unique(claims) and len({(row.adjacency, row.unit) for row in claims}) <= 1
    fits &= all(row.delta == at.report.delta and (at.kind == "run" or row.source == DECLARED) for row in claims)
    if at.kind not in ("scores", "model", "training") or "claim_epsilon" not in at.config:
        return fits
    rows = [(row.epsilon, str(row.adjacency), row.family) for row in claims]
    usual = {"example", "forgotten record"} if at.kind == "training" else {"example"}
    fits &= any(game.game.unit for game in result.games) or all(row.unit in usual for row in claims)
    return fits and rows == ([] if claim is None else [(float(claim), at.config["adjacency"], None)])


def rows_agree(at: At, result: Any, event: Mapping[str, Any]) -> bool:
    """Return whether the rows that each audit of its kind has are there, their words and status as their figures say."""
    by_example = event.get("kind") in ("DpSgd", "NonPrivate") and event.get("unit", "example") == "example"
    codes, has_seal = {row.code for row in result.checks}, "commitment" in at.config
    demands = ROWS[at.kind] | (CLAIM_ROWS if result.claims and event else set()) | ({"steps"} if by_example else set())
    demands |= ({"blind", "order"} if has_seal else set()) | ({"decoys"} if at.get("decoys", 0) else set())
    fits = demands <= codes and unique(result.checks, "code", "item")
    fits &= at.kind != "scores" or bool(codes & {"game", "coins"})
    for row in result.checks:
        if match := re.fullmatch(r"(\d+) taken, (\d+) accounted", row.value):
            fits &= (row.status == "checked") == (match[1] == match[2])
            fits &= int(match[2]) == event.get("steps", int(match[2]))
        if match := re.match(r"AUC \S+ p = (\S+), tested at 1%", row.value):
            fits &= (row.status == "failed") == (float(match[1]) < 0.01)
        if match := re.fullmatch(r"all (\d+) models stayed finite", row.value):
            fits &= int(match[1]) in [game.models for game in result.games]
        if by_example and (match := re.search(r"(\S+) accounted$", row.value)):
            name = {"noise": "noise_multiplier", "sampling": "sample_rate"}.get(row.code, "")
            fits &= math.isclose(float(match[1]), event.get(name, float(match[1])), rel_tol=1e-3)
        if row.code == "membership" and at.kind == "model":
            fits &= row.value.startswith("a data split") == (result.games[0].game.inclusion is Inclusion.SPLIT)
        if row.code == "coins" and has_seal:
            fits &= str(at.get("commitment", "")) in row.value
    return bool(fits)


def read_rates(result: Any) -> dict[str, float]:
    return {row.name: row.value for row in result.utility}


def utility_agrees(at: At, result: Any) -> bool:
    """Return whether accuracies are shares, and the first look has those of the training and the area of an attack."""
    rows, look, rates = result.utility, result.preflight, read_rates(result)
    fits = unique(rows, "name") and all(row.spread >= 0 and row.models >= 1 for row in rows)
    fits &= all(0 <= row.value <= 1 for row in rows if row.name.startswith(SHARES))
    fits &= at.kind != "model" or len(rows) % 2 == 0
    areas = [attack.auc for game in result.games for attack in game.attacks if attack.auc is not None]
    if look is None:
        return fits and not any(game.attacks for game in result.games)
    fits &= 0 <= look.chance <= 1 and (result.outcome is Outcome.INVALID or not look.doubt)
    if any(game.game.unit for game in result.games):  # is a look at records, where games are about users
        return fits
    fits &= look.auc is None or not areas or any(math.isclose(look.auc, value, rel_tol=1e-9) for value in areas)
    for side in ("members", "nonmembers"):
        usual = None if look.measure in ("accuracy", "") else getattr(look, side)
        fits &= getattr(look, side) == rates.get(f"{look.measure} on {side}", usual)
    classes = re.search(r"logits of (\d+) classes", look.reading)
    fits &= not classes or at.report.data is None or int(classes[1]) == at.report.data.classes
    return bool(fits and (look.measure or look.baseline is None))


def course_ends(course: Any, result: Any, event: Mapping[str, Any]) -> bool:
    """Return whether bounds over the steps end at a bound of the training, after all its steps."""
    values, steps, kind = read_course(course), course.steps, course.label.split(", ")[1]
    last = [read_epsilon(bound) for bound in result.all_bounds if kind.startswith(bound.estimator)]
    fits = len(values) == len(steps) > 0 and rises(steps) and steps[-1] == event.get("steps", steps[-1])
    return fits and any(math.isclose(values[-1], value, rel_tol=1e-9) for value in last)


def _game_rules(at: At, result: Any, game: Any) -> Iterator[Rule]:
    spec = section(at.config, "games", game.name)
    yield "rules", rules_agree(at, result, game, spec)
    estimators = set(find_names((spec or at.config).get("estimators"))) or set(plugins.names(plugins.FOLDERS["estimators"]))
    fits = any(":" in name for name in estimators) or {bound.estimator for bound in game.bounds} <= estimators
    scorers, games = find_names(spec.get("scorers")), [part["name"] for part in at.get("games", ())]
    for order, names in ((scorers, [row.scorer for row in game.attacks]), (games, [row.name for row in result.games])):
        places = [order.index(name) for name in names if name in order]
        fits &= places == sorted(places)
    yield "order and estimators", fits
    yield "models, records and simulated audits", counts_agree(at, game)
    yield "groups", not game.groups or groups_agree(result, game)
    yield "figures over several targets", game.evaluation is None or evaluation_agrees(game, game.evaluation)


def least_access(scorer: str, access: Access, spec: Mapping[str, Any]) -> Access | None:
    """Return the least access that an attack needs, if this package knows it by that name; else None."""
    parts = [part for part in spec.get("scorers") or () if find_names([part]) == [scorer]] or [{"kind": scorer}]
    if parts[0]["kind"] not in plugins.names("attacks.scorers"):
        return None
    needs = plugins.build("attacks.scorers", parts[0]).needs
    signals = needs.of(access.released)
    return smallest_access(needs.sources if signals is None else frozenset(signal.source for signal in signals), access)


def rules_agree(at: At, result: Any, game: Any, spec: Mapping[str, Any]) -> bool:
    rules, external, config = game.game, at.kind != "run", at.config
    fits = rules.substitutes == (external and rules.adjacency is Adjacency.REPLACE_ONE)
    fits &= (rules.choices > 1) == bool(rules.secret) and (rules.aim == "backdoor") == bool(game.trigger)
    fits &= rules.access.name not in ("label_only", "final_model", "final_weights") or not rules.independent_noise
    fits &= rules.copies == 1 or "copies" in config or bool(rules.unit or rules.secret or game.trigger)
    fits &= rules.unit in ("", "user") or ":" in str((spec.get("canaries") or {}).get("kind"))  # others' may have another
    for attack in game.attacks:
        access = least_access(attack.scorer, rules.access, spec) if at.kind in ("run", "model") else rules.access
        fits &= attack.access in ([None, access] if access else [attack.access])
    if not external:
        values = {name: getattr(rules, name) for name in ("references", "inclusion_probability", "runs")}
        values |= {"adjacency": str(rules.adjacency), "count": rules.canaries}
        values |= {"runs": game.watched.planned} if game.watched else {}
        values |= {} if result.training else {"access": rules.access.name}
        fits &= rules.inclusion is Inclusion.COINS and rules.unit in at.report.config
        return fits and all(spec.get(name, value) == value for name, value in values.items())
    fits &= rules.choices == 1 and str(rules.adjacency) == config["adjacency"]
    fits &= at.get("columns") is None or sorted(attack.scorer for attack in game.attacks) == sorted(config["columns"])
    if at.kind == "training":
        return fits and not rules.unit and all(getattr(rules, key) == config[key] for key in ("canaries", "runs", "references"))
    fits &= rules.access.name == "final_model" and rules.inclusion_probability == 0.5 and not rules.independent_noise
    texts = repr([result.checks, at.report.notes])
    fits &= not rules.unit or (at.kind == "model" and rules.unit in texts)
    fits &= bool(rules.references) <= (at.kind == "model" and "reference" in texts)
    return bool(fits and (rules.unit or {rules.canaries, rules.runs} == {1, int(config["records"])}))


def counts_agree(at: At, game: Any) -> bool:
    """Return whether models, records, groups and simulated audits are as many as their game needs."""
    rules, external, of_model = game.game, at.kind != "run", at.kind == "model"
    fits = game.models == rules.runs + rules.references or (game.models == 0 and external and not of_model)
    fits &= unique(game.records, "record") and (bool(game.records) or not of_model) and unique(game.groups, "group")
    fits &= all(re.fullmatch("[0-9a-f]{8,64}", row.record) for row in game.records)
    bounds = bool(game.bounds) and bool(at.get("certificates", 0))
    fits &= bool(game.certificates) == bounds == bool(game.detectable)
    by_class = at.report.data is not None and at.report.data.classes
    fits &= bool(game.groups) or not of_model or not by_class or bool(rules.unit)
    fits &= not external or game.name in ("scores", "membership")
    fits &= not of_model or (rules.inclusion is Inclusion.SPLIT) == ("data split" in game.note)
    return bool(fits and (game.evaluation or external or not (rules.references and game.groups)))


def groups_agree(result: Any, game: Any) -> bool:
    """Return whether the accuracies of groups are those of all records together, and groups hold all of them."""
    groups, first, rates = game.groups, game.attacks[0].roc, read_rates(result)
    sides = [sum(group.members for group in groups), sum(group.nonmembers for group in groups)]
    parts = round(sides[0] / max(1, first.members))  # columns that divide the records
    names, shares = [group.group for group in groups], [group.accuracy for group in groups]
    fits = sides == [parts * first.members, parts * first.nonmembers] and (parts > 1 or names == sorted(names))
    fits &= all(share is None or 0 <= share <= 1 for share in shares)
    if "accuracy on members" not in rates or None in shares:
        return fits
    hits = sum(group.accuracy * (group.members + group.nonmembers) for group in groups)
    total = rates["accuracy on members"] * first.members + rates["accuracy on nonmembers"] * first.nonmembers
    return fits and math.isclose(hits, parts * total, rel_tol=1e-9, abs_tol=1e-9)


def evaluation_agrees(game: Any, value: Any) -> bool:
    """Return whether figures over several targets are between their ends."""
    names, targets = {attack.scorer for attack in game.attacks}, value.targets + value.spared
    fits = names - {"auto"} <= {row.scorer for row in value.scorers} <= names and value.leading in names
    fits &= unique(value.scorers, "scorer") and unique(value.records, "record") and game.game.runs <= targets <= game.models
    for row in (*(row for scorer in value.scorers for row in scorer.figures), *(row.auc for row in value.groups)):
        reach = (row.highest - row.lowest) * max(row.targets / max(row.targets - 1, 1), 1) ** 0.5 / 2
        fits &= row.lowest <= row.mean <= row.highest and 0 <= row.std <= reach + 1e-9 and row.targets <= targets
    usage = None if value.usage is None else value.usage.target
    return fits and len(value.groups) <= len(game.groups) and (usage is None or usage.lower <= usage.share <= usage.upper)
