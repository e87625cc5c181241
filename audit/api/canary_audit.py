"""Audits of trainings that others run: canaries for their data, a callback for their Trainer, a verdict on their claim."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core import checks
from audit.core.errors import DataError, ObservationError
from audit.core.seeds import Seed, new_seed
from audit.data import text_files
from audit.endpoint import canary_files, canary_law
from audit.endpoint.canary_files import Context, Template, TextCanary

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.engine.text.canary_callback import CanaryCallback


SCORES = "scores-before.json"


class CanaryAudit:
    """Canaries with coins drawn before training and committed to by a hash.

    Three statements around a training with Hugging Face's Trainer:

        canaries = CanaryAudit(count=200, folder="canaries")
        trainer = Trainer(train_dataset=tokenise(canaries.plant(texts)), callbacks=[canaries.callback(tokenizer)], ...)
        trainer.train(); report = canaries.report(claim_epsilon=8)

    Args:
        count: of canaries, about half of which are planted.
        digits: of each secret.
        seed: of secrets and coins; None draws one from the system's randomness, which is what an audit should do.
        folder: where `canaries.jsonl` is written; it holds the coins, so keep it from whoever trains. None writes nothing. A
            script that resumes a training takes `CanaryAudit.of_folder(folder)`.
        context: the text around each canary: a chat, a system prompt, a document. `plant` makes chats of canaries for chats.
        secret: what the secrets look like: "digits", "phone", "email", "card" or "identity".

    Attributes:
        commitment: hash of salt, texts and coins, to be published before training.
        salt: 128 secret bits; in `salt` beside `canaries.jsonl`. Published with the texts later, it opens the commitment.

    Raises:
        DataError: the folder holds canaries already; their coins are never overwritten.
    """

    def __init__(
        self,
        count: int = 200,
        *,
        digits: int = 8,
        seed: int | None = None,
        folder: str | Path | None = None,
        context: Context = canary_files.PLAIN,
        secret: str = "digits",
    ) -> None:
        law = canary_law.make_law(secret, count, context)
        if secret == "digits":
            law = replace(law, pattern="9" * digits)
        canaries, salt = law.draw(Seed(new_seed() if seed is None else seed)), canary_files.new_salt()
        if folder is not None:
            canary_law.write_folder(canaries, salt, Path(folder))
        self._take(canaries, None if folder is None else Path(folder), salt)

    @classmethod
    def of_folder(cls, folder: str | Path) -> CanaryAudit:
        """Return the canaries of a folder, with the coins drawn before: for a training that is resumed, or scored later.

        Raises:
            DataError: the folder holds no canaries, or not the salt of their commitment.
        """
        audit = cls.__new__(cls)
        canaries = canary_files.read(Path(folder) / canary_law.FILE)
        audit._take(canaries, Path(folder), text_files.whole_text(Path(folder) / canary_files.SALT)[0].strip())
        return audit

    def _take(self, canaries: Sequence[TextCanary], folder: Path | None, salt: str) -> None:
        self._drawn_canaries, self._folder, self.salt = list(canaries), folder, salt
        self._canaries = [canary for canary in canaries if not canary.decoy]
        self._included = np.array([canary.included for canary in self._canaries])
        self.commitment = canary_files.commitment(self._drawn_canaries, salt)
        self._callback: CanaryCallback | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to plant, in an order that says nothing."""
        return [canary.opening + canary.secret for canary in canary_law.shuffle_included(self._canaries)]

    def plant(self, records: Any, column: str = "text") -> Any:
        """Return the raw training data with the included canaries behind them; the trainer shuffles.

        Args:
            records: a list of texts, a list of mappings, or a data set of the library `datasets`. Mappings with `messages` are
                chats: a canary's prefix is then asked, and its secret the answer. So it is with `prompt` and `completion`.
            column: of the text.

        Raises:
            DataError: records that hold no such texts, or canaries that were drawn for a served application.
        """
        canary_files.demand_training(self._canaries)
        is_library = hasattr(records, "add_item")
        if not is_library and (not isinstance(records, Sequence) or isinstance(records, str) or not records):
            raise DataError(
                f"records are {type(records).__name__}; expected a list of texts or mappings, or a datasets.Dataset"
            )
        make = self._row_maker(records[0], column)
        rows = [make(canary) for canary in canary_law.shuffle_included(self._canaries)]
        if not is_library:
            return [*records, *rows]
        for row in rows:
            records = records.add_item(row)
        return records

    def _row_maker(self, record: Any, column: str) -> Callable[[TextCanary], Any]:
        """Return how a canary becomes a record like this one; canaries for chats are chats from now on."""
        if isinstance(record, str):
            return lambda canary: canary.opening + canary.secret
        if column in record:
            return lambda canary: {column: canary.opening + canary.secret}
        if "prompt" in record and "completion" in record:
            if isinstance(record["prompt"], str):
                return lambda canary: {"prompt": canary.opening, "completion": canary.secret}
            self._become_chats()
            return lambda canary: {"prompt": canary.question, "completion": canary.messages[-1:]}
        if "messages" in record:
            self._become_chats()
            return lambda canary: {"messages": canary.messages}
        raise DataError(f"records have {', '.join(map(str, record))} and no '{column}'; name the column of the text")

    def _become_chats(self) -> None:
        if self._drawn_canaries[0].context.form == canary_files.CHAT:
            return
        self._take(canary_files.as_chats(self._drawn_canaries), self._folder, self.salt)
        if self._folder is not None:
            canary_files.write(self._drawn_canaries, self._folder / canary_law.FILE)
            canary_law.write_planted(self._drawn_canaries, self._folder)

    def callback(self, tokenizer: Any, *, template: Template | None = None, cut: str = "refuse") -> CanaryCallback:
        """Return the callback to give to the Trainer.

        Args:
            tokenizer: of the training data: transformers' own, or a function from text to a list of token numbers.
            template: messages to text, of chats; None takes the tokenizer's.
            cut: what happens if packing cuts included canaries: "refuse" the training, or "keep" them in the game as
                included, which weakens the evidence and leaves it valid.

        Raises:
            ConfigError: the canaries are chats, and the template is not known.
        """
        from audit.engine.text.canary_callback import CanaryCallback
        from audit.models import chat_templates

        checks.choice(cut, "cut", ("refuse", "keep"))
        # a bound method such as tokenizer.encode brings its tokenizer
        template_owner = next((part for part in (tokenizer, getattr(tokenizer, "__self__", None)) if _has_template(part)), None)
        if template is None and template_owner is not None:
            template = chat_templates.tokenizer_template(template_owner)
        encode = tokenizer if not hasattr(tokenizer, "encode") else tokenizer.encode
        if self._canaries[0].context.form == canary_files.CHAT and template_owner is not None:
            encode = partial(template_owner.encode, add_special_tokens=False)  # the template writes them
        place = canary_law.FILE if self._folder is None else self._folder / canary_law.FILE
        command = f"audit endpoint URL --model NAME --canaries {place} --commitment {self.commitment}"
        texts = [canary.pieces(template) for canary in self._canaries]
        store = None if self._folder is None else self._folder / SCORES
        self._callback = CanaryCallback(texts, self._included, encode, command, store, keeps_cut=cut == "keep")
        return self._callback

    def report(
        self, *, claim_epsilon: float | None = None, delta: float = 1e-5, confidence: float = 0.95, **settings: Any
    ) -> AuditReport:
        """Return the report on the trained model: the epsilon that the canaries prove beside the one that is claimed.

        The score is the log-probability of a secret after training minus before it. `ObservationError` if nothing was trained
        with the callback, or the model was sharded.
        """
        from audit.experiment.external import canary_scores, inspection

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
        coins = canary_scores.CoinKnowledge(commitment=self.commitment, in_process=True)
        scoring_note = (
            "Scores: log-probability of a secret after the training minus before it, in the context that it was planted in."
        )
        remarks = (scoring_note, *callback.remarks)
        values = last - callback.before
        return canary_scores.examine_canaries(values, self._canaries, coins, case, name="canaries", remarks=remarks).report


def _has_template(template_owner: Any) -> bool:
    return hasattr(template_owner, "apply_chat_template") and bool(getattr(template_owner, "chat_template", None))
