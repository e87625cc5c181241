"""Audits of language models that any trainer wrote to a folder: an adapter or whole weights, beside the model it began from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audit.core.errors import DataError, ExecutionMismatch

if TYPE_CHECKING:
    from audit.core.results import AuditReport
    from audit.experiment.external.inspection import Settings


def adapter_report(
    folder: str | Path, *, base: str | Path, canaries: str | Path, settings: Settings | None = None, tokenizer: str = ""
) -> AuditReport:
    """Return the report on a trained model's folder: the epsilon that canaries prove beside the one that is claimed.

    The score is the log-probability of a secret under the trained model minus that under the model before training.

    Args:
        folder: an adapter as peft and ms-swift write it (adapter_config.json, adapter_model.safetensors), or whole weights.
        base: folder of the model before training; what the adapter's settings say of it is not followed.
        canaries: file of `CanaryAudit`, or of your own: JSON lines with prefix, secret and included (the coin).
        settings: of the report; None takes the usual ones.
        tokenizer: "bytes", or a folder with tokenizer.json; "" looks into `folder` and `base`.

    Raises:
        DataError: a folder or file cannot be read.
        ExecutionMismatch: both models find every secret equally likely.
    """
    from audit.data import tokens
    from audit.endpoint import canary_files
    from audit.engine.text.secret_scores import secret_log_probabilities
    from audit.experiment.external import inspection
    from audit.models import trained_language
    from audit.models.language import quiet_libraries

    texts = canary_files.read(Path(canaries))
    encode, _ = tokens.encoder(tokenizer or _load_tokenizer(Path(folder), Path(base)), 0)
    # the byte tokenizer ends a text with a token that canaries do not have
    before_end = (lambda text: encode(text)[:-1]) if tokenizer == tokens.BYTES else encode
    trained, first = trained_language.read(Path(folder), Path(base))
    pairs = [(canary.prefix, canary.text) for canary in texts]
    with quiet_libraries(DataError, f"the models of {folder} and {base} cannot score the canaries"):
        after, before = (secret_log_probabilities(module, before_end, pairs) for module in (trained, first))
    if np.array_equal(after, before):
        raise ExecutionMismatch(
            f"{folder} changes no log-probability of any canary: an adapter that is not connected, or a learning rate of 0; "
            "the audit is invalid"
        )
    included = np.array([canary.included for canary in texts])
    settings = settings or inspection.Settings(title="A model trained elsewhere")
    return inspection.inspect_scores(after - before, included, settings, game="one_run", name=Path(canaries).name)


def _load_tokenizer(*folders: Path) -> str:
    for folder in folders:
        if (folder / "tokenizer.json").is_file():
            return str(folder)
    raise DataError(
        f"neither {' nor '.join(map(str, folders))} holds a tokenizer.json; name the folder of one, or 'bytes', as tokenizer"
    )
