"""What a report says in several places, or of the config that it was made by: rules that hold in every untouched report.

They find what no figure follows from: kinds, names, counts of models, rows that are missing, sections that were left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from audit import plugins
from audit.config import read, yaml_text
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Outcome
from audit.core.event_forms import encode
from audit.core.game import Inclusion
from audit.core.lower_bounds import read_course, read_epsilon
from audit.core.results import AuditReport
from audit.core.seeds import SHORTEST_SEED
from audit.experiment.line.report import model_name
from audit.experiment.line.run_source import section

ROWS = {
    "scores": set[str](),
    "model": {"membership", "blind"},
    "training": {"coins"},
    "run": {"finite"},
    "table": set[str](),
}  # of each training
CLAIM_ROWS = {"unit", "adjacency", "accountants", "release", "floating-point"}  # of one that claims something
SHARES = ("accuracy", "AUC", "macro-F1")  # figures that are shares
OUTPUTS = ("label_only", "final_model", "final_weights", "all_steps")  # of access, each with all before it
FIRST = {
    "scores": "scores",
    "model": "model",
    "trained": "training",
    "synthetic": "table",
}  # setting of each kind that is no run
GATE = r"--gate[ =]'?(auc|\w+_epsilon|tpr@([\d.]+)%) ?<= ?([\d.]+)(%?)"
OPTIONS = "--config"  # of a command: a file of options, which may hold gates
VERSION, HASH = r"\d+\.\d+\S*", "[0-9a-f]{64}|"


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A part of a report, with what is around it."""

    report: AuditReport
    config: Mapping[str, Any]
    kind: str  # as the config says
    result: Any = None
    game: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting of the config, or the default if there is none or it is null."""
        value = self.config.get(name)
        return default if value is None else value

    @property
    def rows(self) -> dict[str, Any]:
        """Return the checks of the training by code."""
        return {row.code: row for row in self.result.checks}

    @property
    def rates(self) -> dict[str, float]:
        """Return the utility figures of the training by name."""
        return {row.name: row.value for row in self.result.utility}

    @property
    def event(self) -> dict[str, Any]:
        """Return the mechanism of the training as a report writes it; nothing if there is none."""
        return {} if self.result.mechanism is None else dict(encode(self.result.mechanism))

    @property
    def by_example(self) -> bool:
        """Return whether the mechanism has one noise, rate and number of steps, for single records."""
        return self.event.get("kind") in ("DpSgd", "NonPrivate") and self.event.get("unit", "example") == "example"

    @property
    def names(self) -> str:
        """Return the names of training and game."""
        return "/".join(str(part.name) for part in (self.result, self.game) if part is not None) or "report"


Rule = tuple[str, Callable[[At], Any]]


def contradictions(report: AuditReport) -> tuple[int, list[str], list[str]]:
    """Return how many rules a report was held against, a line for each that it breaks, and what they leave open."""
    config = yaml_text.read(report.config)[0] or {}
    first = FIRST.get(next(iter(config), ""))
    kind = first or ("run" if config.get("mechanisms") and config.get("version") else report.kind)
    top = At(report=report, config=config, kind=kind)
    if kind not in ROWS:
        return 0, [], []
    trainings = [At(report=report, config=config, kind=kind, result=result) for result in report.mechanisms]
    games = [
        At(report=report, config=config, kind=kind, result=at.result, game=game) for at in trainings for game in at.result.games
    ]
    pairs = [
        (at, rule) for table, places in ((TOP, [top]), (TRAINING, trainings), (GAME, games)) for at in places for rule in table
    ]
    problems = [f"{at.names}: {words}: does not go with the rest" for at, (words, holds) in pairs if not holds(at)]
    return len(pairs), problems, ["gates of a file of options"] * (kind != "run" and OPTIONS in report.provenance.command)


def unique(rows: Sequence[Any], *names: str) -> bool:
    """Return whether no row, or no value of its fields, is there twice."""
    keys = [repr([getattr(row, name) for name in names] if names else row) for row in rows]
    return len(set(keys)) == len(keys)


def rises(values: Sequence[float]) -> bool:
    """Return whether numbers never fall."""
    return all(a <= b + 1e-6 for a, b in pairwise(values))


def settings_agree(at: At) -> bool:
    """Return whether the settings shown, their origins and the title are those of the config of a run."""
    report = at.report
    if at.kind != "run":
        return not report.origins and not report.settings and not report.config_lines
    leaves = {path: read.in_words(value) for path, value in read.find_leaves(at.config).items()}
    part = [path for path, origin in report.origins if origin != "default"]
    fits = sorted(path for path, _ in report.origins) == sorted(leaves) and [path for path, _ in report.settings] == part
    lines = [line for _, line in report.config_lines]
    fits &= rises(lines) and bool(lines) <= bool(part)
    return fits and all(leaves[path] == value for path, value in report.settings)


def external_settings_agree(at: At) -> bool:
    """Return whether the settings of an audit of something given go together."""
    given = [at.get(name) for name in ("coins_sha256", "randomised_seed")]
    fits = None in given and (given[1] is None or given[1] >= SHORTEST_SEED)
    if at.kind not in ("scores", "training"):
        return at.kind == "run" or fits
    fits &= at.get("proven_by") is None and at.get("scorers") is None
    return fits and (not at.get("references", 0) or at.kind != "training" or at.get("order") == "distance")


def data_agree(at: At) -> bool:
    """Return whether the data are those of the config, as far as it names them."""
    data, split = at.report.data, at.get("data", {})
    if at.kind == "table":
        return data is not None
    if data is None or at.kind in ("scores", "training"):
        return data is None and at.kind in ("scores", "training")
    sizes = all(getattr(data, name) == split[name] for name in ("train", "pool", "test") if isinstance(split.get(name), int))
    total = at.get("overlap") != "refuse" or data.train + data.pool == at.get("records")
    has_names = data.name == at.get("audited", data.name) and data.sha256 == at.get("sha256", data.sha256)
    return bool(sizes and total and has_names and re.fullmatch(HASH, data.sha256) and (at.kind == "run" or data.test == 0))


def model_agrees(at: At) -> bool:
    """Return whether the model's name is that of the config, and its classes those of outputs, groups and labels."""
    text, data, model = at.report.model, at.report.data, at.get("model", {})
    if at.kind == "run":
        return re.sub(r"[\d,]+ parameters$", "0 parameters", text) == model_name(model, 0)
    if at.kind != "model" or data is None:
        return bool(text)
    games = [game for result in at.report.mechanisms for game in result.games]
    labels = {row.label for game in games for row in game.records}
    labels |= {row.group for game in games for row in game.groups if " " not in row.group}
    outputs = re.search(r", ([\d,]+) outputs$", text)
    classes_fit = not data.classes or (
        data.classes >= len(labels) and (not outputs or int(outputs[1].replace(",", "")) == data.classes)
    )
    return text.startswith(model) and classes_fit and bool(data.classes or not labels or not outputs)


