"""Records planted beside the audited ones, or that begin where a record shows most."""

from dataclasses import dataclass

import numpy as np

from attacks.canaries import _pool
from audit.core import checks
from audit.core.canaries import Canaries, CanaryRecords, PlantedRecords
from audit.core.data import Array, Dataset, Records
from audit.core.errors import ConfigError
from audit.core.phrases import join_clauses, phrase
from audit.core.seeds import Seed


# Records that carry a trigger and the label that it is to cause, for canaries that plant them.
def backdoors(dataset: Dataset, count: int, seed: Seed, *, kind: str, poisons: int, features: int) -> Canaries:
    """Return `count` triggered records that are asked about, and `poisons` poisoned ones of each that are planted;
    `ConfigError` if there are no classes, fewer features than a trigger has, or a pool that is too small or of one class.

    A trigger is an assignment of the smallest or the largest value of the train split to some features, both drawn at random.
    """
    _pool.require_classes(dataset, kind)
    _pool.require_one_label(dataset, kind)
    requested = _pool.choose(dataset, count, seed.child("backdoor"), kind)
    random, labels = seed.child("backdoor triggers").numpy(), dataset.pool.labels
    width = int(np.prod(dataset.pool.inputs.shape[1:]))
    if features > width:
        raise ConfigError(f"{kind}.features is {features} and a record has {width} features; expected no more")
    # never the record's own class, which a model predicts without any trigger
    targets = (labels[requested] + random.integers(1, dataset.classes, size=count)) % dataset.classes
    # the first places of a permutation per trigger, so that no feature is set twice
    places = random.permuted(np.tile(np.arange(width), (count, 1)), axis=1)[:, :features]
    values = random.choice([dataset.train.inputs.min(), dataset.train.inputs.max()], size=places.shape)
    pairs = zip(requested, targets, strict=True)
    hosts = np.stack([_hosts(labels, row, target, random, poisons=poisons, kind=kind) for row, target in pairs])
    poisoned = [np.repeat(part, poisons, axis=0) for part in (targets, places, values)]
    return Canaries(
        kind=kind,
        description=phrase(
            "triggers of {features} features, each on {poisons} poisoned records of {data}",
            features=features,
            poisons=poisons,
            data=dataset.name,
        ),
        payload=PlantedRecords(
            records=_with_triggers(dataset.pool.take(requested), targets, places, values),
            identifiers=np.full(count, -1),
            copies=poisons,
            planted=_with_triggers(dataset.pool.take(hosts.ravel()), *poisoned),
            aim="backdoor",
        ),
    )


def _hosts(labels: Array, row: int, target: int, random: np.random.Generator, *, poisons: int, kind: str) -> Array:
    """Return rows of other records of the pool, of other classes than the target."""
    # a host of the target class would teach the class by its other features, not by the trigger
    eligible = np.flatnonzero(labels != target)
    eligible = eligible[eligible != row]
    if len(eligible) < poisons:
        raise ConfigError(
            f"{kind}: {len(eligible)} records of the pool are of another class than a target; expected at least "
            f"{poisons}, one for each poisoned record: widen data.pool or plant fewer"
        )
    return np.asarray(random.choice(eligible, size=poisons, replace=False))


