"""`audit init`: a commented config that runs, for the data and the model that are named or asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli.printing import plain, print_plain
from audit.core.errors import ConfigError, OutputError

EXAMPLE = "quickstart"
_SEPARATORS = (",", ";", "\t")
_FEWEST_CANARIES = 20  # of a game; fewer prove next to nothing, and coins may leave one side empty
_SMALLEST = 160  # records of a file; fewer leave no canaries beside a training set


def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("audit.yaml"),
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", help="Your records: npz with x and y, CSV (plain or gzipped) or Parquet. Asked for on a terminal."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option("--label", help="Column of a table that is predicted.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", help="A model of `audit ls models`, or package.module:callable that returns a module."),
    ] = None,
    target_epsilon: Annotated[float, typer.Option("--target-epsilon", help="Epsilon of the training with DP-SGD.")] = 8.0,
    delta: Annotated[float, typer.Option("--delta", help="Delta of the claim.")] = 1e-5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> int:
    """Write a commented config to start from: for your own data, or an example that needs none."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"'{path}' exists and is not a file; choose another name")
    if path.exists() and not force:
        raise ConfigError(f"'{path}' exists already; choose another name or use --force")
    if data is not None and not data.is_file():
        raise ConfigError(f"--data '{data}': there is no such file; give the path of an npz file, a CSV file or a Parquet file")
    if data is None and label is None and model is None and sys.stdin.isatty() and sys.stdout.isatty():
        data, label, model, target_epsilon = _ask(target_epsilon)
    if data is None:
        if label is not None or model is not None:
            raise ConfigError("--label and --model are about data of your own; name it with --data FILE")
        text = _example()
    else:
        text = _own_config(data, label, model, target_epsilon, delta)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error}") from error
    print_plain(f"wrote {path}; edit it, look at it with `audit plan {path}`, then `audit run {path}`")
    return 0


def _ask(target_epsilon: float) -> tuple[Path | None, str | None, str | None, float]:
    """Data, label, model and epsilon as answered on the terminal; no data for the example."""
    name = typer.prompt("Data file (npz, CSV or Parquet; empty for the example)", default="", show_default=False).strip()
    if not name:
        return None, None, None, target_epsilon
    label = None if name.endswith(".npz") else typer.prompt("Column to predict").strip()
    model = typer.prompt(
        "Model (a name of `audit ls models`, or package.module:callable)", default="", show_default=False
    ).strip()
    return (
        Path(name),
        label,
        model or None,
        typer.prompt("Epsilon of the training with DP-SGD", default=target_epsilon, type=float),
    )


def _example() -> str:
    from audit.config import config_names

    return config_names(EXAMPLE).read_text(encoding="utf-8").replace(f"name: {EXAMPLE}", "name: my-audit")


