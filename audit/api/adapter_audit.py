"""Audits of language models that any trainer wrote to a folder: an adapter or whole weights, beside the model it began from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from audit.core.data import Array
from audit.core.errors import DataError, ExecutionMismatch

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.endpoint.canary_files import TextCanary
    from audit.engine.text.secret_scores import Encode
    from audit.experiment.external.canary_scores import CoinKnowledge
    from audit.experiment.external.inspection import Settings
    from audit.experiment.external.scores import ScoredReport


def adapter_report(*folder: str | Path, **terms: Any) -> AuditReport:
    """Return the report of `examine_adapter` alone."""
    return examine_adapter(*folder, **terms).report


def examine_adapter(
    folder: str | Path,
    *,
    base: str | Path,
    canaries: str | Path,
    settings: Settings | None = None,
    tokenizer: str = "",
    device: str = "cpu",
    coins: CoinKnowledge | None = None,
    whole_texts: bool = False,
) -> ScoredReport:
    """Return the report on a trained model's folder: the epsilon that canaries prove beside the one that is claimed.

    The score is the log-probability of a secret under the trained model minus that under the model before training, in the
    context that the canaries were planted in.

    Args:
        folder: an adapter as peft and ms-swift write it (adapter_config.json, adapter_model.safetensors), or whole weights.
        base: folder of the model before training; what the adapter's settings say of it is not followed.
        canaries: file of `CanaryAudit`, or of your own: JSON lines with prefix, secret and included (the coin).
        settings: of the report; None takes the usual ones.
        tokenizer: "bytes", or a folder with tokenizer.json; "" looks into `folder` and `base`.
        device: to compute on.
        coins: what is known of them (`find_coins`); None knows nothing, so that no epsilon follows.
        whole_texts: the lines are texts with memberships that were chosen, not drawn; several attacks score them; no epsilon
            follows.

    Raises:
        DataError: a folder or file cannot be read, or the canaries are not those of a training.
        ExecutionMismatch: both models find every secret equally likely.
    """
    from audit.data import tokens
    from audit.endpoint import canary_files
    from audit.engine.device import find_device
    from audit.engine.text.secret_scores import secret_log_probabilities
    from audit.experiment.external import canary_scores, inspection
    from audit.models import chat_templates, trained_language
    from audit.models.language import quiet_libraries

    place, base, folder = Path(canaries), Path(base), Path(folder)
    texts = canary_files.read(place, whole_texts=whole_texts)
    canary_files.demand_training(texts)
    encode, _ = tokens.encoder(tokenizer or _load_tokenizer(folder, base), 0)
    if whole_texts:
        return _attack_texts(texts, encode, (folder, base, device), settings or inspection.Settings(), place.name)
    is_chat = texts[0].context.form == canary_files.CHAT
    owners = [Path(tokenizer)] if tokenizer and tokenizer != tokens.BYTES else [folder, base]
    template = chat_templates.read_template(*owners) if is_chat else None
    pieces = [canary.pieces(template) for canary in texts]
    with quiet_libraries(DataError, f"the models of {folder} and {base} cannot score the canaries"):
        after, before = trained_language.compare(
            folder, base, lambda module: secret_log_probabilities(module, encode, pieces), find_device(device)
        )
    for values, place_read in ((after, folder), (before, base)):
        if missing := int(np.isnan(values).sum()):
            raise DataError(
                f"the model of {place_read} gives {missing} of {len(values)} canaries no number: its weights hold NaN, or are "
                "too large"
            )
    _refuse_unchanged(after, before, folder)
    settings = settings or inspection.Settings(title="A model trained elsewhere")
    form = "the folder's chat template" if is_chat else "plain text"
    scoring_note = f"Scores: log-probability of a secret under {folder.name} minus that under {base.name}, in {form}."
    return canary_scores.examine_canaries(
        after - before, texts, coins or canary_scores.CoinKnowledge(), settings, name=place.name, remarks=(scoring_note,)
    )


def _refuse_unchanged(after: Array, before: Array, folder: Path) -> None:
    if np.array_equal(after, before):
        raise ExecutionMismatch(
            f"{folder} changes no log-probability: an adapter that is not connected, or a rate of 0; the audit is invalid"
        )


def _attack_texts(
    texts: Sequence[TextCanary], encode: Encode, models: tuple[Path, Path, str], settings: Settings, name: str
) -> ScoredReport:
    """The report on whole texts: attacks on the trained model, one of which compares it with the base."""
    from audit.endpoint import text_attacks
    from audit.endpoint.text_attacks import TokenValues
    from audit.engine.device import find_device
    from audit.engine.text.secret_scores import text_scores
    from audit.experiment.external import canary_scores
    from audit.models import trained_language
    from audit.models.language import quiet_libraries

    folder, base, device = models

    def scorer(module: Any) -> Any:
        return lambda pairs: [TokenValues(*rows) for rows in text_scores(module, encode, pairs)]

    def attack(module: Any) -> Any:
        places = getattr(getattr(module, "config", None), "max_position_embeddings", None)
        fits = (lambda rows: all(len(encode(row)) <= places for row in rows)) if isinstance(places, int) else None
        return text_attacks.attack_texts(scorer(module), texts, fits=fits)

    def score_base(module: Any, attacked: Any) -> Any:
        return text_attacks.score_means(scorer(module), attacked[0])

    with quiet_libraries(DataError, f"the models of {folder} and {base} cannot score the texts"):
        (targets, columns), before = trained_language.compare(folder, base, attack, find_device(device), score_base)
    _refuse_unchanged(columns["loss"], before, folder)
    columns = {**columns, "reference": columns["loss"] - before}
    return canary_scores.examine_canaries(columns, targets, canary_scores.CoinKnowledge(), settings, name=name)


def find_coins(canaries: str | Path, commitment: str = "", *, declared: bool = False) -> CoinKnowledge:
    """Return what is known of the coins in a file of canaries, once a published commitment was opened.

    Args:
        commitment: the hash that was published before training, or a file that holds it; "" if there is none.
        declared: fair coins are stated to have decided, without a commitment.

    Raises:
        DataError: texts or coins are others than those committed to.
    """
    from audit.endpoint import canary_files
    from audit.experiment.external.canary_scores import CoinKnowledge

    place = Path(canaries)
    digest = canary_files.open_commitment(place, canary_files.read(place), commitment) if commitment else ""
    return CoinKnowledge(commitment=digest, declared=declared)


def _load_tokenizer(*folders: Path) -> str:
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            return str(folder)
    raise DataError(
        f"neither {' nor '.join(map(str, folders))} holds a tokenizer.json; name the folder of one, or 'bytes', as tokenizer"
    )
