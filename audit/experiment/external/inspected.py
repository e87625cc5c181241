"""A model that a user brought, as a game of one run: the line of a run from its attacks on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from attacks.signals._nonmember_medians import NonmemberMedians
from attacks.signals.logits import Logits, Losses
from audit.bounds.budget import Budget
from audit.checks import blind
from audit.checks.membership import IMPLAUSIBLE, dependence_tail
from audit.core.canaries import Assignment
from audit.core.data import Array, Records
from audit.core.errors import ConfigError
from audit.core.phrases import join_clauses, phrase
from audit.core.preflight import Preflight, TriedReading
from audit.core.provenance import DataSummary
from audit.core.results import AuditReport, Check, Status
from audit.core.seeds import Seed
from audit.core.views import Scores
from audit.data.members import MemberEvidence
from audit.experiment.describe import description
from audit.experiment.external.accuracy_remarks import like_sides
from audit.experiment.external.external_game import external_game, external_scorers, unserved_reason
from audit.experiment.external.external_models import RecordedOutputs
from audit.experiment.external.input_readings import with_input_reading
from audit.experiment.external.model_answers import Answers
from audit.experiment.external.nonmember_medians import cross_fitted_medians
from audit.experiment.external.side_signs import find_side_signs
from audit.experiment.external.units import read_users, remarks_on, user_records, with_users
from audit.experiment.games import attack, stopping
from audit.experiment.games.hypothesis import StatedClaims
from audit.experiment.games.observed import GameModels, Observations
from audit.experiment.games.prepared_game import ExternalRecords, PreparedGame
from audit.experiment.games.records import RecordTable
from audit.experiment.games.settings import Settings
from audit.experiment.games.spec import GameDesign
from audit.experiment.line import game, judge, preflight
from audit.experiment.line import report as reporting
from audit.experiment.line.provenance import make_provenance
from audit.experiment.line.side_agreement import ReadRecords
from audit.stats.scoring.signals import cross_entropy, scaled_confidence

SPLIT_NOTE = (
    "Membership was decided by a data split, not by recorded coins: there is no randomness to reason from, so no epsilon "
    "follows. The figures below describe this attack on these records."
)
BIASED_NOTE = (
    "Members can be told from nonmembers without the model: the split is biased, and the attack figures below are not leakage. "
    "Take members and nonmembers from the same source at random."
)
BIAS_CHECK = "members can be told from nonmembers without the model, so scores show the split's bias"
DEPENDENT_NOTE = (
    "The references were trained on records that follow the target's coins, as where every record is in exactly half of all "
    "models: attacks that compare could tell the coins from the references alone, so no epsilon follows. Train references on "
    "independent coins, or leave them out for an epsilon from the target alone."
)
FOLLOWING_NOTE = (
    "The references were trained on records that follow the target's, as where all models hold the members: attacks that "
    "compare tell members from the references alone, so their figures are no leakage. Train each reference on records that "
    "coins of its own draw from both sides, or leave references out."
)
DEPENDENT_CHECK = "the references' memberships follow the target's coins, so comparisons tell coins without the target"
FOLLOWING_CHECK = "the references' memberships follow the target's, so comparisons tell members without the target"
UNKNOWN = Check(code="membership", item="Membership decided by", value="nobody says", status=Status.GAP)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inspection:
    """A report and what it was made from.

    Attributes:
        names: `(n,)` keyed names of the audited records, or of users if coins decided on those; `included` `(n,)` bool;
            `labels` `(n,)` or None.
        scores: attack to `(n,)` scores.
        not_run: attack to the reason why it was skipped.
        repeats: attack that ranks the records exactly as another does, and the name of that; both have the same figures.
    """

    report: AuditReport
    names: tuple[str, ...]
    included: Array
    labels: Array | None
    scores: Mapping[str, Array]
    not_run: Mapping[str, str] = field(default_factory=dict)
    repeats: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InspectedCase:
    """Models that a user brought, the target first, and the records they are asked about.

    Attributes:
        included: `(models, n)` which record each model was trained on.
        labels: `(n,)`, None if no one gave them.
        membership: how it was decided, as a row of the assumptions table; `by_coins` whether by recorded coins.
        trainer: the function that trained the references here; "" if a user brought them.
        answers: of the target.
        input_reading: of x, that fits the target's answers far better; None if there is none.
    """

    models: RecordedOutputs
    included: Array
    evidence: MemberEvidence
    labels: Array | None
    membership: Check = UNKNOWN
    by_coins: bool = False
    remarks: tuple[str, ...] = ()
    trainer: str = ""
    answers: Answers | None = None
    input_reading: TriedReading | None = None


def inspect_case(case: InspectedCase, settings: Settings) -> Inspection:
    """The report on the case: every attack that the models can serve, and what follows from its scores."""
    by_coins, is_dependent = case.by_coins, _follow_members(case)
    case = replace(case, by_coins=by_coins and not is_dependent)
    dependence_note, dependence_check = (DEPENDENT_NOTE, DEPENDENT_CHECK) if by_coins else (FOLLOWING_NOTE, FOLLOWING_CHECK)
    users = read_users(case.evidence.units)
    settings = _complete_settings(settings, users is not None, len(case.included) - 1)
    brought_records = user_records(_records(case), users, settings.claim_unit)
    game_design = external_game(settings, brought_records, len(case.included), case.models.released, by_coins=case.by_coins)
    record_models = _record_models(case, settings, game_design)
    models = record_models if users is None else with_users(record_models, users, brought_records.canaries)
    models, scores, repeats = _attack_models(models, settings)
    game_design = models.prepared_game.game_design
    budget = Budget(
        delta=settings.delta, confidence=settings.confidence, comparisons=game_design.bounds, certificates=settings.certificates
    )
    stated_claims = StatedClaims(claims=settings.claims)
    outcome = game.conclude(
        models, scores, stated_claims, budget, stopping.make_stopping_rule(game_design, stated_claims.claims, budget)
    )
    guard = _guard(case, settings)
    preflight_result = _look(case, settings, scores, game_design)
    training = judge.Training(
        name=settings.title or case.evidence.name,
        mechanism=None,
        stated_claims=stated_claims,
        utility=description.side_accuracy(record_models),
        checks=(case.membership, guard.check, *_reference_row(case, by_coins=by_coins, dependent=is_dependent)),
        doubt=BIAS_CHECK if guard.has_bias else dependence_check if is_dependent else preflight_result.doubt,
        preflight=preflight_result,
    )
    result = judge.conclude(training, [outcome])
    without_epsilon = dependence_note if is_dependent else SPLIT_NOTE
    notes = [
        *[BIASED_NOTE] * guard.has_bias,
        *preflight.notes(preflight_result),
        *[without_epsilon] * (not case.by_coins),
        *find_side_signs(case.evidence),
        *case.remarks,
        *like_sides(preflight_result, _losses(case), np.asarray(case.included, bool), by_coins=case.by_coins),
        *remarks_on(users, settings.claim_unit),
    ]
    return Inspection(
        report=reporting.report([result], _frame(case, settings, budget, notes)),
        names=models.prepared_game.records.names,
        included=np.asarray(models.prepared_game.assignment.included[0]),
        labels=case.labels if users is None else None,
        scores={score.attack: score.values for score in scores},
        not_run=_not_run(case, settings, game_design, repeats),
        repeats=repeats,
    )


def _complete_settings(settings: Settings, has_users: bool, references: int) -> Settings:
    """Return the settings with the unit and the attacks that follow from the case if no one named them."""
    if not has_users and settings.claim_unit == "user":
        raise ConfigError("claim_unit is 'user', but no 'unit' says whose each record is; give 'unit' with x and y")
    unit = "user" if has_users and settings.claim_unit is None else settings.claim_unit
    usual = ("auto",) if references and settings.scorers is None else ("loss",)
    return replace(settings, claim_unit=unit, proven_by=usual if settings.proven_by is None else settings.proven_by)


def _look(case: InspectedCase, settings: Settings, scores: Sequence[Scores], game_design: GameDesign) -> Preflight:
    """The preflight of the records; of users, on a record of each, since those of one are alike."""
    users, answers, included = read_users(case.evidence.units), case.answers or Answers(), np.asarray(case.included[0])
    rows = np.arange(len(included)) if users is None else users.draw_records(settings.stream.child("preflight").numpy())

    def pick(values: Array | None) -> Array | None:
        return None if values is None else np.asarray(values)[rows]

    errors, truths = pick(answers.errors), pick(answers.labels)
    records = ReadRecords(
        losses=_losses(case)[0, rows],
        included=included[rows],
        reading=answers.reading,
        labels_are_tokens=not answers.are_several,
        logits=None if case.models.logits is None else pick(case.models.logits[0]),
        labels=pick(case.labels),
        errors=None if errors is None or truths is None else errors.reshape(len(rows), -1),
        truths=None if truths is None else truths.reshape(len(rows), -1).astype(np.float64),
        hits=pick(answers.hits),
        choices=pick(answers.choices),
        baseline=answers.baseline(included),
    )
    bound_attacks = {attack.name for attack in game_design.attacks if attack.estimators}
    bounded_scores = [score for score in scores if score.attack in bound_attacks]
    result = preflight.look(records, bounded_scores, by_coins=case.by_coins)
    return with_input_reading(result, case.input_reading)


def _losses(case: InspectedCase) -> Array:
    """Return the losses of all models `(models, n)`."""
    if case.models.losses is not None:
        return np.asarray(case.models.losses)
    return np.stack([cross_entropy(np.asarray(logits), np.asarray(case.labels)) for logits in np.asarray(case.models.logits)])


def _not_run(case: InspectedCase, settings: Settings, game_design: GameDesign, repeats: Mapping[str, str]) -> dict[str, str]:
    names = {attack.name for attack in game_design.attacks}
    omissions = {name: scorer for name, scorer in external_scorers(settings).items() if name not in names}
    reasons = {name: unserved_reason(scorer, len(case.included), case.models.released) for name, scorer in omissions.items()}
    asks = "asks for more than records and outputs"
    orders = {name: f"ranks the records as {repeats[name]} does" if name in repeats else asks for name in omissions}
    return {name: reason or orders[name] for name, reason in reasons.items()}


def _records(case: InspectedCase) -> Records:
    return Records(inputs=case.evidence.inputs, labels=case.evidence.labels)


def _record_models(case: InspectedCase, settings: Settings, game_design: GameDesign) -> GameModels:
    canaries = ExternalRecords.of(_records(case)).canaries
    besides = {Logits() if "outputs" in case.models.released else Losses()}
    assignment = Assignment(canaries=canaries, included=case.included, runs=1, by_coins=case.by_coins)
    signals = _with_medians(case, game_design).read(game_design.signals(case.models.released, besides), canaries)
    models = GameModels(
        prepared_game=PreparedGame(
            training_design=None,
            game_design=game_design,
            seed=settings.stream,
            assignment=assignment,
            records=_table(case, settings),
        ),
        observed=Observations(signals=signals, diverged=np.zeros(len(case.included), bool)),
        labels=case.labels,
    )
    return attack.with_confidences(models)


def _attack_models(models: GameModels, settings: Settings) -> tuple[GameModels, list[Scores], dict[str, str]]:
    """The models with the attacks that are kept, their scores, and attacks that rank as one of these does, with its name.

    Of attacks that no one asked for by name, those that rank the canaries in a new way are kept.
    """
    signals, game_design = models.observed.signals, models.prepared_game.game_design
    attacks, scores, repeats, orders = [], [], {}, dict[bytes, str]()
    for attack_plan in game_design.attacks:
        if settings.scorers is None and not attack_plan.attack.needs.are_met_by(signals.keys()):
            continue  # the records have none of what it asks about
        scores_of_attack = attack.score(models, attack_plan)
        order = np.unique(scores_of_attack.values, return_inverse=True)[1].tobytes()
        if order not in orders or settings.scorers is not None or attack_plan.name in (settings.proven_by or ()):
            attacks.append(attack_plan)
            scores.append(scores_of_attack)
        else:
            repeats[attack_plan.name] = orders[order]
        orders.setdefault(order, attack_plan.name)
    prepared_game = replace(models.prepared_game, game_design=replace(game_design, attacks=tuple(attacks)))
    return replace(models, prepared_game=prepared_game), scores, repeats


def _with_medians(case: InspectedCase, game_design: GameDesign) -> RecordedOutputs:
    """The models with what `quantile_regression` reads, if it is to be run on a target alone."""
    logits, labels, inputs = case.models.logits, case.labels, case.evidence.inputs
    is_read = any(NonmemberMedians.key in plan.attack.needs.keys for plan in game_design.attacks)
    if not is_read or len(case.included) > 1 or logits is None or labels is None or not inputs.size:
        return case.models
    if not np.isfinite(logits).all():
        return case.models  # the attacks that read them say so
    confidences = scaled_confidence(logits[0], labels)
    seed = Seed(0).child("nonmember medians")  # no caller's: the same model and records have one rate, whatever seed is given
    medians = cross_fitted_medians(inputs, np.asarray(labels), case.included[0], confidences, seed)
    return case.models if medians is None else replace(case.models, nonmember_medians=medians[None])


def _table(case: InspectedCase, settings: Settings) -> RecordTable:
    """The audited records under keyed names, with their class and group if they are known."""
    evidence = case.evidence
    names = tuple(settings.names.names(evidence.rows.tolist()))
    labels = ("",) * len(names) if case.labels is None else tuple(str(label) for label in case.labels)
    columns = {} if case.labels is None else {"class": np.array(labels)}
    if evidence.groups is not None:
        columns["group"] = np.asarray(evidence.groups).astype(str)
    return RecordTable(names=names, labels=labels, columns=columns)


def _guard(case: InspectedCase, settings: Settings) -> blind.Guard:
    if not case.evidence.inputs.size:
        return blind.NOT_RUN
    inputs, truths, labels, included = case.evidence.inputs, case.evidence.labels, case.labels, case.evidence.included
    users = read_users(case.evidence.units)
    if users is not None:  # records of one user are alike, so that one of each is compared
        rows = users.draw_records(settings.stream.child("one record of each user").numpy())
        inputs, truths, included = inputs[rows], truths[rows], included[rows]
        labels = None if labels is None else labels[rows]
    if labels is None and truths.any():  # numbers, several labels or tokens: further columns
        columns = [np.asarray(array).reshape(len(truths), -1) for array in (inputs, truths)]
        inputs = np.concatenate(columns, axis=1).astype(np.float64)
    return blind.guard(inputs, labels, included, settings.stream)


def _follow_members(case: InspectedCase) -> bool:
    """True if references were trained on records that follow the target's, as independent coins would not have it.

    Of a split, with its fixed count of members, chance gives that at most sqrt(2 pi n) times as often as of coins.
    """
    users = read_users(case.evidence.units)
    included = case.included if users is None else users.coins(case.included, "references")
    return dependence_tail(included[0], included[1:]) < IMPLAUSIBLE


def _reference_row(case: InspectedCase, *, by_coins: bool, dependent: bool) -> tuple[Check, ...]:
    """The row on models for comparison: who trained them, and whether they were seen to follow the target's coins."""
    count = len(case.included) - 1
    if not count:
        return ()
    if case.trainer:
        value = f"{count} models trained here by the function that was given, each on the records that coins of its own chose"
        return (Check(code="references", item="Reference models", value=value, status=Status.CHECKED),)
    status = Status.FAILED if dependent else Status.DECLARED
    brought = phrase("{models} models brought", models=count)
    value = join_clauses((brought, _dependence(dependent, by_coins=by_coins)))
    return (Check(code="references", item="Reference models", value=value, status=status),)


