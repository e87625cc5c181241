"""`audit adapter`: canaries scored under a trained language model's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli import endpoint as options
from audit.cli.printing import AsJson
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS


def adapter(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder of a trained adapter (adapter_config.json, adapter_model.safetensors) or of whole weights."
        ),
    ],
    base: Annotated[Path, typer.Option(help="Folder of the model before training: config.json and safetensors.")],
    canaries: options.Canaries,
    tokenizer: Annotated[
        str, typer.Option(help="Folder with tokenizer.json, or bytes. Default: that of FOLDER or of --base.")
    ] = "",
    device: Annotated[
        str, typer.Option(help="Device to compute on: cpu, cuda or cuda:1. One model is in its memory at a time.")
    ] = "cpu",
    commitment: options.Commitment = "",
    coins: options.Coins = False,
    whole_texts: options.Texts = False,
    delta: options.Delta = 1e-5,
    confidence: options.Confidence = 0.95,
    claim_epsilon: options.ClaimEpsilon = None,
    output: options.Output = None,
    as_json: AsJson = False,
) -> int:
    """Attack a language model that any trainer wrote to a folder, with canaries, and compute the epsilon that they prove."""
    from audit.api.adapter_audit import examine_adapter, find_coins
    from audit.cli import deliver
    from audit.experiment.external.inspection import Settings

    if whole_texts and (commitment or coins or claim_epsilon is not None):
        raise ConfigError("--texts states no epsilon: leave out --commitment, --coins and --claim-epsilon")
    if output is not None:
        deliver.demand_new(output)
    settings = Settings(
        delta=delta,
        confidence=confidence,
        claim_epsilon=claim_epsilon,
        title=f"{folder.name}, trained elsewhere",
        **deliver.origin(device),
    )
    result = examine_adapter(
        folder,
        base=base,
        canaries=canaries,
        settings=settings,
        tokenizer=tokenizer,
        device=device,
        coins=find_coins(canaries, commitment, declared=coins),
        whole_texts=whole_texts,
    )
    return deliver.finish(result.report, output, as_json, USUAL_FORMATS, deliver.scores(result.columns, result.included))
