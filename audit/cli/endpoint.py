"""`audit endpoint`: canaries scored under a model behind an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from audit.cli import endpoint_options as options
from audit.cli.printing import AsJson
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.core.data import Array


def endpoint(
    url: options.Url,
    model: options.Model,
    canaries: options.Canaries,
    commitment: options.Commitment = "",
    coins: options.Coins = False,
    reference: options.Reference = "",
    score: options.Score = "",
    whole_texts: options.Texts = False,
    delta: options.Delta = 1e-5,
    confidence: options.Confidence = 0.95,
    claim_epsilon: options.ClaimEpsilon = None,
    key_variable: options.KeyVariable = "",
    header: options.Header = None,
    in_flight: options.InFlight = 16,
    patience: options.Patience = 300.0,
    most_tokens: options.MostTokens = None,
    cache: options.Cache = None,
    output: options.Output = None,
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
    from audit.endpoint.client import Client, ServerSettings
    from audit.experiment.external.canary_scores import inspect_canaries
    from audit.experiment.external.inspection import Settings

    if whole_texts and (commitment or coins or score or claim_epsilon is not None):
        raise ConfigError("--texts states no epsilon: leave out --commitment, --coins, --score and --claim-epsilon")
    if score:
        checks.choice(score, "--score", tuple(scoring.SCORES))
    if output is not None:
        deliver.demand_new(output)
    texts = canary_files.read(canaries)
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
            scorers = [text_attacks.server_scorer(client, name, watcher.advance) for name in (model, reference) if name]
            texts, values = text_attacks.attack_texts(scorers[0], texts, scorers[1] if reference else None)
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
    report = inspect_canaries(values, texts, known_coins, settings, name=canaries.name, remarks=remarks)
    return deliver.finish(report, output, as_json, USUAL_FORMATS)


def _split(text: str) -> tuple[str, str]:
    name, sign, variable = text.partition("=")
    if not sign or not variable:
        raise ConfigError("--header has the form NAME=VARIABLE, where the environment's VARIABLE holds the header's value")
    return name, variable
