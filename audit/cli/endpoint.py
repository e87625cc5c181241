"""`audit endpoint`: canaries scored under a model behind an OpenAI-compatible server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from audit.cli.printing import AsJson, print_plain
from audit.core import checks
from audit.core.errors import ConfigError
from audit.core.results import USUAL_FORMATS


def endpoint(
    url: Annotated[str, typer.Argument(help="Address of the server's API, with its version: http://host:8000/v1.")],
    model: Annotated[str, typer.Option(help="Name of the audited model on the server.")],
    canaries: Annotated[
        Path, typer.Option(help="JSON lines with prefix, secret and included (the coin), as written before training.")
    ],
    reference: Annotated[
        str, typer.Option(help="Name of the model before training on the same server; its log-probabilities are subtracted.")
    ] = "",
    score: Annotated[
        str, typer.Option(help="log_probabilities, or generations: greedy continuations, for servers that give no others.")
    ] = "log_probabilities",
    coins: Annotated[
        bool,
        typer.Option(
            help="Coins decided the memberships. With --no-coins no epsilon is stated, and a classifier that reads the "
            "texts alone says whether members differ from nonmembers."
        ),
    ] = True,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.95,
    claim_epsilon: Annotated[float | None, typer.Option(help="The epsilon that is claimed at --delta.")] = None,
    key_variable: Annotated[
        str, typer.Option(help="Environment variable that holds the server's key; the key is never written.")
    ] = "",
    in_flight: Annotated[int, typer.Option(min=1, help="Requests under way at once.")] = 16,
    most_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens that may be paid for. Default: no cap.")] = None,
    cache: Annotated[
        Path | None, typer.Option(help="File of answers: a second call asks only for what is missing. Default: none.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: no report is written.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Attack a served model with canaries and compute the lower bound on epsilon that they prove.

    The server is probed first: log-probabilities that are missing, shifted, clamped or rounded are refused.
    """
    import numpy as np

    from audit.checks.blind_texts import text_features
    from audit.cli import deliver
    from audit.cli.progress import bar
    from audit.core.views import View
    from audit.endpoint import canary_files, scoring
    from audit.endpoint.client import Client, ServerSettings
    from audit.experiment import inspection

    checks.choice(score, "--score", scoring.SCORES)
    if reference and score != scoring.LOG_PROBABILITIES:
        raise ConfigError("--reference subtracts log-probabilities; leave it out with --score generations")
    if not coins and (reference or score != scoring.LOG_PROBABILITIES or claim_epsilon is not None):
        raise ConfigError("--no-coins reads losses and states no epsilon: leave out --reference, --score and --claim-epsilon")
    if output is not None:
        deliver.demand_new(output)
    texts = canary_files.read(canaries)
    settings = ServerSettings(url=url, key_variable=key_variable, in_flight=in_flight, most_tokens=most_tokens)
    client = Client(settings, cache)
    with bar("scoring (canaries)", len(texts) * (2 if reference else 1), quiet=as_json) as progress:
        if score == scoring.GENERATIONS:
            server = scoring.generation_scores(client, model, texts, progress)
        else:
            server = scoring.log_probability_scores(client, model, texts, progress, reference)
    case = inspection.Settings(
        delta=delta,
        confidence=confidence,
        claim_epsilon=claim_epsilon,
        title=f"{model} at an endpoint",
        **deliver.origin("cpu"),
    )
    print_plain(*server.remarks, file=sys.stderr)
    included = np.array([canary.included for canary in texts])
    if not coins:
        inputs = text_features([canary.text for canary in texts])
        view = View.of(losses=-server.values)
        return deliver.finish(inspection.inspect_outputs(view, included, case, inputs=inputs), output, as_json, USUAL_FORMATS)
    report = inspection.inspect_scores(server.values, included, case, game="one_run", name=canaries.name)
    return deliver.finish(report, output, as_json, USUAL_FORMATS)