def _with_triggers(records: Records, targets: Array, places: Array, values: Array) -> Records:
    """The records with `values` `(m, features)` at `places`, labelled with the targets."""
    inputs = records.inputs.reshape(len(records), -1).copy()
    np.put_along_axis(inputs, places, values.astype(inputs.dtype), axis=1)
    # not the hosts' labels
    return Records(inputs=inputs.reshape(records.inputs.shape), labels=targets.astype(records.labels.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdoor:
    """Triggers, each on `poisons` records with the label that it is to cause; asked about on a record that is in no training.

    A coin decides for each trigger whether its poisoned records are in the training; the difference of its success with and
    without them gives a bound on epsilon. A trigger sets some random features to the smallest or the largest value of the
    train split.

    References:
        Gu, Dolan-Gavitt and Garg 2017, arXiv 1708.06733; Jagielski, Ullman and Oprea 2020, arXiv 2006.07709; Ma, Zhu and
        Hsu 2019, arXiv 1903.09860 (what differential privacy leaves poisoned records).
    """

    poisons: int = 4
    features: int = 8

    def __post_init__(self) -> None:
        _pool.require_positive(self.poisons, "backdoor.poisons")
        _pool.require_positive(self.features, "backdoor.features")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` triggered records that are asked about, and the poisoned ones of each; `ConfigError` for no classes, fewer
        features than a trigger has, or a pool that is too small or of one class.
        """
        return backdoors(dataset, count, seed, kind="backdoor", poisons=self.poisons, features=self.features)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonedMembership:
    """Random records of the audit pool, each in or out by its coin, beside copies with a wrong label in every training.

    The copies pull the model away from the true label, so that the record itself, if it is in, moves it more. They are the
    same in all models: a claim for one record holds whatever the other records are, so bounds need no conversion.

    Attributes:
        poisons: copies with one wrong label of each record.

    References: Tramer et al. 2022, arXiv 2204.00032 ("truth serum").
    """

    poisons: int = 2

    def __post_init__(self) -> None:
        _pool.require_positive(self.poisons, "poisoned_membership.poisons")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` pool records in random order, and the copies of each that all models train on; `ConfigError` if the data set
        has no classes, or its pool has fewer records.
        """
        rows = _pool.choose(dataset, count, seed.child("poisoned_membership"), "poisoned_membership")
        records = dataset.pool.take(rows)
        wrong = _pool.wrong_labels(dataset, records.labels, seed.child("poisoned labels"), "poisoned_membership")
        return Canaries(
            kind="poisoned_membership",
            description=f"records held out of {dataset.name}, {self.poisons} wrongly labelled copies of each in every training",
            payload=CanaryRecords(
                records=records,
                identifiers=dataset.pool_index[rows],
                companions=Records(
                    inputs=np.repeat(records.inputs, self.poisons, axis=0), labels=np.repeat(wrong, self.poisons, axis=0)
                ),
            ),
        )


_KINDS = ("unused_direction", "mislabelled")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstCaseInitialisation:
    """Canaries with the largest gradients of their batch, because the model has fitted all other records before it starts.

    The claim holds from any initial weights, so the adversary chooses them: those of a model trained without privacy on
    the shared records and without any canary. What then moves the model under DP-SGD is the canary and the noise.

    Attributes:
        record: "unused_direction": along a direction of least variance, as ClipBKD records are;
            "mislabelled": a pool record with a wrong label.

    References:
        Annamalai and De Cristofaro 2024, arXiv 2405.14106; Jagielski, Ullman and Oprea 2020, arXiv 2006.07709 (ClipBKD).
    """

    record: str = "unused_direction"
    steps: int = 600

    def __post_init__(self) -> None:
        checks.choice(self.record, "worst_case_initialisation.record", _KINDS)
        if self.steps < 1:
            raise ConfigError(f"worst_case_initialisation.steps is {self.steps}; expected at least 1")

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` records and the order to start every model from fitted weights."""
        kind = "worst_case_initialisation"
        _pool.require_classes(dataset, kind)
        if self.record == "unused_direction":
            words, rows = f"records along directions that {dataset.name} hardly uses", np.full(count, -1)
            records = _pool.unused_directions(dataset, count, 1.0, seed.child("worst case"), kind)
        else:
            words = phrase("records held out of {data} with a wrong label", data=dataset.name)
            places = _pool.choose(dataset, count, seed.child("worst case"), kind)
            originals, rows = dataset.pool.take(places), dataset.pool_index[places]
            labels = _pool.wrong_labels(dataset, originals.labels, seed.child("labels"), kind)
            records = Records(inputs=originals.inputs, labels=labels)
        return Canaries(
            kind=kind,
            description=join_clauses((words, "every run starts from weights that fit the other records")),
            payload=CanaryRecords(records=records, identifiers=rows, fitted_start=self.steps),
        )
