"""Audits of trainings that others run: canaries for their data, a callback for their Trainer, a verdict on their claim."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core.errors import DataError, ObservationError
from audit.core.seeds import Seed, new_seed
from audit.data import text_files
from audit.endpoint import canary_files

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.engine.text.canary_callback import CanaryCallback


FILE, SALT, SCORES = "canaries.jsonl", "salt", "scores-before.json"


class CanaryAudit:
    """Canaries whose coins are drawn before training and committed to by a hash.

    Three statements around a training with Hugging Face's Trainer:

        canaries = CanaryAudit(count=200, folder="canaries")
        trainer = Trainer(train_dataset=tokenise(canaries.plant(texts)), callbacks=[canaries.callback(tokenizer.encode)], ...)
        trainer.train(); report = canaries.report(claim_epsilon=8)

    Args:
        count: of canaries, about half of which are planted.
        digits: of each secret.
        seed: of secrets and coins; None draws one from the system's randomness, which is what an audit should do.
        folder: where `canaries.jsonl` is written; it holds the coins, so keep it from whoever trains. None writes nothing. A
            script that resumes a training takes `CanaryAudit.of_folder(folder)`.

    Attributes:
        commitment: hash of salt, texts and coins, to be published before training.
        salt: 128 secret bits; in `salt` beside `canaries.jsonl`. Published with the texts later, it opens the commitment.

    Raises:
        DataError: the folder holds canaries already; their coins are never overwritten.
    """

    def __init__(self, count: int = 200, *, digits: int = 8, seed: int | None = None, folder: str | Path | None = None) -> None:
        place = None if folder is None else Path(folder) / FILE
        if place is not None and place.exists():
            raise DataError(
                f"{place} holds canaries already, and their coins are lost where it is written over; CanaryAudit.of_folder("
                f"{str(folder)!r}) goes back to them, such as to resume a training; name another folder for a new one"
            )
        root = new_seed() if seed is None else seed
        self._take(canary_files.digit_canaries(count, Seed(root), digits=digits), place, canary_files.new_salt())
        if place is not None:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.with_name(SALT).write_text(self.salt, encoding="utf-8")
            canary_files.write(self._canaries, place)

    @classmethod
    def of_folder(cls, folder: str | Path) -> CanaryAudit:
        """Return the canaries of a folder, with the coins drawn before: for a training that is resumed, or scored later.

        Raises:
            DataError: the folder holds no canaries, or not the salt of their commitment.
        """
        audit = cls.__new__(cls)
        place = Path(folder) / FILE
        canaries = canary_files.read(place)
        audit._take(canaries, place, text_files.whole_text(place.with_name(SALT))[0].strip())
        return audit

    def _take(self, canaries: Sequence[canary_files.TextCanary], place: Path | None, salt: str) -> None:
        self._canaries, self._place, self.salt = list(canaries), place, salt
        self._included = np.array([canary.included for canary in self._canaries])
        self.commitment = canary_files.commitment(self._canaries, salt)
        self._callback: CanaryCallback | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to plant, in an order that says nothing."""
        texts = [canary.text for canary in self._canaries if canary.included]
        return [texts[number] for number in Seed(0).child("order", len(texts)).numpy().permutation(len(texts))]

    def plant(self, records: Any, column: str = "text") -> Any:
        """Return the raw training data with the included canaries behind them; the trainer shuffles.

        Args:
            records: a list of texts, a list of mappings, or a data set of the library `datasets`. Mappings with `messages` are
                chats (as ms-swift reads them): a canary's prefix is then asked, and its secret the answer.
            column: of the text.

        Raises:
            DataError: records that hold no such texts.
        """
        if hasattr(records, "add_item"):
            for text in self.texts:
                records = records.add_item({column: text})
            return records
        if not isinstance(records, Sequence) or isinstance(records, str) or not records:
            raise DataError(
                f"records are {type(records).__name__}; expected a list of texts or mappings, or a datasets.Dataset"
            )
        if isinstance(records[0], str):
            return [*records, *self.texts]
        if "messages" in records[0] and column not in records[0]:
            return [*records, *({"messages": chat} for chat in self._chats())]
        if column not in records[0]:
            raise DataError(f"records have {', '.join(map(str, records[0]))} and no '{column}'; name the column of the text")
        return [*records, *({column: text} for text in self.texts)]

    def _chats(self) -> list[list[dict[str, str]]]:
        ends = {canary.text: canary for canary in self._canaries}
        return [
            [{"role": "user", "content": ends[text].prefix}, {"role": "assistant", "content": ends[text].secret}]
            for text in self.texts
        ]

    def callback(self, encode: Any) -> CanaryCallback:
        """Return the callback to give to the Trainer.

        Args:
            encode: text to a list of token numbers, the way the training data are made.
        """
        from audit.engine.text.canary_callback import CanaryCallback

        place = self._place or FILE
        command = f"audit endpoint URL --model NAME --canaries {place}"
        texts = [(canary.prefix, canary.text) for canary in self._canaries]
        store = None if self._place is None else self._place.with_name(SCORES)
        self._callback = CanaryCallback(texts, self._included, encode, command, store)
        return self._callback

    def report(
        self, *, claim_epsilon: float | None = None, delta: float = 1e-5, confidence: float = 0.95, **settings: Any
    ) -> AuditReport:
        """Return the report on the trained model: the epsilon that the canaries prove beside the one that is claimed.

        The score is the log-probability of a secret after training minus before it.

        Raises:
            ObservationError: nothing was trained with the callback, or the model was sharded.
        """
        from audit.experiment.external import inspection

        callback = self._callback
        if callback is None or callback.before is None or not callback.scores:
            raise ObservationError(
                "no trained model was scored: train with callback() first; a sharded model is scored with `audit endpoint`"
            )
        last = callback.scores[max(callback.scores)]
        case = inspection.Settings(
            delta=delta,
            confidence=confidence,
            claim_epsilon=claim_epsilon,
            title="Canaries in a training of one's own",
            **settings,
        )
        return inspection.inspect_scores(
            last - callback.before, self._included, case, game="one_run", name="canaries", remarks=callback.remarks
        )
