"""Users instead of records: one coin a user decides on all of their records, whose scores an attack on a user adds up."""

from dataclasses import dataclass, replace

import numpy as np

from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Array, Records
from audit.core.errors import DataError
from audit.core.phrases import phrase
from audit.core.protocols import Attack, Chooser, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.games.observed import GameModels
from audit.experiment.games.prepared_game import ExternalRecords
from audit.experiment.games.records import RecordTable

LEAST_USERS = 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Users:
    """The user of each record.

    Attributes:
        codes: `(n,)` number of the user of each record, every number below `count` in use.
        largest: the most records that one user has; `first` `(count,)` a record of each.
    """

    codes: Array
    count: int
    largest: int
    first: Array

    def coins(self, included: Array, purpose: str) -> Array:
        """Memberships of users `(k, count)` from those of records `(k, n)`, or `DataError` if some records of a user differ."""
        by_user = included[:, self.first]
        models, places = np.nonzero(by_user[:, self.codes] != included)
        if len(models):
            place = f"record {places[0]}" + (f", model {models[0]} with the target as 0" if len(included) > 1 else "")
            users = len(set(self.codes[places].tolist()))
            raise DataError(
                f"{purpose}: some records of a user are trained on and some are not ({place}; {users} such users); "
                "one coin decides on all records of a user: draw coins by user, or leave 'unit' out for a game of records"
            )
        return np.asarray(by_user)

    def draw_records(self, random: np.random.Generator) -> Array:
        """A record of each user, drawn at random, `(count,)`."""
        # the first of a user's records in a random order of all is a random one of them
        order = random.permutation(len(self.codes))
        return np.asarray(order[np.unique(self.codes[order], return_index=True)[1]])

    def from_index(self, index: Array | None) -> Array | None:
        """Position of each user among the coins, `(count,)`, from that of each record, or `DataError` if they differ."""
        if index is None:
            return None
        by_user = np.asarray(index)[self.first]
        wrong = np.flatnonzero(by_user[self.codes] != index)
        if len(wrong):
            raise DataError(
                f"'index' of record {wrong[0]} is {index[wrong[0]]}, of another record of its user "
                f"{by_user[self.codes[wrong[0]]]}; expected the position of the user's coin, the same for all records of a user"
            )
        return by_user

    def canaries(self, records: Records, *, copies: int) -> Canaries:
        """The users as canaries; `copies` above 1 converts what is proved to one record."""
        return Canaries(
            kind="given",
            description="users given as members and nonmembers, all records of each in or out together",
            payload=CanaryRecords(records=records.take(self.first), copies=copies, unit="user"),
        )

    def draw(self, random: np.random.Generator, rate: float) -> Array:
        """Memberships of records `(n,)` from one coin a user."""
        return np.asarray((random.random(self.count) < rate)[self.codes])


def read_users(units: Array | None) -> Users | None:
    """The users that `units` `(n,)` names, None if no one named them; `DataError` if they are fewer than two."""
    if units is None:
        return None
    _, first, codes, counts = np.unique(
        np.asarray(units).astype(str), return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) < LEAST_USERS:
        raise DataError(f"'unit' names {len(first)} user for {len(codes)} records; expected at least {LEAST_USERS}")
    return Users(codes=codes, count=len(first), largest=int(counts.max()), first=first)


def first_occurrences(units: Array) -> Array:
    """The place of each record's user in the order in which users first occur, `(n,)`: that of their coins in one file.

    >>> first_occurrences(np.array(["b", "a", "b"])).tolist()
    [0, 1, 0]
    """
    _, first, codes = np.unique(units, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes])  # the rank of each user's first record


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserAttack:
    """An attack on records that judges users: the sum over a user's records of the score less the median of all records.

    For scores that members' records have shifted by as much as nonmembers', that is the log likelihood ratio of a user up to a
    factor. Infinite scores count as the largest finite ones. No coin of the target is looked at.
    """

    attack: Attack
    users: Users
    labels: Array | None

    @property
    def needs(self) -> Needs:
        return self.attack.needs

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Scores `(users,)`, from signals of records and the references' coins of users."""
        values = self.attack.score(replace(target, labels=self.labels), self.by_record(reference), seed)
        return user_scores(np.asarray(values, dtype=np.float64), self.users)

    def by_record(self, reference: View) -> View:
        coins = reference.included
        return reference if coins is None else replace(reference, included=np.asarray(coins)[:, self.users.codes])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserChooser(UserAttack):
    """The same of an attack that takes one of several."""

    def choose(self, reference: View, labels: Array | None) -> tuple[str, str]:
        chooser = self.attack
        if not isinstance(chooser, Chooser):
            raise TypeError(f"{type(chooser).__name__} chooses nothing")
        return chooser.choose(self.by_record(reference), self.labels)


def user_scores(values: Array, users: Users) -> Array:
    """Sum over each user's records of the score less the median of all, `(users,)`.

    >>> users = read_users(np.array(["a", "a", "b"]))
    >>> user_scores(np.array([3.0, np.inf, 1.0]), users).tolist()
    [0.0, -2.0]
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        finite = np.zeros(1)
    finite_scores = np.clip(values, finite.min(), finite.max())
    return np.bincount(users.codes, finite_scores - np.median(finite_scores), minlength=users.count)


def user_records(records: Records, users: Users | None, claim_unit: str | None) -> ExternalRecords:
    if users is None:
        return ExternalRecords.of(records)
    return ExternalRecords(canaries=users.canaries(records, copies=users.largest if claim_unit == "record" else 1))


def with_users(models: GameModels, users: Users, canaries: Canaries) -> GameModels:
    """Users instead of records, in models and attacks; `DataError` if a model was trained on only some records of one."""
    prepared_game = models.prepared_game
    assignment, game_design = prepared_game.assignment, prepared_game.game_design
    names = tuple(prepared_game.records.names[row] for row in users.first.tolist())
    kinds = [UserChooser if isinstance(plan.attack, Chooser) else UserAttack for plan in game_design.attacks]
    attacks = tuple(
        replace(plan, attack=kind(attack=plan.attack, users=users, labels=models.labels))
        for plan, kind in zip(game_design.attacks, kinds, strict=True)
    )
    return replace(
        models,
        prepared_game=replace(
            prepared_game,
            game_design=replace(game_design, attacks=attacks),
            assignment=replace(assignment, canaries=canaries, included=users.coins(assignment.included, "references")),
            records=RecordTable(names=names, labels=("",) * users.count, columns={}),
        ),
        labels=None,
    )


def remarks_on(users: Users | None, claim_unit: str | None) -> list[str]:
    """A remark on a game of users; none on one of records."""
    if users is None:
        return []
    about: str = "bounds are about adding or removing a user with all records"
    if claim_unit == "record" and users.largest > 1:
        about = phrase("bounds are converted from a group of {records} records to one record", records=users.largest)
    return [
        phrase(
            "One coin decided on all records of each of {users} users (at most {records} of one); scores of a "
            "user's records are added, and {about}.",
            users=users.count,
            records=users.largest,
            about=about,
        )
    ]
