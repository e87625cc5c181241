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
from audit.cli.printing import print_json, print_plain
from audit.core.errors import ConfigError, OutputError

KINDS = plugins.FOLDERS
MANDATORY = (
    "torch",
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "pyarrow",
    "matplotlib",
    "typst",
    "pydantic",
    "dp_accounting",
    "safetensors",
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
    if as_json:
        print_json(list(names))
    else:
        print_plain(*names)
    return 0


def _list_accountants(as_json: bool) -> int:
    """Accountants that answer for their claims, and those that pass a library's figure on for the battery to judge."""
    from audit.accounting import resolve

    groups: dict[str, list[str]] = {"claims": [], "subjects": []}
    for name in plugins.names(resolve.PACKAGE):
        groups["subjects" if resolve.is_as_it_is(plugins.find(resolve.PACKAGE, name)) else "claims"].append(name)
    if as_json:
        print_json(groups)
        return 0
    print_plain("answer for their claims:", *(f"  {name}" for name in groups["claims"]))
    print_plain(
        "pass on what a library or a formula says, for `audit accountant check`:", *(f"  {name}" for name in groups["subjects"])
    )
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
    checks = _examine()
    if as_json:
        print_json(checks)
    else:
        words = {True: "ok ", False: "-  "}
        for row in checks["rows"]:
            word = "BAD" if row["needed"] and not row["ok"] else words[row["ok"]]
            print_plain(f"{word} {row['what']}: {row['found']}")
    return 0 if all(row["ok"] or not row["needed"] for row in checks["rows"]) else 4


def _try_escapes(as_json: bool) -> int:
    """Say of each way out whether it is closed. Exit code 4 if one is open that a wall should close."""
    from audit.core.confined.examination import examine

    findings = examine()
    if as_json:
        print_json({"rows": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print_plain(f"{'held    ' if finding.is_held else 'NOT HELD'} {finding.name}: {finding.detail}")
        held, without = sum(row.is_held for row in findings), sum(not row.has_wall for row in findings)
        print_plain(f"{held} of {len(findings)} held; no wall closes the last {without}")
    return 0 if all(finding.is_held for finding in findings if finding.has_wall) else OutputError.exit_code


def _examine() -> dict[str, Any]:
    rows = [
        _shadowing(),
        *(_package(name, mandatory=True) for name in MANDATORY),
        *(_package(name, mandatory=False) for name in OPTIONAL),
    ]
    if all(row["ok"] for row in rows if row["what"] == "torch"):
        rows += _devices()
    if all(row["ok"] for row in rows if row["what"] == "typst"):
        rows.append(_renders())
    return {"rows": rows}


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
    distribution = {"sklearn": "scikit-learn", "dp_accounting": "dp-accounting", "prv_accountant": "prv-accountant"}.get(
        name, name
    )
    return {"what": name, "found": importlib.metadata.version(distribution), "ok": True, "needed": mandatory}


def _devices() -> list[dict[str, Any]]:
    from audit.engine import device

    return [{"what": item, "found": text, "ok": ok, "needed": mandatory} for item, text, ok, mandatory in device.survey()]


def _renders() -> dict[str, Any]:
    """Return whether a page can be made here."""
    import reports

    try:
        size = len(reports.probe())
    except OutputError as error:
        return {"what": "PDF", "found": str(error), "ok": False, "needed": True}
    return {"what": "PDF", "found": f"renders ({size:,} bytes)", "ok": True, "needed": True}
