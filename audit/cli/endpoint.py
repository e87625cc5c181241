"""`audit endpoint`: canaries scored under a model behind an OpenAI-compatible server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.cli import endpoint_options as options
from audit.cli.printing import AsJson, print_plain
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS, AuditReport

if TYPE_CHECKING:
    from audit.endpoint.canary_files import TextCanary
    from audit.endpoint.scoring import ServedScores
    from audit.experiment.external.inspection import Settings


def endpoint(
    url: options.Url,
    model: options.Model,
    canaries: options.Canaries,
    reference: options.Reference = "",
    score: options.Score = "log_probabilities",
    coins: options.Coins = True,
    delta: options.Delta = 1e-5,
    confidence: options.Confidence = 0.95,
    claim_epsilon: options.ClaimEpsilon = None,
    key_variable: options.KeyVariable = "",
    in_flight: options.InFlight = 16,
    most_tokens: options.MostTokens = None,
    cache: options.Cache = None,
    output: options.Output = None,
    as_json: AsJson = False,
) -> int:
    """Attack a served model with canaries and compute the lower bound on epsilon that they prove.

    The server is probed first: log-probabilities that are missing, shifted, clamped or rounded are refused.
    """
    from audit.cli import deliver
    from audit.cli.progress import bar
    from audit.endpoint import canary_files, scoring
    from audit.endpoint.client import Client, ServerSettings
    from audit.experiment.external.inspection import Settings

    _check_options(score, reference, coins, claim_epsilon)
    if output is not None:
        deliver.demand_new(output)
    texts = canary_files.read(canaries)
    client = Client(ServerSettings(url=url, key_variable=key_variable, in_flight=in_flight, most_tokens=most_tokens), cache)
    with bar("scoring (canaries)", len(texts) * (2 if reference else 1), quiet=as_json) as watcher:
        if score == scoring.GENERATIONS:
            server = scoring.generation_scores(client, model, texts, watcher.advance)
        else:
            rule = scoring.next_token_scores if score == scoring.NEXT_TOKENS else scoring.log_probability_scores
            server = rule(client, model, texts, watcher.advance, reference)
    settings = Settings(
        delta=delta,
        confidence=confidence,
        claim_epsilon=claim_epsilon,
        title=f"{model} at an endpoint",
        **deliver.origin("cpu"),
    )
    print_plain(*server.remarks, file=sys.stderr)
    report = _report(server, texts, settings, name=canaries.name, coins=coins)
    return deliver.finish(report, output, as_json, USUAL_FORMATS)


def _check_options(score: str, reference: str, coins: bool, claim_epsilon: float | None) -> None:
    from audit.endpoint import scoring

    checks.choice(score, "--score", scoring.SCORES)
    if reference and score == scoring.GENERATIONS:
        raise ConfigError("--reference subtracts log-probabilities; leave it out with --score generations")
    if not coins and (reference or score != scoring.LOG_PROBABILITIES or claim_epsilon is not None):
        raise ConfigError("--no-coins reads losses and states no epsilon: leave out --reference, --score and --claim-epsilon")


def _report(server: ServedScores, texts: Sequence[TextCanary], settings: Settings, *, name: str, coins: bool) -> AuditReport:
    """The report on scores whose memberships coins decided; without coins on losses, and on what the texts alone give away."""
    import numpy as np

    from audit.checks.blind_texts import text_features
    from audit.core.views import View
    from audit.experiment.external import inspection

    included = np.array([canary.included for canary in texts])
    if coins:
        return inspection.inspect_scores(server.values, included, settings, game="one_run", name=name)
    view = View.of(losses=-server.values)
    return inspection.inspect_outputs(view, included, settings, inputs=text_features([canary.text for canary in texts]))
