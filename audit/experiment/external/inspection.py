"""Audit a model that is already trained, or scores that any tool made: the same line as a run, entered later.

Ten lines are enough for a model of your own:

    from audit.experiment.external.inspection import inspect
    import reports

    report = inspect(model, (x_train, y_train), (x_test, y_test))
    for attack in report.mechanisms[0].games[0].attacks:
        print(attack.scorer, attack.auc, attack.auc_lower, attack.auc_upper)
    for name, content in reports.render(report, ["pdf", "json"]).items():
        open(name, "wb").write(content)

An epsilon is proven only where coins decided which records were trained on: draw them with
`draw_coins` before the training, train on the records whose coin is True, and give the coins as `Settings.coins`.
Attacks that compare the model with others take `References`: models of your own, trained on other draws of the same records; or
`ReferenceTraining`, a function that trains them here.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from audit.checks import membership as coins
from audit.checks.membership import draw_coins
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.phrases import phrase
from audit.core.results import AuditReport, Check
from audit.core.views import View
from audit.data.members import MemberEvidence, Side, gather, without_overlap
from audit.experiment.external import external_models, reference_memberships
from audit.experiment.external.external_models import References
from audit.experiment.external.input_readings import find_input_reading
from audit.experiment.external.inspected import InspectedCase, Inspection, inspect_case
from audit.experiment.external.label_reading import find_class_names, read_labels
from audit.experiment.external.model_answers import Answers, read_outputs
from audit.experiment.external.reference_training import ReferenceTraining, TrainingRecords
from audit.experiment.external.scores import inspect_scores
from audit.experiment.external.units import read_users
from audit.experiment.games.settings import Settings, record_name

__all__ = [
    "Inspection",
    "ReferenceTraining",
    "References",
    "Settings",
    "draw_coins",
    "examine",
    "examine_outputs",
    "inspect",
    "inspect_scores",
    "record_name",
]


def inspect(
    target: Any,
    members: Side,
    nonmembers: Side,
    settings: Settings | None = None,
    references: References | ReferenceTraining | None = None,
) -> AuditReport:
    """The report on a trained model: what attacks on its outputs find out about its training records; see `examine`."""
    return examine(target, members, nonmembers, settings, references).report


def examine(
    target: Any,
    members: Side,
    nonmembers: Side,
    settings: Settings | None = None,
    references: References | ReferenceTraining | None = None,
) -> Inspection:
    """The report on a trained model, with the scores of every record.

    Args:
        target: a `torch.nn.Module`, a function of `(n, ...)` arrays (as they were given, or float32 if it raises), or any
            `Target` (`audit.subjects`). Its outputs are logits or probabilities, `(n, classes)`. None with
            `ReferenceTraining`: the target is trained by the same function, on the members.
        members: records it was trained on, exactly as it takes them: `(x, y)`, `Records`, or the path of an npz with x and y.
        nonmembers: records of the same kind that it was not trained on.
        settings: delta, confidence, coins and the rest; None takes the defaults.
        references: further models of your own, for the attacks that compare; or how to train them.

    Raises:
        ConfigError: a setting or a training function that cannot be used.
        DataError: records, coins or references that cannot be used; the message names what to do.
        ObservationError: the model's outputs are not finite.
    """
    settings = settings or Settings()
    evidence = gather(members, nonmembers)
    full = len(evidence.included)
    membership_check = _membership(settings, evidence)
    evidence = without_overlap(evidence, settings.overlap, by_coins=membership_check[1])
    names = find_class_names(target)
    answers = _target_answers(target, evidence, references, settings, names)
    if target is None and references is not None:
        names = _trained_names(answers, evidence.labels)
        answers = replace(answers, labels=read_labels(answers.values, evidence.labels, names))
    notes = answers.remarks
    if evidence.omissions:
        notes = (phrase("{count} records were left out because they occur on both sides.", count=evidence.omissions), *notes)
    by_coins = membership_check[1]
    input_reading = None if target is None else find_input_reading(target, evidence, answers, names)
    reference_models = _references(references, evidence, full, settings, by_coins=by_coins, names=names)
    case = _case(answers, evidence, references, reference_models, membership_check, names=names)
    return inspect_case(replace(case, remarks=(*case.remarks, *notes), input_reading=input_reading), settings)


def _target_answers(
    target: Any,
    evidence: MemberEvidence,
    references: References | ReferenceTraining | None,
    settings: Settings,
    names: Array | None,
) -> Answers:
    """The answers of the target, which is trained here on the members if none is given."""
    if target is not None:
        return external_models.query_model(target, evidence.records, evidence.labels, names)
    if not isinstance(references, ReferenceTraining):
        raise ConfigError("there is no target; give a model, or a ReferenceTraining (--train) that trains it on the members")
    seed = settings.stream.child("trained target")
    (answers,) = references.answers(TrainingRecords.of(evidence), evidence.included[None], seed)
    note = "The target was trained here, on the members, by the function that trained its references."
    return replace(answers, remarks=(note, *answers.remarks))


def _trained_names(answers: Answers, labels: Array) -> Array | None:
    """Return the classes of a target that was trained here as its columns have them; None if columns are numbered."""
    present = np.unique(labels)
    has_columns = answers.form == "logits" and labels.ndim == 1 and answers.values.shape[1] == len(present)
    return present if has_columns else None


def examine_outputs(
    view: View,
    included: Array,
    settings: Settings | None = None,
    *,
    inputs: Array | None = None,
    groups: Array | None = None,
    units: Array | None = None,
    index: Array | None = None,
    source: tuple[str, str] = ("predictions", ""),
    references: References | ReferenceTraining | None = None,
    remarks: tuple[str, ...] = (),
) -> Inspection:
    """The same from outputs that were recorded elsewhere, so that a model of any framework can be audited.

    Args:
        view: of `n` records: labels with logits; losses, in nats; or errors `(n, d)` of a regression.
        included: `(n,)` bool, which of them are members.
        inputs: `(n, ...)` if known; without them the first guard cannot run.
        groups: `(n,)` text that slices results.
        units: `(n,)` the user that each record belongs to, if one coin a user decided on all of their records.
        index: `(n,)` position of each record among the coins; None if members, and nonmembers, are in the order of theirs.
        source: name of the file and sha256 of its bytes.
        references: outputs of further models of your own for the same records; or, beside inputs, how to train them.
        remarks: on how the outputs were come by.

    Raises:
        ConfigError: a setting that cannot be used.
        DataError: one side is empty, or the coins are not those of these records.
    """
    settings = settings or Settings()
    size, included = len(included), np.asarray(included, bool)
    checks.both_sides(included, "the audit")
    evidence = MemberEvidence(
        inputs=np.empty((size, 0), np.float32) if inputs is None else np.asarray(inputs),
        labels=np.zeros(size, np.int64) if view.labels is None else np.asarray(view.labels),
        included=included,
        rows=np.arange(size),
        index=index,
        groups=groups,
        units=units,
        name=source[0],
        sha256=source[1],
    )
    membership_check = _membership(settings, evidence)
    form = next(name for name in ("logits", "errors", "losses") if view.get(name) is not None)
    values: dict[str, Any] = {form: np.asarray(view[form])}
    answers = Answers(**values, labels=None if view.labels is None else evidence.labels)
    if form == "logits" and view.labels is not None:
        answers = read_outputs(answers.values, evidence.labels)  # what a file calls logits may be something else
    reference_models = _references(references, evidence, size, settings, by_coins=membership_check[1])
    case = _case(answers, evidence, references, reference_models, membership_check)
    return inspect_case(replace(case, remarks=(*case.remarks, *remarks, *answers.remarks)), settings)


def _membership(settings: Settings, evidence: MemberEvidence) -> tuple[Check, bool]:
    """Return how membership was decided, of users if records come with them."""
    users = read_users(evidence.units)
    if users is None:
        return coins.membership_check(settings.coins, settings.randomised_seed, evidence.included, evidence.index)
    included = users.coins(evidence.included[None], "members and nonmembers")[0]
    return coins.membership_check(settings.coins, settings.randomised_seed, included, users.from_index(evidence.index))


def _references(
    references: References | ReferenceTraining | None,
    evidence: MemberEvidence,
    whole: int,
    settings: Settings,
    *,
    by_coins: bool,
    names: Array | None = None,
) -> References | None:
    """The references on the audited records, in their order; trained here on coins that know nothing of the target's."""
    if references is None:
        return None
    demand_references(references)
    if isinstance(references, ReferenceTraining):
        if evidence.form is None and not evidence.inputs.size:
            raise DataError(
                "references are trained on records, and only outputs are given; give members and nonmembers as x, y"
            )
        rate = 0.5 if by_coins else float(evidence.included.mean())
        seed = settings.stream.child("trained references")
        return references.references(TrainingRecords.of(evidence, names), rate, seed, read_users(evidence.units))
    if references.included.shape[1] != whole:
        raise DataError(
            f"references.included has a column for {references.included.shape[1]} records but {whole} members and nonmembers "
            "are given; expected as many, members first (or in the order of the coins where records carry an index)"
        )
    reference_memberships.refuse_strange_index(references, evidence)
    return references.of(evidence.rows if evidence.index is None or evidence.units is not None else evidence.index)


