"""Words for what code names: outcomes, status, accesses, families, gates; with the tones that go with them."""

from typing import get_args

from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.claims import Outcome
from audit.core.events import Unit
from audit.core.game import Assumption, Game, Inclusion
from audit.core.results import Status
from reports.pages.blocks import Mark, Tone
from reports.words.language import count, current, recorded, say

OUTCOME_TONES = {
    Outcome.VIOLATED: Tone.BAD,
    Outcome.CONSISTENT: Tone.GOOD,
    Outcome.OUT_OF_REACH: Tone.OPEN,
    Outcome.INVALID: Tone.BAD,
}
_STATUS_TONES = {Status.CHECKED: Tone.GOOD, Status.DECLARED: Tone.OPEN, Status.GAP: Tone.BAD, Status.FAILED: Tone.BAD}
_COVERAGE_TONES = {"run": Tone.GOOD, "partly": Tone.OPEN, "not run": Tone.BAD}
# of the glossary; each has a term, a meaning and the words by which a page uses it
TERMS = (
    *("accountant", "adjacency", "canary", "ceiling", "confidence", "delta", "dp_sgd", "epsilon", "fpr"),
    *("membership_inference", "negative_control", "tpr"),
)


def _known_words(prefix: str, name: str, words: str = "") -> str:
    """The words for a name that comes with this package; others have their own `words`, or stay as they were given."""
    key = f"{prefix}.{name}"
    return say(key) if key in current().sentences else recorded(words or name)


def verdict_title(outcome: Outcome) -> str:
    """Return what became of a claim, as a heading."""
    return say(f"verdict.{outcome.value}")


def outcome_word(outcome: Outcome) -> str:
    """Return what became of a claim, inside a sentence."""
    return say(f"outcome.{outcome.value}")


def outcome_mark(outcome: Outcome | None) -> Mark:
    """Return what became of a claim, in a table."""
    return Mark(say("outcome.none"), Tone.PLAIN) if outcome is None else Mark(outcome_word(outcome), OUTCOME_TONES[outcome])


def status_mark(status: Status) -> Mark:
    """Return how an assumption is."""
    return Mark(say(f"status.{status.value}"), _STATUS_TONES[status])


def coverage_mark(status: str) -> Mark:
    """Return whether a class of attack was run."""
    return Mark(coverage_word(status), _COVERAGE_TONES.get(status, Tone.PLAIN))


def coverage_word(status: str) -> str:
    """Return whether a class of attack was run, inside a sentence."""
    return _known_words("coverage", status.replace(" ", "_"))


def adjacency(relation: Adjacency) -> str:
    """Return what may differ between neighbouring data sets."""
    return say(f"adjacency.{relation.value}")


def sees(access: Access) -> str:
    """Return what an adversary with this access sees, after "the"."""
    return _known_words("sees", access.name, access.words)


def level(access: Access) -> str:
    """An access beside an axis."""
    return _known_words("level", access.name, access.words)


def protected_unit(unit: str) -> str:
    """Whom a claim protects: a record, or another unit by its name."""
    return say("record.word") if unit == "example" else recorded(unit)


def question(access: Access | None, unit: str) -> str:
    """Return the question what an adversary's view reveals of whom: `unit` is whom a claim about the training protects."""
    key = "question.none" if access is None else f"question.{access.name}"
    access_words = "" if access is None else level(access)
    name = next((name for name in get_args(Unit) if unit in (name, recorded(name))), "other")  # a report may be translated
    units = say(f"units.{name}", unit=recorded(unit))
    return say(key if key in current().sentences else "question.other", what=access_words, units=units)


def secret_question(secret: str, access: Access) -> str:
    """The question whether an adversary's view reveals a secret that is no membership."""
    key = f"question.secret.{secret}"
    return say(key if key in current().sentences else "question.secret", what=level(access))


def assumption(assume: Assumption) -> str:
    """Return what a bound takes for granted."""
    return say(f"assumption.{assume.value}")


def family(name: str) -> str:
    """A trade-off family in words."""
    return _known_words("family", name)


def gate(name: str) -> str:
    """A gate of the release policy."""
    return _known_words("gate", name)


def utility_basis(kind: str) -> str:
    """Return what utility figures of a kind of report are measured on."""
    return say("utility.of_run" if kind == "run" else "utility.of_records")


def game(rules: Game) -> str:
    """The rules of a game in plain sentences.

    >>> from audit.core.game import Game
    >>> game(Game(adjacency=Adjacency.ADD_REMOVE, access=Access.FINAL_MODEL, inclusion=Inclusion.SPLIT, canaries=10))
    '10 canaries. Membership was decided by a split of the data, not by coins. The attacker sees the outputs of the model.'
    """
    kind = recorded(rules.canary) or say("game.canaries")
    if rules.inclusion is Inclusion.SPLIT:
        return say("game.split", canaries=count(rules.canaries), kind=kind, sees=sees(rules.access))
    if rules.choices > 1:
        return _describe_secret_game(rules)
    if rules.canaries == 1:
        coins, noise = say("game.one_canary", kind=kind), say("game.runs_are_trials")
    else:
        coins = say("game.coins", canaries=count(rules.canaries), kind=kind)
        noise = say("game.canaries_are_trials") if rules.independent_noise else ""
    probability = rules.inclusion_probability
    return say(
        "game.rules",
        runs=_runs(rules),
        chance=say("game.fair_coin") if probability == 0.5 else say("game.coin", probability=f"{probability:g}"),
        coins=coins,
        sees=say("game.sees_steps") if rules.access == Access.ALL_STEPS else say("game.sees", what=sees(rules.access)),
        own=_own_models(rules.references),
        adjacency=adjacency(rules.adjacency),
        noise=noise,
    )


def _describe_secret_game(rules: Game) -> str:
    steps = rules.access == Access.ALL_STEPS
    return say(
        "game.one_secret" if rules.canaries == 1 else "game.secrets",
        runs=_runs(rules),
        canaries=count(rules.canaries),
        kind=recorded(rules.canary or rules.secret),
        choices=count(rules.choices),
        sees=say("game.secrets_see_steps") if steps else say("game.secrets_see", what=sees(rules.access)),
        own=say("game.secrets_references", references=count(rules.references)) if rules.references else "",
        adjacency=adjacency(rules.adjacency),
        noise=say("game.secrets_are_trials") if rules.independent_noise else "",
    )


def _runs(rules: Game) -> str:
    return say("game.one_run") if rules.runs == 1 else say("game.runs", runs=count(rules.runs))


def _own_models(references: int) -> str:
    if references == 0:
        return ""
    return say("game.one_reference") if references == 1 else say("game.references", references=count(references))