def comparisons_agree(at: At) -> bool:
    """Return whether the error is shared by the bounds that are there: fewer only if some were left out for a reason."""
    results, count = at.report.mechanisms, sum(len(result.all_bounds) for result in at.report.mechanisms)
    games = [game for result in results for game in result.games]
    reasons = any(row.status == "failed" or row.code.startswith("left-out-") for result in results for row in result.checks)
    if at.report.table is not None:
        return at.report.comparisons == len(at.report.table.risks)
    reasons |= any(game.watched or game.game.choices > 1 for game in games)
    return at.report.comparisons == max(count, 1) or (reasons and at.report.comparisons > count)


def trainings_agree(at: At) -> bool:
    """Return whether each training of a run is one of its config, and each attack of the config's games is there.

    Parties share a training's name, followed by what they see, and its attacks.
    """
    if at.kind != "run":
        return True
    results, order = {str(part["name"]): list[Any]() for part in at.get("mechanisms", ())}, list[int]()
    for result in at.report.mechanisms:
        name = next((name for name in results if result.name == name or result.name.startswith(f"{name} (")), None)
        if name is None:
            return False
        results[name].append(result)
        order.append(list(results).index(name))
    for game in at.get("games", ()):
        for name in game.get("mechanisms") or results:
            scorers = {
                attack.scorer
                for result in results[name]
                for part in result.games
                if part.name == game["name"]
                for attack in part.attacks
            }
            has_reason = any(
                row.status == "failed" or row.code == f"left-out-{game['name']}"
                for result in results[name]
                for row in result.checks
            )
            expected = {part.get("name") or part["kind"] for part in game.get("scorers") or ()}
            if not has_reason and not (scorers and expected <= scorers):
                return False
    return all(results.values()) and order == sorted(order)