def _dependence(dependent: bool, *, by_coins: bool) -> str:
    """Return whether the references' records depend on the target's, or who vouches that they do not."""
    if dependent and by_coins:
        return phrase(
            "their records follow the target's coins (by chance in fewer than {share} of audits)", share=f"{IMPLAUSIBLE:g}"
        )
    if dependent:
        return phrase("their records follow the target's (by chance in fewer than {share} of audits)", share=f"{IMPLAUSIBLE:g}")
    if by_coins:
        return "their records do not follow the target's coins; that they know nothing else of them is taken on trust"
    return "that their records were drawn without regard to the target's is taken on trust"


def _frame(case: InspectedCase, settings: Settings, budget: Budget, notes: Sequence[str]) -> reporting.Frame:
    evidence, logits = case.evidence, case.models.logits
    classes = 0 if logits is None else int(logits.shape[2])
    config = settings.text(
        model=settings.model,
        audited=evidence.name,
        sha256=evidence.sha256,
        records=len(evidence.included),
        **({"references": len(case.included) - 1} if len(case.included) > 1 else {}),
        **({"trained_by": case.trainer} if case.trainer else {}),
    )
    return reporting.Frame(
        kind="model",
        title=settings.title or evidence.name,
        created=settings.timestamp(),
        budget=budget,
        data=_data(evidence, classes),
        model=join_clauses(
            (settings.model, phrase("{count} outputs", count=classes) if classes else "losses only"), "{first}, {rest}"
        ),
        config=config,
        provenance=make_provenance(settings, config),
        remarks=tuple(notes),
    )


def _data(evidence: MemberEvidence, classes: int) -> DataSummary:
    members = int(evidence.included.sum())
    shape = evidence.inputs.shape[1:]
    return DataSummary(
        name=evidence.name,
        source="members (train) and nonmembers (pool) as given",
        sha256=evidence.sha256,
        train=members,
        pool=len(evidence.included) - members,
        test=0,
        classes=classes,
        features=" x ".join(str(size) for size in shape) if evidence.inputs.size else "not given",
    )
