"""`audit step`: checks of one DP-SGD step of any implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from audit.cli.accountant_check import look_here
from audit.cli.printing import AsJson, print_json, print_plain
from audit.core.errors import ConfigError, DataError


def step(
    function: Annotated[
        str, typer.Argument(help="The step: package.module:function(params, batch, generator[, noise_multiplier, ...]).")
    ],
    params: Annotated[str, typer.Option(help="Parameters: npz file, or package.module:object that maps names to arrays.")],
    sample: Annotated[
        str, typer.Option(help="At least 8 records: npz file with x and y, or package.module:object with the arrays.")
    ],
    noise_multiplier: Annotated[float, typer.Option(help="Noise multiplier that the accounting claims.")],
    clip_norm: Annotated[float, typer.Option(help="Clip norm that the accounting claims.")],
    divisor: Annotated[float, typer.Option(help="Public constant by which the noisy sum is divided.")],
    returns: Annotated[str, typer.Option(help="What the function returns: parameters, or the released sum.")] = "parameters",
    learning_rate: Annotated[float, typer.Option(help="Learning rate of the function, if it returns parameters.")] = 1.0,
    generator: Annotated[
        str | None,
        typer.Option(help="Third argument of the function: torch, numpy or seed. Default: by the type of the parameters."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the calls.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Folder for findings.json and witnesses.")] = None,
    as_json: AsJson = False,
) -> int:
    """Check one DP-SGD step: clipping, sums, noise. Exit code 1 if the claim is refuted. Executes the function's module."""
    from audit import plugins
    from audit.step_checks.run import check_step

    look_here([function, params, sample])
    if ":" not in function:
        raise ConfigError(f"'{function}' names no function; expected package.module:function")
    report = check_step(
        plugins.find("audit.step_checks", function),
        _mapping(params),
        _arrays(sample),
        noise_multiplier=noise_multiplier,
        clip_norm=clip_norm,
        divisor=divisor,
        returns=returns,
        learning_rate=learning_rate,
        generator=generator,
        seed=seed,
    )
    if output is not None:
        report.save(output)
    code = 1 if report.failures else 0
    if as_json:
        print_json({"exit_code": code, "step": report.name, "findings": report.to_rows(), "seconds": dict(report.seconds)})
    else:
        print_plain(*str(report).splitlines())
    return code


def _object(name: str, option: str) -> Any:
    """The object or npz file that an option names; a function is called."""
    from audit import plugins

    if ":" in name:
        value = plugins.find("audit.step_checks", name)
        return value() if callable(value) else value
    import numpy as np

    try:
        with np.load(name, allow_pickle=False) as file:
            return dict(file)
    except (OSError, ValueError) as error:
        raise DataError(f"{option} {name} cannot be read: {error}; give an npz file or package.module:object") from error


def _mapping(name: str) -> Mapping[str, Any]:
    value = _object(name, "--params")
    if not isinstance(value, Mapping):
        raise ConfigError(f"--params {name} is a {type(value).__name__}; expected a mapping of names to arrays")
    return value


def _arrays(name: str) -> Sequence[Any]:
    value = _object(name, "--sample")
    if isinstance(value, Mapping):
        missing = [key for key in ("x", "y") if key not in value]
        if missing:
            raise DataError(f"--sample {name} has {', '.join(value)}; expected the arrays x and y")
        return [value["x"], value["y"]]
    if not isinstance(value, Sequence):
        raise ConfigError(f"--sample {name} is a {type(value).__name__}; expected (inputs, labels)")
    return value
