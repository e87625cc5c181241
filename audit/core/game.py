"""The privacy game that was played, and what statistics may rely on because of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from audit.core import checks
from audit.core.access import Access
from audit.core.adjacency import Adjacency
from audit.core.errors import AssumptionError, ConfigError


class Inclusion(StrEnum):
    """How it was decided which canaries were trained on."""

    COINS = "coins"  # an independent coin for each canary and run, recorded
    SPLIT = "split"  # some other way (a train/test split): no randomness to reason from


class Assumption(StrEnum):
    """A property of (score, membership) pairs that a statistic can rely on."""

    INDEPENDENT_COINS = "independent_coins"  # memberships are independent fair coins, scores arbitrary
    INDEPENDENT_TRIALS = "independent_trials"  # pairs are independent and identically distributed given membership
    INDEPENDENT_SECRETS = "independent_secrets"  # the value of each secret was drawn alone from a declared law
    REPLACED_VALUES = "replaced_values"  # claims are about replacing the value of one secret by another
    INDEPENDENT_ANSWERS = "independent_answers"  # and what is released of one secret does not depend on any other


OF_SCORES = ("one_run", "independent_trials")  # names of games that a table of scores may come from

# why coins of presence say nothing of a claim about replacement
PRESENCE_ALONE = (
    "its coins add or remove a canary and put no other record in its place, so it proves nothing about replacing a record: "
    "a release of the number of records alone tells the coins. Use add_remove, or canaries whose values are redrawn"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """The rules that one set of scores was obtained under.

    Attributes:
        runs: target trainings with pooled scores.
        references: further trainings that only the attack uses.
        canaries: canaries in each run.
        inclusion_probability: of each coin.
        independent_noise: the canaries of one run receive independent noise and do not touch each
            other (orthogonal gradient canaries, no adaptive clipping, no shared normaliser).
        canary: what was planted, in words.
        copies: of each canary in a run that has it, or records planted for it; the bounds of such a game are converted by group
            privacy.
        choices: values that each canary's secret may take; 1 if each is in or out by a coin. With more, `canaries` counts
            the secrets, each of which is in every training with one of its values.
        secret: what those values are: "attribute", "candidate", "property" or "text secret"; "" if canaries are in or out.
        aim: of the attack: "membership", or "backdoor" if planted records are to cause an answer.
        substitutes: if a coin leaves a canary out, another record is in its place. Without them a coin adds or removes,
            from which nothing follows about replacing a record.
        unit: what a coin decides on with all of its records ("user"); "" if it is a record. `copies` is then the most
            records that one has, if what is proved is converted to a record, and 1 if it is about the unit.
    """

    adjacency: Adjacency
    access: Access
    inclusion: Inclusion
    canaries: int
    runs: int = 1
    references: int = 0
    inclusion_probability: float = 0.5
    independent_noise: bool = False
    canary: str = ""
    copies: int = 1
    choices: int = 1
    secret: str = ""
    aim: str = "membership"
    substitutes: bool = False
    unit: str = ""

    @classmethod
    def of_scores(cls, name: str, count: int, adjacency: Adjacency = Adjacency.ADD_REMOVE, canary: str = "") -> Game:
        """Return the game that a table of `count` scores was obtained under.

        Args:
            name: "one_run" (memberships are independent fair coins, scores may depend on each other) or "independent_trials"
                (as well, each score comes from its own training).
            adjacency: between which data sets the coins decided: "replace_one" declares that another record stood in the place
                of each that was left out.

        Raises:
            ConfigError: no such game.
        """
        if name not in OF_SCORES:
            raise ConfigError(f"game is '{name}'; expected one of {', '.join(OF_SCORES)}, or a Game")
        alone, count = name == "independent_trials", max(count, 1)
        return cls(
            adjacency=adjacency,
            access=Access.FINAL_MODEL,
            inclusion=Inclusion.COINS,
            canaries=1 if alone else count,
            runs=count if alone else 1,
            canary=canary,
            substitutes=adjacency is Adjacency.REPLACE_ONE,
        )

    def __post_init__(self) -> None:
        checks.open_probability(self.inclusion_probability, "inclusion_probability")
        if self.canaries < 1 or self.runs < 1 or self.references < 0 or self.copies < 1:
            raise ConfigError(
                f"a game with {self.canaries} canaries in {self.copies} copies, {self.runs} runs and {self.references} "
                "references; expected at least 1, 1, 1 and 0"
            )

    @property
    def grants(self) -> frozenset[Assumption]:
        """Return what holds in this game by construction."""
        if self.inclusion is not Inclusion.COINS:
            return frozenset()
        alone = self.canaries == 1 or self.independent_noise
        if self.choices > 1:
            of_adjacency = {Assumption.REPLACED_VALUES} if self.adjacency is Adjacency.REPLACE_ONE else set()
            of_release = {Assumption.INDEPENDENT_ANSWERS} if alone else set()
            return frozenset({Assumption.INDEPENDENT_SECRETS} | of_adjacency | of_release)
        if self.adds_for_replacement:
            return frozenset()
        assumptions = set()
        if self.inclusion_probability == 0.5:
            assumptions.add(Assumption.INDEPENDENT_COINS)
        if alone:
            assumptions.add(Assumption.INDEPENDENT_TRIALS)
        return frozenset(assumptions)

    @property
    def adds_for_replacement(self) -> bool:
        """True if coins add or remove a canary and the claim is about replacing it."""
        of_presence = self.inclusion is Inclusion.COINS and self.choices == 1 and not self.substitutes
        return of_presence and self.adjacency is Adjacency.REPLACE_ONE

    @property
    def grouped(self) -> str:
        """Return what a group of records that change together consists of, in words."""
        return "copies" if self.aim == "membership" and not (self.secret or self.unit) else "records"

    def at(self, access: Access) -> Game:
        """Return the game as an adversary with so much access plays it: noise is independent if single releases are seen."""
        return replace(self, access=access, independent_noise=self.independent_noise and access.each_release)

    def require(self, assumes: frozenset[Assumption], user: str) -> None:
        """Raise `AssumptionError` naming what `user` assumes and this game does not grant."""
        missing = sorted(assumes - self.grants)
        if missing:
            raise AssumptionError(
                f"{user} assumes {', '.join(missing)}, which this game does not grant ({self.describe()}); "
                + (PRESENCE_ALONE if self.adds_for_replacement else "choose an estimator that assumes less, or change the game")
            )

    def describe(self) -> str:
        """The game in one sentence, for reports and messages."""
        decision = (
            f"each planted by an independent coin with probability {self.inclusion_probability:g}"
            if self.inclusion is Inclusion.COINS
            else "membership fixed by a data split, not by coins"
        )
        if self.choices > 1:
            decision = f"each with one of {self.choices} values, drawn from a declared law"
        adversary = self.access.sees + (f", knowing {self.access.knowledge}," if self.access.knowledge else "")
        canary_name = self.canary or "canaries"
        bound_on = "at most " if self.unit else ""
        canary_name += f", {bound_on}{self.copies} {self.grouped} of each" if self.copies > 1 else ""
        verb = {
            Adjacency.ADD_REMOVE: "add or remove one",
            Adjacency.REPLACE_ONE: "replace one",
            Adjacency.ZERO_OUT: "zero out one",
        }[self.adjacency]
        neighbours = f"{verb} {self.unit if self.unit and self.copies == 1 else 'record'}"
        return (
            f"{self.canaries} {canary_name} in each of {self.runs} training run(s), {decision}; the adversary sees {adversary} "
            f"and {self.references} reference model(s) of its own; neighbouring data sets: {neighbours}"
        )
