"""`audit canaries new`: canaries, their coins and the commitment to them, before anything is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from audit.cli.printing import AsJson, print_result

app = typer.Typer(help="Write canaries for third-party trainings and servers.", no_args_is_help=True)


@app.command("new")
def new(
    folder: Annotated[Path, typer.Argument(help="New folder for canaries, coins and salt. Keep it from whoever trains.")],
    count: Annotated[int, typer.Option(min=2, help="Canaries, each planted by a fair coin.")] = 200,
    secret: Annotated[str, typer.Option(help="What the secrets look like: digits, phone, email, card or identity.")] = "digits",
    form: Annotated[str, typer.Option(help="text; or chat: the sentence is asked and the secret is the answer.")] = "text",
    system: Annotated[str, typer.Option(help="System prompt before each canary.")] = "",
    document: Annotated[
        Path | None, typer.Option(help="File with a text before each question, as retrieval puts there.")
    ] = None,
    place: Annotated[
        str,
        typer.Option(help="Place of included canaries: training, or the system_prompt or documents of a served application."),
    ] = "training",
    as_json: AsJson = False,
) -> int:
    """Write canaries and coins that are drawn now, with what is to be planted, and print the commitment to publish."""
    from audit.core.seeds import Seed, new_seed
    from audit.data import text_files
    from audit.endpoint import canary_files, canary_law

    text = "" if document is None else text_files.whole_text(document)[0].strip()
    context = canary_files.Context(form=form, system=system, document=text, place=place)
    canaries = canary_law.make_law(secret, count, context).draw(Seed(new_seed()))
    commitment = canary_law.write_folder(canaries, canary_files.new_salt(), folder)
    planted_count = sum(canary.included for canary in canaries)
    print_result(
        as_json,
        {"commitment": commitment, "folder": str(folder), "canaries": count, "planted": planted_count},
        f"commitment: {commitment}",
        f"Publish it before the training. {folder / canary_law.PLANTED} holds the {planted_count} rows to plant ({place}); "
        f"give it alone to whoever trains. {folder / canary_law.FILE} and {folder / canary_files.SALT} stay secret until "
        "the scores are there: audit endpoint, audit adapter and the callback take them with --commitment",
    )
    return 0


@app.callback()
def _common() -> None:
    """Write canaries for third-party trainings and servers."""
