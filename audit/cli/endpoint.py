"""`audit endpoint`: canaries scored under a model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from audit.cli.printing import AsJson
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.core.data import Array


def endpoint(
    url: Url,
    model: Model,
    canaries: Canaries,
    commitment: Commitment = "",
    coins: Coins = False,
    reference: Reference = "",
    score: Score = "",
    whole_texts: Texts = False,
    delta: Delta = 1e-5,
    confidence: Confidence = 0.95,
    claim_epsilon: ClaimEpsilon = None,
    key_variable: KeyVariable = "",
    header: Header = None,
    in_flight: InFlight = 16,
    patience: Patience = 300.0,
    most_tokens: MostTokens = None,
    cache: Cache = None,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Attack a served model with canaries and compute the lower bound on epsilon that they prove.

    The server is probed first: log-probabilities that are missing, shifted, clamped or rounded are refused. Requests go out in
    random order, and some canaries are asked again: a stale cache, drift, or a model replaced on the way ends the audit.
    """
    from audit.api.adapter_audit import find_coins
    from audit.cli import deliver
    from audit.cli.progress import bar
    from audit.endpoint import canary_files, scoring, text_attacks
    from audit.endpoint.client import Client
    from audit.endpoint.server_settings import ServerSettings
    from audit.experiment.external.canary_scores import examine_canaries
    from audit.experiment.external.inspection import Settings

    if whole_texts and (commitment or coins or score or claim_epsilon is not None):
        raise ConfigError("--texts states no epsilon: leave out --commitment, --coins, --score and --claim-epsilon")
    if score:
        checks.choice(score, "--score", tuple(scoring.SCORES))
    if output is not None:
        deliver.demand_new(output)
    texts = canary_files.read(canaries, whole_texts=whole_texts)
    known_coins = find_coins(canaries, commitment, declared=coins)
    server = ServerSettings(
        url=url,
        key_variable=key_variable,
        headers=tuple(_split(text) for text in header or ()),
        in_flight=in_flight,
        patience=patience,
        most_tokens=most_tokens,
    )
    client = Client(server, cache)
    passes = text_attacks.NEIGHBOURS + 2 if whole_texts else 1
    values: Mapping[str, Array] | Array
    with bar("scoring (canaries)", len(texts) * (passes + bool(reference)), quiet=as_json) as watcher:
        if whole_texts:
            doors = [text_attacks.server_scorer(client, name, watcher.advance) for name in (model, reference) if name]
            texts, values = text_attacks.attack_texts(doors[0][0], texts, doors[1][0] if reference else None, doors[0][1])
            remarks: tuple[str, ...] = (f"{client.requests:,} requests, {client.tokens:,} tokens counted",)
        else:
            outcome = scoring.served_scores(client, (model, reference), texts, watcher.advance, score)
            values, remarks = outcome.values, outcome.remarks
    settings = Settings(
        delta=delta,
        confidence=confidence,
        claim_epsilon=claim_epsilon,
        title=f"{model} at an endpoint",
        **deliver.origin("cpu"),
    )
    result = examine_canaries(values, texts, known_coins, settings, name=canaries.name, remarks=remarks)
    return deliver.finish(result.report, output, as_json, USUAL_FORMATS, deliver.scores(result.columns, result.included))


def _split(text: str) -> tuple[str, str]:
    name, sign, variable = text.partition("=")
    if not sign or not variable:
        raise ConfigError("--header has the form NAME=VARIABLE, where the environment's VARIABLE holds the header's value")
    return name, variable


# Options of `audit endpoint`: each with its type, spelling and help; the command gives the defaults.
Url = Annotated[str, typer.Argument(help="Address of the server's API, with its version: http://host:8000/v1.")]
Model = Annotated[str, typer.Option(help="Name of the audited model on the server.")]
Canaries = Annotated[
    Path, typer.Option(help="JSON lines with prefix, secret and included (the coin), as written before training.")
]
Reference = Annotated[
    str, typer.Option(help="Name of the model before training on the same server; its log-probabilities are subtracted.")
]
Score = Annotated[
    str,
    typer.Option(
        help="log_probabilities of prompts (default for texts); next_tokens: of secrets spelled by lists of likely tokens "
        "(default for chats); generations: greedy continuations; or samples: the mean of several that are drawn."
    ),
]
Commitment = Annotated[
    str,
    typer.Option(help="Hash that was published before training (`audit canaries new`), or a file that holds it; it is opened."),
]
Coins = Annotated[
    bool,
    typer.Option(
        help="State without a commitment that fair coins decided the memberships. Without either no epsilon is stated."
    ),
]
Texts = Annotated[
    bool,
    typer.Option(
        "--texts",
        help="The lines are texts whose membership somebody chose (prefix and secret are one text): loss, zlib, min-K %, "
        "neighbourhood, ReCaLL and a reference beside a classifier that reads the texts alone. No epsilon.",
    ),
]
Delta = Annotated[float, typer.Option(help="Delta of every epsilon.")]
Confidence = Annotated[float, typer.Option(help="Confidence of the bound.")]
ClaimEpsilon = Annotated[float | None, typer.Option(help="The epsilon that is claimed at --delta.")]
KeyVariable = Annotated[str, typer.Option(help="Environment variable that holds the server's key; the key is never written.")]
Header = Annotated[
    list[str] | None, typer.Option(help="A further header, NAME=VARIABLE: its value comes from the environment. May repeat.")
]
Patience = Annotated[float, typer.Option(min=0, help="Seconds that one request may wait for a busy server, pauses together.")]
InFlight = Annotated[int, typer.Option(min=1, help="Requests under way at once.")]
MostTokens = Annotated[int | None, typer.Option(min=1, help="Tokens that may be paid for. Default: no cap.")]
Cache = Annotated[
    Path | None, typer.Option(help="File of answers: a second call asks only for what is missing. Default: none.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: no report is written.")]
