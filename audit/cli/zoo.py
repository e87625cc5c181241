"""`audit zoo`: what refutes each piece of wrong DP code that the project knows."""

from __future__ import annotations

from typing import Annotated

import typer

from audit.cli.printing import AsJson, print_json, print_table


def zoo(
    names: Annotated[list[str] | None, typer.Argument(help="Entries to check. Default: all.")] = None,
    as_json: AsJson = False,
) -> int:
    """Audit wrong DP code (steps, loops, releases) and correct twins. Exit code 1 if a verdict is not the expected one."""
    from audit.zoo import _survey

    entries = _survey.survey(names or (), lambda name: typer.echo(f"  {name}", err=True))
    astray = [entry.name for entry in entries if bool(entry.wrong) != bool(entry.checks)]
    code = 1 if astray else 0
    if as_json:
        rows = [
            {
                "name": entry.name,
                "wrong": entry.wrong,
                "audit": entry.audit.strip("`"),
                "claim": entry.claim,
                "epsilon_lower": entry.truth[0],
                "epsilon": entry.truth[1],
                "checks": list(entry.checks),
                "seconds": entry.seconds,
            }
            for entry in entries
        ]
        print_json({"exit_code": code, "entries": rows})
        return code
    refutations = sum(1 for entry in entries if entry.wrong and entry.checks)
    title = f"{refutations} of {sum(1 for entry in entries if entry.wrong)} wrong entries refuted"
    cells = [
        (entry.name, entry.wrong or "correct", ", ".join(entry.checks) or "none", f"{entry.seconds:.1f}") for entry in entries
    ]
    print_table(title, ("entry", "what is wrong", "failed checks", "seconds"), cells)
    return code