def gates_agree(at: At) -> bool:
    """Return whether gates are those of the config and the command; a command may leave some to a file of options."""
    command, policy = at.report.provenance.command, {k: float(v) for k, v in at.get("policy", {}).items() if v is not None}
    for name, rate, limit, percent in re.findall(GATE, command):
        policy[name if rate else f"max_{name}"] = float(limit) / (100 if percent else 1)
    limits = {gate.gate: gate.limit for gate in at.report.policy}
    names = plugins.names(plugins.FOLDERS["gates"])
    known = all(name in names or re.fullmatch(r"tpr@[\d.]+%", name) for name in limits)
    complete = at.kind == "run" or OPTIONS not in command
    fits = limits == policy if complete else policy.items() <= limits.items()
    return fits and unique(at.report.policy, "gate") and (known or at.kind == "run")


def claims_agree(at: At) -> bool:
    """Return whether claims are alike, and those of an audit of something given are the ones declared to it."""
    claims, claim = at.result.claims, at.get("claim_epsilon")
    kinds = {(row.adjacency, row.unit, row.delta) for row in claims}
    alike = unique(claims) and len(kinds) <= 1 and all(row.delta == at.report.delta for row in claims)
    alike &= at.kind == "run" or all(row.source == DECLARED for row in claims)
    if at.kind not in ("scores", "model", "training") or not alike or "claim_epsilon" not in at.config:
        return alike
    rows = [(row.epsilon, str(row.adjacency), row.family) for row in claims]
    usual = {"example", "forgotten record"} if at.kind == "training" else {"example"}
    units = any(game.game.unit for game in at.result.games) or all(row.unit in usual for row in claims)
    return units and rows == ([] if claim is None else [(float(claim), at.config["adjacency"], None)])


def event_agrees(at: At) -> bool:
    """Return whether noise, clip norm and steps of DP-SGD are those of the config."""
    spec = section(at.config, "mechanisms", at.result.name)
    training = at.get("training", {}) | {key: value for key, value in (spec.get("training") or {}).items() if value is not None}
    settings = {name: spec.get(name) for name in ("noise_multiplier", "clip_norm")}
    settings |= {"steps": training.get("steps")} if training.get("epochs") is None else {}
    if not at.by_example or at.event["kind"] != "DpSgd":
        return True
    return all(value is None or math.isclose(at.event[name], value) for name, value in settings.items())


def rows_agree(at: At) -> bool:
    """Return whether the rows that each audit of its kind has are there, their words and status as their figures say."""
    rows, result, event = at.rows, at.result, at.event
    codes = ROWS[at.kind] | (CLAIM_ROWS if result.claims and result.mechanism is not None else set())
    codes |= {"blind", "order"} if "commitment" in at.config else set()
    codes |= {"decoys"} if at.get("decoys", 0) else set()
    codes |= {"steps"} if at.by_example else set()
    fits = codes <= rows.keys() and unique(result.checks, "code", "item")
    fits &= at.kind != "scores" or bool(rows.keys() & {"game", "coins"})
    for row in result.checks:
        if match := re.fullmatch(r"(\d+) taken, (\d+) accounted", row.value):
            fits &= (row.status == "checked") == (match[1] == match[2])
            fits &= int(match[2]) == event.get("steps", int(match[2]))
        if match := re.match(r"AUC \S+ p = (\S+), tested at 1%", row.value):
            fits &= (row.status == "failed") == (float(match[1]) < 0.01)
        if match := re.fullmatch(r"all (\d+) models stayed finite", row.value):
            fits &= int(match[1]) in [game.models for game in result.games]
        if match := re.search(r"(\S+) accounted$", row.value):
            name = {"noise": "noise_multiplier", "sampling": "sample_rate"}.get(row.code, "")
            fits &= not at.by_example or math.isclose(float(match[1]), event.get(name, float(match[1])), rel_tol=1e-3)
        if row.code == "membership" and at.kind == "model":
            fits &= row.value.startswith("a data split") == (result.games[0].game.inclusion is Inclusion.SPLIT)
        if row.code == "coins" and "commitment" in at.config:
            fits &= str(at.get("commitment", "")) in row.value
    return bool(fits)