def demand_references(references: Any) -> None:
    """Raise `ConfigError`, with the line to write, for models, or anything else, instead of references."""
    if references is None or isinstance(references, References | ReferenceTraining):
        return
    models = "[...]" if isinstance(references, list | tuple) else "[model, ...]"
    raise ConfigError(
        f"references are a {type(references).__name__}; which records each model was trained on must be given as well: "
        f"references=audit.References(included=included, models={models}), included (k, n) true or false, members first"
    )


def _case(
    answers: Answers,
    evidence: MemberEvidence,
    source: References | ReferenceTraining | None,
    references: References | None,
    membership_check: tuple[Check, bool],
    *,
    names: Array | None = None,
) -> InspectedCase:
    """The models, the target first; `source` says where the references, in the order of the records, come from."""
    included, question = evidence.included[None], ""
    if references is not None:
        included = np.concatenate([included, references.included])
    labels = answers.labels
    models = external_models.join(answers, references, evidence.records, None if labels is None else evidence.labels, names)
    if isinstance(source, References):
        reference_memberships.refuse_members_first(source, answers, models, evidence, labels)
        if evidence.units is None:
            losses = reference_memberships.losses_by_model(models, labels)
            read_again = None if len(source.models) else partial(reference_memberships.read_moved, models, labels)
            question = reference_memberships.refuse_foreign_memberships(losses, included, read_again)
    if labels is not None:
        evidence = replace(evidence, labels=labels)
    classes = labels.astype(np.int64) if labels is not None and labels.ndim == 1 and models.logits is not None else None
    return InspectedCase(
        models=models,
        included=included,
        evidence=evidence,
        labels=classes,
        membership=membership_check[0],
        by_coins=membership_check[1],
        remarks=(question,) if question else (),
        trainer=source.name if isinstance(source, ReferenceTraining) else "",
        answers=answers,
    )
