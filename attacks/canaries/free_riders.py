"""Free riders: clients that never train and send the last released step back."""

from __future__ import annotations

from dataclasses import dataclass

from attacks.canaries import _pool
from audit.core.data import Canaries, ClientBehaviour, Dataset
from audit.core.seeds import Seed


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRiders:
    """Clients of a federation that send, in place of an update, the last released step; a coin decides what each holds.

    A control: a client whose coin says so holds a held-out record, the others hold nothing, and all of them send the same. So
    nothing that is released depends on the coins, and a bound above 0 is a false alarm.

    Attributes:
        boost: by which each update is multiplied before the clip.

    References:
        Fraboni, Vidal and Lorenzi 2021, arXiv 2006.11901.
    """

    boost: float = 1.0

    def __post_init__(self) -> None:
        ClientBehaviour(boost=self.boost)

    def make(self, dataset: Dataset, count: int, parameters: int, seed: Seed) -> Canaries:
        """Return `count` records that no one trains on, one a client.

        Raises:
            ConfigError: a pool with fewer records.
        """
        rows = _pool.choose(dataset, count, seed.child("free_riders"), "free_riders")
        return Canaries(
            kind="free_riders",
            description=f"clients that send the last released step back, whatever record of {dataset.name} they hold",
            records=dataset.pool.take(rows),
            identifiers=dataset.pool_index[rows],
            behaviour=ClientBehaviour(boost=self.boost, trains=False),
        )


PLUGIN = FreeRiders