def utility_agrees(at: At) -> bool:
    """Return whether accuracies are shares, and the first look has those of the training and the area of an attack."""
    rows, look = at.result.utility, at.result.preflight
    fits = unique(rows, "name") and all(row.spread >= 0 and row.models >= 1 for row in rows)
    fits &= all(0 <= row.value <= 1 for row in rows if row.name.startswith(SHARES)) and (
        at.kind != "model" or len(rows) % 2 == 0
    )
    areas = [attack.auc for game in at.result.games for attack in game.attacks if attack.auc is not None]
    if look is None:
        return fits and not any(game.attacks for game in at.result.games)
    fits &= 0 <= look.chance <= 1 and (at.result.outcome is Outcome.INVALID or not look.doubt)
    if any(game.game.unit for game in at.result.games):  # is a look at records, where games are about users
        return fits
    fits &= look.auc is None or not areas or any(math.isclose(look.auc, value, rel_tol=1e-9) for value in areas)
    for side in ("members", "nonmembers"):
        usual = None if look.measure in ("accuracy", "") else getattr(look, side)
        fits &= getattr(look, side) == at.rates.get(f"{look.measure} on {side}", usual)
    classes = re.search(r"logits of (\d+) classes", look.reading)
    fits &= not classes or at.report.data is None or int(classes[1]) == at.report.data.classes
    return bool(fits and (look.measure or look.baseline is None))


def courses_agree(at: At) -> bool:
    """Return whether bounds over the steps end at the bounds of the training, after all its steps."""
    total = at.event.get("steps")
    for course in at.result.bound_trajectories:
        values, kind = read_course(course), course.label.split(", ")[1]
        last = [read_epsilon(bound) for bound in at.result.all_bounds if kind.startswith(bound.estimator)]
        fits = len(values) == len(course.steps) > 0 and rises(course.steps) and course.steps[-1] == (total or course.steps[-1])
        if not fits or not any(math.isclose(values[-1], value, rel_tol=1e-9) for value in last):
            return False
    return unique(at.result.bound_trajectories, "label")


def rules_agree(at: At) -> bool:
    """Return whether a game's rules fit its audit and its attacks."""
    rules, external = at.game.game, at.kind != "run"
    names, has_unit = [attack.scorer for attack in at.game.attacks], bool(rules.unit or rules.secret or at.game.trigger)
    fits = rules.substitutes == (external and rules.adjacency is Adjacency.REPLACE_ONE)
    fits &= (rules.choices > 1) == bool(rules.secret) and (rules.aim == "backdoor") == bool(at.game.trigger)
    fits &= rules.access.name not in OUTPUTS[:3] or not rules.independent_noise
    fits &= rules.copies == 1 or "copies" in at.config or has_unit
    canaries = section(at.config, "games", at.game.name).get("canaries") or {}
    fits &= rules.unit in ("", "user") or ":" in str(canaries.get("kind"))  # canaries of others may have another
    fits &= all(attack.access is None or attack.access.released <= rules.access.released for attack in at.game.attacks)
    if not external:
        return fits and rules.inclusion is Inclusion.COINS and rules.unit in at.report.config and game_agrees(at)
    fits &= rules.choices == 1 and str(rules.adjacency) == at.config["adjacency"]
    fits &= at.get("columns") is None or sorted(names) == sorted(at.config["columns"])
    if at.kind == "training":
        return bool(
            fits and not rules.unit and all(getattr(rules, key) == at.config[key] for key in ("canaries", "runs", "references"))
        )
    fits &= rules.access.name == "final_model" and rules.inclusion_probability == 0.5 and not rules.independent_noise
    texts = repr([at.result.checks, at.report.notes])
    fits &= not rules.unit or (at.kind == "model" and rules.unit in texts)
    fits &= bool(rules.references) <= (at.kind == "model" and "reference" in texts)
    return bool(fits and (rules.unit or {rules.canaries, rules.runs} == {1, int(at.config["records"])}))


