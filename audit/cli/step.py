"""`audit step`: checks of one DP-SGD step of any implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.cli import options, own_code, step_report
from audit.cli.printing import AsJson
from audit.core.errors import ConfigError, DataError


def step(
    function: options.StepFunction,
    params: options.Params,
    sample: options.Sample,
    noise_multiplier: options.NoiseMultiplier,
    clip_norm: options.ClipNorm,
    divisor: options.Divisor,
    returns: options.Returns = "parameters",
    learning_rate: options.LearningRate = 1.0,
    generator: options.Generator = None,
    seed: options.StepSeed = 0,
    probes: options.Probes = None,
    accept: options.Accept = None,
    baseline: options.Baseline = None,
    write_baseline: options.WriteStepBaseline = None,
    strict: options.Strict = False,
    output: options.StepOutput = None,
    as_json: AsJson = False,
) -> int:
    """Check one DP-SGD step: clipping, sums, noise. Executes the function's module.

    Exit code 1: the claim is refuted. 5: a weakness was found and --strict allows none. 0 otherwise; what is accepted passes.
    """
    from audit.step_checks.run import check_step

    own_code.add_working_folder([function, params, sample, *(probes or ())])
    with own_code.prints_aside():
        report = check_step(
            own_code.find(function, "function"),
            _mapping(params),
            _arrays(sample),
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            divisor=divisor,
            returns=returns,
            learning_rate=learning_rate,
            generator=generator,
            seed=seed,
            probes=probes or (),
        )
    acceptance = step_report.Acceptance(options=accept or (), baseline=baseline, new_baseline=write_baseline, strict=strict)
    return step_report.conclude(report, "step", output, as_json, acceptance)


def _object(name: str, option: str) -> Any:
    """The object or npz file that an option names; a function is called."""
    from audit.data.archives import read_npz
    from audit.data.source import read_bytes

    if ":" in name:
        return own_code.instance(name)
    return read_npz(read_bytes(Path(name), option), Path(name))


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
