"""Clients of a federation that do something else than train on their records."""

from dataclasses import dataclass, replace

from attacks.canaries import _planted_records, _pool
from audit.core.canaries import Canaries, CanaryRecords, ClientBehaviour
from audit.core.data import Dataset, Records
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRiders:
    """Clients of a federation that send, in place of an update, the last released step; a coin decides what each holds.

    A control: a client with a true coin holds a held-out record, the others hold nothing, and all of them send the same. So
    nothing that is released depends on the coins, and a bound above 0 is a false alarm.

    Attributes:
        boost: by which each update is multiplied before the clip.

    References: Fraboni, Vidal and Lorenzi 2021, arXiv 2006.11901.
    """

    boost: float = 1.0

    def __post_init__(self) -> None:
        ClientBehaviour(boost=self.boost)  # refuses a boost that is not above 0 here, not at the first round

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """Return `count` records that no one trains on, one a client; `ConfigError` if the pool has fewer records."""
        rows = _pool.choose(dataset, count, seed.child("free_riders"), "free_riders")
        return Canaries(
            kind="free_riders",
            description=f"clients that send the last released step back, whatever record of {dataset.name} they hold",
            payload=CanaryRecords(records=dataset.pool.take(rows), identifiers=dataset.pool_index[rows]),
            behaviour=ClientBehaviour(boost=self.boost, trains=False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFlippers:
    """Clients of a federation, each with a held-out record that has a wrong label and nothing else, in or out by its coin.

    Their effect on accuracy is the control for backdoors: the same boost without a common aim.

    References: Tolpegin et al. 2020, arXiv 2007.08432.
    """

    boost: float = 1.0

    def __post_init__(self) -> None:
        ClientBehaviour(boost=self.boost)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` records with wrong labels, one a client; `ConfigError` if there are no classes, or a pool with fewer
        records.
        """
        rows = _pool.choose(dataset, count, seed.child("label_flippers"), "label_flippers")
        originals = dataset.pool.take(rows)
        labels = _pool.wrong_labels(dataset, originals.labels, seed.child("flipped labels"), "label_flippers")
        return Canaries(
            kind="label_flippers",
            description=f"clients with one record held out of {dataset.name} and a wrong label, updates times {self.boost:g}",
            payload=CanaryRecords(
                records=Records(inputs=originals.inputs, labels=labels), identifiers=dataset.pool_index[rows]
            ),
            behaviour=ClientBehaviour(boost=self.boost),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplacement:
    """Triggers, each planted by `clients` clients of a federation that hold one poisoned record each.

    Each of them trains the model that it is sent on its record and multiplies its update by `boost`, before the clip and the
    weighting of all clients. A coin decides for each trigger whether its clients take part or send zero, so that both are seen
    side by side. A claim about one client leaves a group of g clients `1 - f_g`. If updates are clipped to C and divided by a
    public number n, g clients move the mean by g C / n at most, boosted or not.

    Attributes:
        boost: by which each update is multiplied before the clip; about the number of clients replaces the model.

    References:
        Bagdasaryan et al. 2020, arXiv 1807.00459 (model replacement). Sun et al. 2019, arXiv 1911.07963 (clipping and noise
        against it). Ma, Zhu and Hsu 2019, arXiv 1903.09860 (what differential privacy leaves poisoned data).
    """

    clients: int = 4
    features: int = 8
    boost: float = 50.0

    def __post_init__(self) -> None:
        _pool.require_positive(self.clients, "model_replacement.clients")
        _pool.require_positive(self.features, "model_replacement.features")
        ClientBehaviour(boost=self.boost)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """`count` triggered records that are asked about, and the poisoned one of each client; `ConfigError` for no classes,
        fewer features than a trigger has, or a pool that is too small or of one class.
        """
        canaries = _planted_records.backdoors(
            dataset, count, seed, kind="model_replacement", poisons=self.clients, features=self.features
        )
        description = (
            f"triggers of {self.features} features, each planted by {self.clients} clients that hold a poisoned record of "
            f"{dataset.name} and multiply their updates by {self.boost:g}"
        )
        return replace(canaries, description=description, behaviour=ClientBehaviour(boost=self.boost))