def game_agrees(at: At) -> bool:
    """Return whether the rules of a run's game are those of its config."""
    rules = at.game.game
    spec = section(at.config, "games", at.game.name)
    values = {"adjacency": str(rules.adjacency), "runs": at.game.watched.planned if at.game.watched else rules.runs}
    values |= {
        "references": rules.references,
        "inclusion_probability": rules.inclusion_probability,
        "count": rules.canaries,
    }
    values |= {} if at.result.training else {"access": rules.access.name}
    return all(spec.get(name, value) == value for name, value in values.items())


def order_agrees(at: At) -> bool:
    """Return whether games and attacks are in the order of the config, and bounds by estimators that it asks for."""
    spec = section(at.config, "games", at.game.name) or at.config
    estimators = {part if isinstance(part, str) else part.get("name") or part["kind"] for part in spec.get("estimators") or ()}
    known = estimators or set(plugins.names(plugins.FOLDERS["estimators"]))
    fits = any(":" in name for name in estimators) or {bound.estimator for bound in at.game.bounds} <= known
    scorers = [part.get("name") or part["kind"] for part in spec.get("scorers") or () if isinstance(part, dict)]
    names = [attack.scorer for attack in at.game.attacks if attack.scorer in scorers]
    games = [part["name"] for part in at.get("games", ())]
    places = [games.index(game.name) for game in at.result.games if game.name in games]
    return bool(fits and names == [name for name in scorers if name in names] and places == sorted(places))


def counts_agree(at: At) -> bool:
    """Return whether models, records, groups and simulated audits are as many as their game needs."""
    game, rules, external = at.game, at.game.game, at.kind != "run"
    fits = game.models == rules.runs + rules.references or (game.models == 0 and at.kind not in ("run", "model"))
    fits &= unique(game.records, "record") and (bool(game.records) or at.kind != "model")
    fits &= all(re.fullmatch("[0-9a-f]{8,64}", row.record) for row in game.records) and unique(game.groups, "group")
    bounds = bool(game.bounds) and bool(at.get("certificates", 0))
    fits &= bool(game.certificates) == bounds and bool(game.detectable) == bounds
    by_class = at.report.data is not None and at.report.data.classes
    fits &= bool(game.groups) or at.kind != "model" or not by_class or bool(rules.unit)
    fits &= not external or game.name in ("scores", "membership")
    fits &= at.kind != "model" or (rules.inclusion is Inclusion.SPLIT) == ("data split" in game.note)
    fits &= bool(game.evaluation) or external or not (rules.references and game.groups)
    return bool(fits)


def groups_agree(at: At) -> bool:
    """Return whether the accuracies of groups are those of all records together, and groups hold all of them."""
    groups = at.game.groups
    if not groups:
        return True
    first = at.game.attacks[0].roc
    sides = [sum(group.members for group in groups), sum(group.nonmembers for group in groups)]
    parts = round(sides[0] / max(1, first.members))  # columns that divide the records
    names, shares = [group.group for group in groups], [group.accuracy for group in groups]
    fits = sides == [parts * first.members, parts * first.nonmembers] and (parts > 1 or names == sorted(names))
    fits &= all(share is None or 0 <= share <= 1 for share in shares)
    if "accuracy on members" not in at.rates or None in shares:
        return fits
    hits = sum(group.accuracy * (group.members + group.nonmembers) for group in groups)
    total = at.rates["accuracy on members"] * first.members + at.rates["accuracy on nonmembers"] * first.nonmembers
    return fits and math.isclose(hits, parts * total, rel_tol=1e-9, abs_tol=1e-9)


def figures_over_targets(value: Any) -> Iterator[Any]:
    """Yield the rows of an evaluation that have a mean between two ends."""
    yield from (row for scorer in value.scorers for row in scorer.figures)
    yield from (row.auc for row in value.groups)


