"""`audit model`: attacks on a model that is already trained."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from audit import plugins
from audit.cli import gates
from audit.cli.kinds import KINDS, guess_kind
from audit.cli.printing import AsJson
from audit.cli.references import Options, read_references
from audit.core import files
from audit.core.errors import ConfigError, DataError
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.core.data import Array
    from audit.experiment.inspection import Inspection, References, Settings

SEED_VARIABLE = "AUDIT_RANDOMISED_SEED"


def _defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Options from a YAML file; those on the command line go before them."""
    if path is not None:
        from audit import config

        permitted_keys = sorted(str(param.name) for param in context.command.params if param.name not in ("help", "config"))
        values = config.options(path, permitted_keys)
        if isinstance(values.get("arguments"), dict):
            values["arguments"] = json.dumps(values["arguments"])
        context.default_map = {**(context.default_map or {}), **values}
    return path


def model(
    config: Annotated[
        Path | None,
        typer.Option("--config", callback=_defaults, is_eager=True, help="YAML file with any of these options by name."),
    ] = None,
    target: Annotated[Path | None, typer.Option(help="The trained model, or a file with its predictions.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help=f"Kind of target: {', '.join(KINDS)}, or package.module:Class. Default: by the suffix."),
    ] = None,
    members: Annotated[Path | None, typer.Option(help="Records that the model was trained on: npz with x and y.")] = None,
    nonmembers: Annotated[Path | None, typer.Option(help="Records that it was not trained on: npz with x and y.")] = None,
    references: Annotated[
        Path | None,
        typer.Option(help="Models of your own to compare with: npz with included and outputs, or a folder of models."),
    ] = None,
    factory: Annotated[
        str | None,
        typer.Option(help="package.module:callable that returns the module of a state dict. It is executed."),
    ] = None,
    arguments: Annotated[str | None, typer.Option(metavar="JSON", help="Keyword arguments of the factory.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of the weights in a checkpoint.")] = None,
    strip_prefix: Annotated[
        str | None, typer.Option(help="Prefix to remove from the names of weights, such as '_module.'.")
    ] = None,
    coins: Annotated[
        Path | None, typer.Option(help="File with the coin of each record (npz, csv, parquet). Needed to prove an epsilon.")
    ] = None,
    randomised_seed_file: Annotated[
        Path | None,
        typer.Option(help=f"File with the seed that draw_coins was called with; or set {SEED_VARIABLE}."),
    ] = None,
    randomised_seed: Annotated[
        int | None,
        typer.Option(help="The seed itself. Other users of this machine can read it in the list of processes."),
    ] = None,
    claim_epsilon: Annotated[float | None, typer.Option(help="The epsilon that the training claims at --delta.")] = None,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = 1e-5,
    confidence: Annotated[float, typer.Option(help="Confidence with which all bounds hold together.")] = 0.95,
    scorer: Annotated[list[str] | None, typer.Option(help="Attack to run; may repeat. Default: all that apply.")] = None,
    estimator: Annotated[
        list[str] | None, typer.Option(help="Estimator; may repeat. Default: all that hold for any mechanism.")
    ] = None,
    drop_overlap: Annotated[
        bool, typer.Option("--drop-overlap", help="Leave out records that are both members and nonmembers.")
    ] = False,
    batch_size: Annotated[int, typer.Option(help="Number of records per call of the model.")] = 256,
    device: Annotated[str, typer.Option(help="Device: cpu or cuda.")] = "cpu",
    batch_seconds: Annotated[
        float, typer.Option(help="Time limit in seconds for loading a .pt2 or TorchScript model, and for each batch.")
    ] = 120,
    memory_gib: Annotated[float, typer.Option(help="Memory limit in GiB for a .pt2 or TorchScript model (Linux, cpu).")] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the negative control and the guard.")] = 0,
    record_key: Annotated[
        Path | None, typer.Option(help="File with the key of the records' names. Default: a new key.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to write. Default: runs/<time>-<target>.")
    ] = None,
    gate: gates.Gates = None,
    as_json: AsJson = False,
) -> int:
    """Attack a model that is already trained and write the report."""
    from audit.cli import deliver
    from audit.execution import store
    from audit.experiment import inspection, naming

    limits = gates.read(gate)
    settings = inspection.Settings(
        delta=delta,
        confidence=confidence,
        seed=seed,
        claim_epsilon=claim_epsilon,
        coins=None if coins is None else read_coins(coins),
        randomised_seed=_coin_seed(randomised_seed, randomised_seed_file),
        record_key=None if record_key is None else naming.read_key(record_key),
        overlap="drop" if drop_overlap else "refuse",
        scorers=tuple(scorer) if scorer else None,
        proven_by=tuple(scorer) if scorer else None,
        estimators=tuple(estimator) if estimator else None,
        title=(target or members or Path("predictions")).name,
        **deliver.origin(device),
    )
    target_kind = kind or guess_kind(target, factory is not None)
    if factory is not None or ":" in target_kind:
        _find_own_code()
    plugins.find(plugins.FOLDERS["targets"], target_kind, "--kind")  # one that is not there is named before the folder is made
    folder = output or store.new_folder(Path("runs"), settings.title)
    deliver.demand_new(folder)
    settings = replace(settings, model=_description(target, target_kind))
    common: dict[str, Any] = {"batch_size": batch_size, "device": device}
    loader_options = {"factory": factory, "key": key, "strip_prefix": strip_prefix}
    options = Options(
        weights=common
        | {name: value for name, value in loader_options.items() if value is not None}
        | {"arguments": _arguments(arguments)},
        limits=common | {"seconds": batch_seconds, "memory_gib": memory_gib},
    )
    reference_models = (
        None if references is None else read_references(references, None if target_kind == "predictions" else kind, options)
    )
    if target_kind == "predictions":
        inspection_result = _predictions(target, members, nonmembers, settings, reference_models)
    else:
        inspection_result = _module(
            target, target_kind, options, Sides(members=members, nonmembers=nonmembers, references=reference_models), settings
        )
    extra_files = {"scores.parquet": _table(inspection_result), store.RECORD_KEY: settings.names.text}
    return deliver.finish(gates.gated(inspection_result.report, limits), folder, as_json, USUAL_FORMATS, extra_files)


def _coin_seed(number: int | None, file: Path | None) -> int | None:
    """The seed of the coins from the one place that names it: the option, a file, or the environment."""
    variable = os.environ.get(SEED_VARIABLE)
    sources = {"--randomised-seed": number, "--randomised-seed-file": file, SEED_VARIABLE: variable}
    places = [place for place, value in sources.items() if value is not None]
    if len(places) > 1:
        raise ConfigError(f"the seed of the coins is given by {' and '.join(places)}; expected one of them")
    if number is not None or not places:
        return number
    try:
        return int(files.read_text(file) if file is not None else str(variable))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{places[0]} does not give a seed; expected a readable file or variable with one integer") from error


def read_coins(path: Path) -> Array:
    """The recorded coins: array `coins` of an npz file, or column `coin` of a table.

    Raises:
        DataError: the file is missing or malformed, or holds no coins.
    """
    from audit.data.archives import read_npz
    from audit.data.frames import read_table
    from audit.data.source import read_bytes

    content = read_bytes(path, "coins")
    table: Any = read_npz(content, path) if content[:2] == b"PK" else read_table(content, path)
    for name in ("coins", "coin"):
        if name in table:
            column: Array = table[name] if isinstance(table, dict) else table[name].to_numpy()
            return column
    raise DataError(f"{path} has no 'coins' ({', '.join(map(str, table))}); expected an npz array 'coins' or a column 'coin'")


def _description(target: Path | None, kind: str) -> str:
    """The target in words, with the hash of its file."""
    from audit.execution import store

    if target is None or not target.is_file():
        return "predictions made elsewhere"
    return f"{target.name} ({kind}, sha256 {store.file_sha256(target)})"


def _table(inspection: Inspection) -> bytes:
    """Every record with its score by every attack. Holds memberships: for internal use."""
    import io

    import pandas as pd

    common = {"record": inspection.names, "label": inspection.labels, "member": inspection.included}
    frames = [pd.DataFrame({"attack": name, **common, "score": values}) for name, values in inspection.scores.items()]
    buffer = io.BytesIO()
    pd.concat(frames, ignore_index=True).to_parquet(buffer, index=False)
    return buffer.getvalue()


def _arguments(text: str | None) -> dict[str, Any]:
    try:
        values = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--arguments is not JSON: {error}; expected an object like '{{\"classes\": 10}}'") from error
    if not isinstance(values, dict):
        raise ConfigError(f"--arguments is {text}; expected a JSON object like '{{\"classes\": 10}}'")
    return values


@dataclass(frozen=True, kw_only=True)
class Sides:
    """The records of a model, and others to compare it with."""

    members: Path | None
    nonmembers: Path | None
    references: References | None


def _find_own_code() -> None:
    """Let a factory or a class be imported from where the user works: it is the user's own."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _predictions(
    target: Path | None, members: Path | None, nonmembers: Path | None, settings: Settings, references: References | None
) -> Inspection:
    import numpy as np

    from audit.experiment import inspection

    paths = {"path": target, "members": members, "nonmembers": nonmembers}
    predictions = {name: str(path) for name, path in paths.items() if path is not None}
    subject = plugins.build("audit.subjects", {"kind": "predictions", **predictions})
    name = ", ".join(Path(path).name for path in predictions.values())
    return inspection.examine_outputs(
        subject.view,
        subject.included,
        settings,
        inputs=subject.inputs,
        groups=subject.groups,
        index=None if target is None else np.arange(len(subject.included)),
        source=(name, subject.sha256),
        references=references,
    )


def _module(target: Path | None, kind: str, options: Options, sides: Sides, settings: Settings) -> Inspection:
    from audit.experiment import inspection

    if target is None or sides.members is None or sides.nonmembers is None:
        raise ConfigError("give --target, --members and --nonmembers (or a file of predictions alone, as --target)")
    subject = plugins.build("audit.subjects", {"kind": kind, "path": str(target), **options.of(kind)})
    return inspection.examine(subject, sides.members, sides.nonmembers, settings, sides.references)
