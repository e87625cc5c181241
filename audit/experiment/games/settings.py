"""What the auditor decides before looking at any score."""

import hashlib
import json
from dataclasses import dataclass, field

import numpy as np

from audit.core import checks, provenance
from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, MOST_CERTIFICATES, Claim
from audit.core.data import Array
from audit.core.errors import ConfigError
from audit.core.seeds import SHORTEST_SEED, Seed
from audit.experiment.games.records import RecordKey, new_key


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Settings:
    """How a trained model, or a table of scores, is audited.

    Attributes:
        delta: of every epsilon in the report.
        confidence: with which all bounds hold at once, and each curve's band on its own.
        seed: of the negative control and the guard.
        record_key: hexadecimal text that the records' names are keyed with; None draws one, to be kept apart from the report.
        claim_epsilon: what the owner states for the training, or None.
        claim_unit: whom the claim protects: "record", or "user" if records come with their users (`unit`); None takes user
            there. Bounds are about the same: what coins of users prove is converted by group privacy for a claim of records.
        adjacency: which neighbouring data sets the coins decided between, and the claim speaks of; of a trained model
            "add_remove" alone, since its records were in or out. With a table of scores "replace_one" states that another
            record stood instead of each that was left out.
        coins: `(n,)` bool, one coin per audited record in the order in which they were drawn: True records were trained on.
        randomised_seed: in place of `coins`, the seed that `draw_coins` drew them with.
        overlap: "refuse" records that are on both sides, or "drop" them.
        proven_by: attacks with scores that are turned into bounds; the error budget is split over them. None takes loss, or
            auto if there are references to compare with.
        scorers: attacks to run; None takes all that need nothing but the outputs.
        estimators: None takes the default of the game.
        certificates: simulated audits behind the calibration certificate; 0 simulates nothing.
        title: of the report.
        model: the target in words, with its hash where it came from a file.
        device: that the target runs on, in words.
        command: that made it, for the page on how to reproduce.
        created: ISO time in UTC; None takes now (or SOURCE_DATE_EPOCH).
    """

    delta: float = 1e-5
    confidence: float = 0.95
    seed: int = 0
    claim_epsilon: float | None = None
    claim_unit: str | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    coins: Array | None = None
    randomised_seed: int | None = None
    overlap: str = "refuse"
    proven_by: tuple[str, ...] | None = None
    scorers: tuple[str, ...] | None = None
    estimators: tuple[str, ...] | None = None
    certificates: int = 200
    title: str = ""
    model: str = "trained elsewhere"
    device: str = "cpu"
    command: str = "audit.experiment.external.inspection"
    created: str | None = None
    record_key: bytes | None = field(default=None, repr=False)
    _stream: Seed = field(init=False, repr=False)
    _key: RecordKey = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checks.open_probability(self.delta, "delta")
        checks.confidence(self.confidence)
        if not 0 <= self.certificates <= MOST_CERTIFICATES:
            raise ConfigError(f"certificates is {self.certificates}; expected 0 to {MOST_CERTIFICATES} simulated audits")
        if self.claim_epsilon is not None:
            checks.nonnegative(self.claim_epsilon, "claim_epsilon")
        if self.coins is not None and self.randomised_seed is not None:
            raise ConfigError("both coins and randomised_seed are given; give the coins, or the seed that they follow from")
        if self.randomised_seed is not None and self.randomised_seed < SHORTEST_SEED:
            raise ConfigError(
                "the seed of the coins is below 2**64 and can be found by trying, and who was a member follows from it. Draw "
                "with audit.draw_coins(n), which takes its seed from the system, and store what it returns; of a model that is "
                "trained already, give the coins themselves (--coins FILE)"
            )
        if self.claim_unit not in (None, "record", "user"):
            raise ConfigError(f"claim_unit is {self.claim_unit!r}; expected 'record' or 'user'")
        if self.overlap not in ("refuse", "drop"):
            raise ConfigError(f"overlap is {self.overlap!r}; expected 'refuse' or 'drop'")
        provers = self.proven_by or ("loss",)
        if self.scorers is not None and not set(self.scorers) & set(provers):
            raise ConfigError(
                f"proven_by names {', '.join(provers)}, and scorers only {', '.join(self.scorers)}; name in "
                "proven_by the attacks whose scores are to be turned into bounds"
            )
        object.__setattr__(self, "_stream", Seed(self.seed))
        key = new_key() if self.record_key is None else RecordKey(self.record_key)
        object.__setattr__(self, "record_key", key.text)  # so that `replace` keeps it
        object.__setattr__(self, "_key", key)

    @property
    def stream(self) -> Seed:
        return self._stream

    @property
    def names(self) -> RecordKey:
        return self._key

    @property
    def claims(self) -> tuple[Claim, ...]:
        if self.claim_epsilon is None:
            return ()
        unit = "user" if self.claim_unit == "user" else "example"
        return (Claim(epsilon=self.claim_epsilon, delta=self.delta, adjacency=self.adjacency, source=DECLARED, unit=unit),)

    def text(self, **facts: object) -> str:
        """The settings, and `facts` about the audited model, as canonical YAML."""
        keys = ["delta", "confidence", "seed", "claim_epsilon", *["claim_unit"] * (self.claim_unit is not None), "adjacency"]
        keys += ["randomised_seed", "overlap", "proven_by", "scorers", "estimators", "certificates"]
        coins = None if self.coins is None else np.asarray(self.coins).astype(np.uint8).tobytes()
        digest = None if coins is None else hashlib.sha256(coins).hexdigest()
        rows = {**facts, **{key: getattr(self, key) for key in keys}, "coins_sha256": digest}
        return "".join(f"{key}: {json.dumps(value)}\n" for key, value in rows.items())

    def timestamp(self) -> str:
        return provenance.timestamp() if self.created is None else self.created


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record_name(key: bytes, row: int) -> str:
    """The name that reports print for a record, so that who holds the key and the files can find it.

    Args:
        key: `Settings.record_key`, or what the file `private/record-key` of a run folder holds.
        row: position among the audited records: members first, in the order of their file, then nonmembers.
    """
    return RecordKey(key).name(row)