def evaluation_agrees(at: At) -> bool:
    """Return whether figures over several targets lie between their ends."""
    value, game = at.game.evaluation, at.game
    if value is None:
        return True
    names, targets = {attack.scorer for attack in game.attacks}, value.targets + value.spared
    scorers = {row.scorer for row in value.scorers}
    fits = names - {"auto"} <= scorers <= names and value.leading in names and unique(value.scorers, "scorer")
    fits &= game.game.runs <= targets <= game.models and unique(value.records, "record")
    for row in figures_over_targets(value):
        reach = (row.highest - row.lowest) * max(row.targets / max(row.targets - 1, 1), 1) ** 0.5 / 2
        fits &= row.lowest <= row.mean <= row.highest and 0 <= row.std <= reach + 1e-9 and row.targets <= targets
    usage = None if value.usage is None else value.usage.target
    return fits and len(value.groups) <= len(game.groups) and (usage is None or usage.lower <= usage.share <= usage.upper)


TOP: tuple[Rule, ...] = (
    ("settings", external_settings_agree),
    ("kind", lambda at: at.report.kind == at.kind and (at.report.table is not None) == (at.kind == "table")),
    ("created", lambda at: re.fullmatch(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\dZ", at.report.created)),
    ("command", lambda at: at.report.provenance.command.startswith("audit")),
    ("versions", lambda at: all(re.match(VERSION, text) for _, text in at.report.provenance.packages)),
    ("packages", lambda at: {"numpy", "scipy"} <= dict(at.report.provenance.packages).keys()),
    ("version", lambda at: re.fullmatch(r"\d+\.\d+\.\d+\S*", at.report.provenance.version)),
    ("python", lambda at: re.fullmatch(r"3\.\d+\.\d+\S*", at.report.provenance.python) and at.report.provenance.threads >= 1),
    ("settings and origins", settings_agree),
    ("title", lambda at: at.kind != "run" or at.report.title == (at.get("title") or at.config["name"])),
    ("engagement", lambda at: at.kind != "run" or engagement_agrees(at)),
    ("data", data_agree),
    ("trainings, games and attacks", trainings_agree),
    ("model", model_agrees),
    ("comparisons", comparisons_agree),
    ("gates", gates_agree),
    ("ledger", lambda at: at.kind == "run" or at.report.ledger is None),
    ("coverage", lambda at: unique(at.report.coverage, "attack_class")),
    ("notes", lambda at: unique(at.report.notes)),
    ("split", lambda at: at.kind != "model" or by_coins(at) or "data split" in "".join(at.report.notes)),
    ("sealed canaries", lambda at: "commitment" not in at.config or sealed_rows(at) <= set(at.report.notes)),
)
TRAINING: tuple[Rule, ...] = (
    (
        "name",
        lambda at: (
            at.kind == "run" or at.result.name == (at.report.title if at.kind == "model" else next(iter(at.config.values())))
        ),
    ),
    ("training", lambda at: not at.result.training or at.result.name.startswith(f"{at.result.training} (")),
    ("mechanism", lambda at: (at.result.mechanism is None) == (at.kind != "run") and event_agrees(at)),
    ("models", lambda at: at.result.models in (sum(game.models for game in at.result.games), 0 if at.result.training else -1)),
    ("claims", claims_agree),
    ("checks", rows_agree),
    ("utility and preflight", utility_agrees),
    ("bounds over the steps", courses_agree),
)
GAME: tuple[Rule, ...] = (
    ("rules", rules_agree),
    ("order and estimators", order_agrees),
    ("models, records and simulated audits", counts_agree),
    ("groups", groups_agree),
    ("figures over several targets", evaluation_agrees),
)


def by_coins(at: At) -> bool:
    """Return whether coins decided in each game."""
    return all(game.game.inclusion is Inclusion.COINS for result in at.report.mechanisms for game in result.games)


def engagement_agrees(at: At) -> bool:
    """Return whether what the owner declares of the audit itself is what the config has."""
    about, engagement = at.get("about", {}), at.report.engagement
    return ({} if engagement is None else asdict(engagement)) == (about if any(about.values()) else {})


def sealed_rows(at: At) -> set[str]:
    """Return the remarks on sealed canaries that the cover repeats."""
    return {f"{row.item}: {row.value}." for result in at.report.mechanisms for row in result.checks if row.code == "blind"}
