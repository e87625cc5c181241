"""Options of `audit endpoint`: each with its type, spelling and help; the command gives the defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
