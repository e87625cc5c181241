"""`audit ls`, `audit doctor`: what there is, whether the machine is fit."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from audit import plugins
from audit.cli.printing import print_result
from audit.core.errors import ConfigError, OutputError

KINDS = plugins.FOLDERS
MANDATORY = (
    *("torch", "numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib"),
    *("typst", "pydantic", "dp_accounting", "safetensors"),
)
OPTIONAL = ("opacus", "prv_accountant", "autodp", "jax_privacy")


def ls(
    kind: Annotated[str, typer.Argument(help=f"What to list: configs, {', '.join(KINDS)}.")] = "configs",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list.")] = False,
) -> int:
    """List the names that a config can use."""
    from audit.config.read import shipped_configs

    if kind != "configs" and kind not in KINDS:
        raise ConfigError(f"nothing is listed under '{kind}'; choose one of: configs, {', '.join(KINDS)}")
    if kind == "accountants":
        return _list_accountants(as_json)
    names = shipped_configs() if kind == "configs" else plugins.names(KINDS[kind])
    print_result(as_json, list(names), *names)
    return 0


def _list_accountants(as_json: bool) -> int:
    """Accountants that answer for their claims, and those that pass a library's figure on for the battery to judge."""
    from audit.accounting import resolve

    groups: dict[str, list[str]] = {"claims": [], "subjects": []}
    for name in plugins.names(resolve.PACKAGE):
        groups["subjects" if resolve.is_as_it_is(plugins.find(resolve.PACKAGE, name)) else "claims"].append(name)
    lines = ["answer for their claims:", *(f"  {name}" for name in groups["claims"])]
    lines += ["pass on what a library or a formula says, for `audit accountant check`:"]
    print_result(as_json, groups, *lines, *(f"  {name}" for name in groups["subjects"]))
    return 0


def doctor(
    confinement: Annotated[
        bool, typer.Option("--confinement", help="Try every way out of the process that reads third-party files.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Print versions and devices, and check that each part works. Exit code 4 if a required part does not."""
    if confinement:
        return _try_escapes(as_json)
    rows = _examine()
    words = ["ok " if row["ok"] else "BAD" if row["needed"] else "-  " for row in rows]
    lines = (f"{word} {row['what']}: {row['found']}" for word, row in zip(words, rows, strict=True))
    print_result(as_json, {"rows": rows}, *lines)
    return OutputError.exit_code if "BAD" in words else 0


def _try_escapes(as_json: bool) -> int:
    """Say of each way out whether it is closed. Exit code 4 if one is open that a wall should close."""
    from audit.core.confined.examination import examine

    findings = examine()
    lines = [f"{'held    ' if row.is_held else 'NOT HELD'} {row.name}: {row.detail}" for row in findings]
    closed, without = sum(row.is_held for row in findings), sum(not row.has_wall for row in findings)
    lines.append(f"{closed} of {len(findings)} held; no wall closes the last {without}")
    print_result(as_json, {"rows": [asdict(finding) for finding in findings]}, *lines)
    return 0 if all(finding.is_held for finding in findings if finding.has_wall) else OutputError.exit_code


def _examine() -> list[dict[str, Any]]:
    rows = [
        _shadowing(),
        *(_package(name, mandatory=True) for name in MANDATORY),
        *(_package(name, mandatory=False) for name in OPTIONAL),
    ]
    if all(row["ok"] for row in rows if row["what"] == "torch"):
        from audit.engine import device

        rows += [{"what": item, "found": text, "ok": ok, "needed": mandatory} for item, text, ok, mandatory in device.survey()]
    if all(row["ok"] for row in rows if row["what"] == "typst"):
        rows.append(_renders())
    return rows


def _shadowing() -> dict[str, Any]:
    """The three packages must be side by side; a folder of the same name elsewhere on the path would hide one."""
    places = {}
    for name in ("audit", "attacks", "reports"):
        spec = importlib.util.find_spec(name)
        places[name] = None if spec is None or spec.origin is None else Path(spec.origin).parent
    parents = {place.parent for place in places.values() if place is not None}
    ok = len(parents) == 1 and None not in places.values()
    text = (
        f"audit, attacks, reports in {parents.pop()}"
        if ok
        else ", ".join(f"{name} in {place}" for name, place in places.items())
    )
    return {"what": "packages", "found": text, "ok": ok, "needed": True}


def _package(name: str, *, mandatory: bool) -> dict[str, Any]:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return {"what": name, "found": f"not usable: {error}", "ok": False, "needed": mandatory}
    names = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting", "prv_accountant": "prv-accountant"}
    distribution = names.get(name, name)
    return {"what": name, "found": importlib.metadata.version(distribution), "ok": True, "needed": mandatory}


def _renders() -> dict[str, Any]:
    """Return whether a page can be made here."""
    import reports

    try:
        size = len(reports.probe())
    except OutputError as error:
        return {"what": "PDF", "found": str(error), "ok": False, "needed": True}
    return {"what": "PDF", "found": f"renders ({size:,} bytes)", "ok": True, "needed": True}