def _own_config(data: Path, label: str | None, model: str | None, target_epsilon: float, delta: float) -> str:
    """The text of a config for a data file, read by the same reader as a run reads it, with that reader's errors."""
    from audit.config import parse, yaml_text
    from audit.core.seeds import Seed, new_seed
    from audit.data.load import load

    section, omissions = ({"kind": "npz", "path": str(data)}, {}) if data.suffix == ".npz" else _table(data, label)
    full = load({**section, "train": None, "pool": 0, "test": 0}, Seed(0))
    records = len(full.train)
    if records < _SMALLEST:
        raise ConfigError(f"'{data}' holds {records} records; expected at least {_SMALLEST}")
    section |= {"train": records // 2, "pool": records // 4, "test": None}
    shape, outputs = full.train.inputs.shape[1:], full.classes
    spec = _model(model, shape)
    text = "\n".join(
        [
            f"# Models for {plain(data.name)}, with and without DP-SGD, attacked from outside (predictions) and from inside",
            "# (every noisy step). `audit plan` says what these settings can show at most, and what they cost.",
            "version: 1",
            "name: my-audit",
            f"seed: {new_seed()}  # 128 bits from the system; memberships follow from it: keep this file to yourself",
            f"delta: {delta:g}  # below one over the number of records that are protected",
            "confidence: 0.95",
            "",
            *_data_lines(section, full.columns or {}, omissions),
            f"model: {yaml_text.flow(spec)}",
            f"training: {{optimizer: sgd, learning_rate: 0.1, batch_size: {max(1, min(256, records // 16))}, epochs: 20}}",
            "",
            *_mechanisms(target_epsilon),
            *_games(records // 4, _parameters(spec, shape, outputs)),
            "accountants: [pld, rdp, rdp_classic]",
            "",
        ]
    )
    parse(text, location=str(data))
    return text


def _table(data: Path, label: str | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The data section of a table with a header line, and why columns are left out; columns of text are taken as names."""
    from audit import plugins
    from audit.data.frames import read_by_separators
    from audit.data.source import read_bytes

    frame, separator = read_by_separators(read_bytes(data, "table"), data, _SEPARATORS)
    columns = [str(name) for name in frame.columns]
    if label not in columns:
        problem = "which column is predicted is not known" if label is None else f"there is no column '{label}'"
        hint = "" if label is None else plugins.hint(label, columns)
        raise ConfigError(f"'{data}': {problem}; give --label.{hint} Its first line names: {', '.join(columns)}")
    features = [name for name in columns if name != label]
    unusable = {name: reason for name in features if (reason := _fault(frame[name]))}
    for name, reason in unusable.items():
        print_plain(f"column '{name}' is left out (data.drop): {reason}")
    words = [name for name in features if name not in unusable and frame[name].dtype.kind not in "biuf"]
    section = {"kind": "table", "path": str(data), "label": label, "categorical": words, "drop": list(unusable)}
    return (section if separator == "," else {**section, "separator": separator}), unusable


def _fault(column: Any) -> str:
    """Return why a column is no feature as it is; empty if it is one."""
    is_number = column.dtype.kind in "biuf"
    if is_number and (missing := int(column.isna().sum())):
        return f"{missing} of its {len(column)} values are missing; repair them and take it out of drop"
    if not is_number and column.nunique() > len(column) / 2:
        return "nearly every value is another, as in names and numbers of persons, which a model can only learn by heart"
    return ""


def _data_lines(section: dict[str, Any], columns: Iterable[str], omissions: Mapping[str, str]) -> list[str]:
    """Lines of the data section; `omissions` says of columns under `drop` why they are no features."""
    from audit.config import yaml_text

    lines = ["data:", *(f"  {key}: {yaml_text.flow(value)}" for key, value in section.items())]
    lines += [f"  # drop: {yaml_text.flow(name)}: {reason}" for name, reason in omissions.items()]
    numbers = [name for name in columns if name not in section.get("categorical", ())]
    if numbers:
        lines += [
            "  # Limits of numeric columns that are public knowledge, not figures of this file. A column without them is",
            "  # standardised with figures of the training records, which no accountant covers; the report says so.",
            "  # ranges:",
            *(f"  #   {yaml_text.flow(name)}: [low, high]" for name in numbers),
        ]
    return lines


def _model(model: str | None, shape: tuple[int, ...]) -> dict[str, Any]:
    if model is not None and ":" in model:
        return {"factory": model}
    return {"kind": model or ("cnn" if len(shape) == 3 else "mlp")}


def _parameters(spec: dict[str, Any], shape: tuple[int, ...], outputs: int) -> int | None:
    """The number of parameters of a model of this project; None of the user's own, which is not called here."""
    if "factory" in spec:
        return None
    from audit.models.build import build

    return sum(parameter.numel() for parameter in build(spec, shape, outputs).parameters())


def _mechanisms(target_epsilon: float) -> list[str]:
    return [
        "mechanisms:",
        "  - {name: without-dp, kind: non_private}",
        f"  - {{name: dp-sgd, kind: dp_sgd, target_epsilon: {target_epsilon:g}, clip_norm: 1.0}}",
        "",
    ]


def _games(pool: int, parameters: int | None) -> list[str]:
    """Both games; a model with few parameters has no room for canaries of one parameter each."""
    inside = 200 if parameters is None else min(1000, parameters // 4)
    outside = [
        "games:",
        "  - name: black-box  # the adversary sees predictions of the final model",
        "    access: final_model",
        "    canaries: mislabelled  # records of the pool with a wrong label; coins decide which are trained on",
        f"    count: {max(_FEWEST_CANARIES, min(500, pool // 2))}",
        "    runs: 4",
        "    references: 16",
        "    scorers: [loss, lira]",
        "    estimators: [one_run]",
    ]
    if inside < _FEWEST_CANARIES:
        return [*outside, ""]
    return [
        *outside,
        "  - name: white-box  # the adversary sees every noisy step; more canaries can prove more",
        "    access: all_steps",
        "    canaries: dirac_gradient",
        f"    count: {inside}",
        "    mechanisms: [dp-sgd]",
        "    scorers: [gradient_product]",
        "    estimators: [one_run, fdp_rank]",
        "",
    ]
