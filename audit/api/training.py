"""Any system that saw data in a membership game: canaries with coins, one training or several, a bound, a verdict, a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import checks
from audit.core.claims import DECLARED, CertifiedBound, Claim, Verdict
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.game import Game
from audit.core.results import Check, Status
from audit.core.seeds import Seed, new_seed

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.experiment.external.system_game import PlayedSystem, Rounds, SystemUnderTest

MOST_COMPARED = 20_000  # records of the data that canaries are compared with: a second of hashing
TESTED_DELTA = 1e-12  # at which a claim with delta 0 is tested, which it implies


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingReport:
    """What canaries of a training, `name` being its function, prove.

    Attributes:
        scores: `(runs, canaries)`: higher for canaries that were seen; `included` bool, their coins.
        untied_scores: the same, equal ones in random order: what the figures of the report follow from.
    """

    name: str
    report: AuditReport
    scores: Array
    untied_scores: Array
    included: Array

    @property
    def verdict(self) -> Verdict:
        """The claim, what is said of it and why."""
        return self.report.mechanisms[0].verdicts[0]

    @property
    def game(self) -> Game:
        """The rules that the scores were obtained under."""
        return self.report.mechanisms[0].games[0].game

    @property
    def bound(self) -> CertifiedBound | None:
        """On epsilon at the claimed delta; None if the audit is void, so that nothing is proven."""
        for bound in self.report.mechanisms[0].bounds:
            return CertifiedBound(**{field.name: getattr(bound, field.name) for field in fields(bound)}, game=self.game)
        return None

    @property
    def exit_code(self) -> int:
        """Return 0 if the claim is not refuted, 1 if it is, 3 if it could not have been."""
        return self.verdict.outcome.exit_code

    def __str__(self) -> str:
        claim, (runs, count) = self.verdict.claim, self.scores.shape
        reason = self.verdict.reason[:1].upper() + self.verdict.reason[1:]
        lines = [
            f"{self.name}: {self.verdict.outcome.value.replace('_', ' ')}. {reason}",
            f"  claimed  epsilon {claim.epsilon:g} at delta {claim.delta:g}" + (f", {claim.note}" if claim.note else ""),
            f"  proven   {self.bound or 'nothing: a check of this audit failed'}",
            f"  game     {count} canaries ({self.game.canary}), each by an independent coin, in {runs} trainings"
            + (f" and {self.game.references} more to compare with" if self.game.references else ""),
        ]
        return "\n".join([*lines, *(f"  note     {note}" for note in self.report.notes)])

    def save(self, path: str | Path) -> Path:
        """Write the report to a file, in the format that its suffix names (.pdf, .json, ...), and return its path.

        Raises:
            ConfigError: no format has this suffix.
            OutputError: the file could not be written.
        """
        import reports

        return reports.save(self.report, path)


def check_training(
    train: Callable[..., Any],
    data: Any,
    canaries: Any,
    *,
    epsilon: float,
    delta: float = 1e-5,
    runs: int = 1,
    references: int = 0,
    confidence: float = 0.95,
    seed: int | None = None,
    score: Callable[..., Any] | None = None,
    title: str = "",
    command: str = "audit.check_training",
) -> TrainingReport:
    """Hold any system against its claim: canaries are in its data by independent coins, and scores measure the trace of each.

    Args:
        train: `train(records, seed) -> system`: a model of any framework, a generator, an index, the answers of queries.
        data: records that all trainings see, or None: an array, a tuple `(inputs, labels)`, a frame, or a list of whatever a
            record is (a text, a user with all records, a graph).
        canaries: the records under test, in the same form: odd ones are remembered most.
        epsilon, delta: claimed for adding or removing one record.
        runs: trainings. One is enough for a bound from many canaries; with a single canary many runs are needed.
        references: further trainings that learn how each canary's score changes if it is seen; the judged scores are then
            log odds of membership, so a score may rise or fall, and may have several columns. 0, or at least 4.
        seed: of coins and trainings; None draws it from the system's randomness.
        score: `score(system, canaries) -> (m,)`, higher for records that were seen; parts of a tuple are given one by one:
            `score(model, inputs, labels)`. None takes minus the loss of a torch module, a function of arrays that gives logits
            or probabilities, or an estimator with `predict_proba`.

    Guarantee: the bound holds with probability at least `confidence`, whatever the system does: with several canaries by the
        estimator `one_run`, with one by `both_ends` (docs/theory/setting.md). Scores must not look at the coins. A claim with
        delta 0 is tested at 1e-12.

    Raises:
        ConfigError: a setting out of range, or no `score` and no labels in `canaries` from which a loss could be taken.
        DataError: records of different forms, or scores that are not one finite number each.
    """
    from audit.experiment.external.system_game import Rounds, SystemUnderTest

    checks.count(runs, "runs", minimum=1)
    if score is None and not (isinstance(canaries, tuple) and len(canaries) == 2):
        raise ConfigError("score is not given, and canaries is not a pair (inputs, labels), of which a loss could be taken")
    system = SystemUnderTest(train=train, score=score or minus_loss, data=data, canaries=canaries)
    terms = CheckTerms(
        claim=make_claim(epsilon, delta),
        confidence=confidence,
        seed=seed,
        title=title,
        command=command,
        remarks=remark_repeats(data, canaries),
    )
    return check_system(system, Rounds(runs=runs, references=references), terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTerms:
    """On what terms a system is judged.

    Attributes:
        canary: what a coin decides on, in words; `checks` further rows of the assumptions table; `remarks` on the cover.
        seed: of coins and trainings; None draws it.
        log_odds: the distance of a score from the others says how sure it is, whatever the scores look like.
    """

    claim: Claim
    confidence: float = 0.95
    seed: int | None = None
    title: str = ""
    command: str = ""
    canary: str = "records"
    checks: tuple[Check, ...] = ()
    remarks: tuple[str, ...] = ()
    log_odds: bool = False


def make_claim(epsilon: float, delta: float) -> Claim:
    """Return the claim of an owner about adding or removing a record; one with delta 0 at the least delta that is tested."""
    from audit.core.adjacency import Adjacency

    note = "which a claim with delta 0 implies" if delta == 0 else ""
    tested_delta = TESTED_DELTA if delta == 0 else checks.open_probability(delta, "delta")
    return Claim(
        epsilon=checks.nonnegative(epsilon, "epsilon"),
        delta=tested_delta,
        adjacency=Adjacency.ADD_REMOVE,
        source=DECLARED,
        note=note,
    )


def check_system(system: SystemUnderTest, rounds: Rounds, terms: CheckTerms) -> TrainingReport:
    """Play the game and judge it, through the same line as every report."""
    from audit.experiment.external.system_game import play_system

    root = Seed(new_seed() if terms.seed is None else terms.seed)
    return judge_system(play_system(system, rounds, root, terms.canary), system, terms, root)


def judge_system(system_game: PlayedSystem, system: SystemUnderTest, terms: CheckTerms, root: Seed) -> TrainingReport:
    from audit.experiment.external.scores import ScoreOrigin, judge_scores
    from audit.experiment.external.system_game import break_ties
    from audit.experiment.games.settings import Settings
    from audit.mechanism_checks.run import function_name
    from audit.stats.bounds import guess_split

    name = function_name(system.forget or system.train)
    settings = Settings(
        delta=terms.claim.delta,
        confidence=terms.confidence,
        seed=root.child("judge").integer() % 2**31,
        claim_epsilon=terms.claim.epsilon,
        coins=system_game.included.ravel(),
        certificates=0,
        title=terms.title,
        model=name,
        command=terms.command,
    )
    game, doubt = system_game.game, ""
    rows = [Check(code="coins", item="Coins", value="drawn here, after the canaries were fixed", status=Status.CHECKED)]
    if system_game.twins is not None:
        twin = check_twins(system_game, terms, root)
        rows.append(twin)
        doubt = f"the retrained twin, which never saw a canary, is told by the coins: {twin.value}" * (
            twin.status is Status.FAILED
        )
    origin = ScoreOrigin(
        name=name,
        game=game,
        claims=(terms.claim,),
        checks=(*rows, *terms.checks),
        kind="training",
        reading="scores of the function that was given, higher for canaries that were seen"
        if not game.references
        else "log odds of membership by the scores, learned on references trained here",
        model=f"what {name} returns",
        remarks=terms.remarks,
        facts={"trained": name, "canaries": game.canaries, "runs": game.runs, "references": game.references},
        log_odds=terms.log_odds or game.references > 0 or not guess_split.has_long_lower_tail(system_game.scores),
        doubt=doubt,
    )
    values = break_ties(system_game.scores, root.child("ties").numpy())
    report = judge_scores({"score": values.ravel()}, system_game.included.ravel(), origin, settings)
    return TrainingReport(
        name=name, report=report, scores=system_game.scores, untied_scores=values, included=system_game.included
    )


def check_twins(system_game: PlayedSystem, terms: CheckTerms, root: Seed) -> Check:
    """Return whether coins predict systems that never saw a canary, as chance does in fewer than 1 of 1,000 audits."""
    from audit.api.scores import lower_bound
    from audit.experiment.external.system_game import break_ties

    ranks = break_ties(np.asarray(system_game.twins), root.child("twin ties").numpy())
    bound = lower_bound(
        ranks[system_game.included],
        ranks[~system_game.included],
        delta=terms.claim.delta,
        confidence=0.999,
        game=replace(system_game.game, references=0),
        certificates=0,
    )
    is_failure = bound.epsilon > 0
    value = f"proves {bound.epsilon:.3g}" if is_failure else "proves nothing, as it should"
    return Check(code="twin", item="Retrained twin", value=value, status=Status.FAILED if is_failure else Status.CHECKED)


def remark_repeats(data: Any, canaries: Any) -> tuple[str, ...]:
    """Return a remark if canaries equal records of the data, or each other: a coin then decides on a further copy alone."""
    from audit.data.row_containers import find_digests, read_rows

    digests = find_digests(read_rows(canaries, "canaries"))
    _, content, counts = np.unique(digests, return_inverse=True, return_counts=True)
    copies = {"another canary": int((counts[content] > 1).sum())}
    rows = None if data is None or (isinstance(data, list) and not data) else read_rows(data, "data")
    if rows is not None and len(rows) <= MOST_COMPARED:
        copies = {"a record of the data": int(np.isin(digests, find_digests(rows)).sum()), **copies}
    if not any(copies.values()):
        return ()
    sentence = " and ".join(f"{count} equal {record}" for record, count in copies.items())
    return (
        f"Of {len(digests)} canaries {sentence}: a coin decides on one copy more there, which leaves less of a trace; take "
        "records that nobody has.",
    )


def minus_loss(model: Any, inputs: Array, labels: Array) -> Array:
    """Minus the cross entropy of each record, `(n,)`, from logits or probabilities; of numbers minus the squared error."""
    from audit.experiment.external.external_models import query_model
    from audit.stats.scoring.signals import cross_entropy

    answers = query_model(model, inputs, labels)
    if answers.form == "logits":
        return -cross_entropy(answers.values, np.asarray(answers.labels))
    return -answers.values if answers.form == "losses" else -(answers.values**2).sum(axis=1)
