"""`audit step`: checks of one DP-SGD step of any implementation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.cli import options, own_code
from audit.cli.printing import AsJson, print_result
from audit.core import files
from audit.core.errors import ConfigError, DataError, OutputError

if TYPE_CHECKING:
    from audit.step_checks.findings import StepReport


# How the commands that check steps end: what is accepted, the report to a folder and to the screen, and the exit code.
FAILURE, WEAKNESS = 1, 5  # exit codes: a property failed; none did, but there is a weakness and `--strict` asks for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What a user lets pass: options `CHECK=reason`, and a file of findings `{step: {check: reason}}`.

    `new_baseline` is a file that accepts what is found now; `strict` counts weaknesses.
    """

    options: Sequence[str] = ()
    baseline: Path | None = None
    new_baseline: Path | None = None
    strict: bool = False

    def reasons(self, report: StepReport) -> dict[str, str]:
        """Return the reason of each accepted check of a report; options come before the file, of which checks that the report
        no longer has are left out. `ConfigError` if an option is not `CHECK=reason`, `DataError` if the file cannot be read.
        """
        pairs = [option.partition("=") for option in self.options]
        for check, _, reason in pairs:
            if not check.strip() or not reason.strip():
                raise ConfigError(f'--accept \'{check}\' has no reason; expected CHECK="reason", such as clip.non_finite="..."')
        options = {check.strip(): reason.strip().strip('"') for check, _, reason in pairs}
        rows = {} if self.baseline is None else _read(self.baseline).get(report.name, {})
        checks = {finding.check for finding in report.findings}
        return {check: reason for check, reason in rows.items() if check in checks} | options


def conclude(report: StepReport, subject: str, output: Path | None, as_json: bool, acceptance: Acceptance | None = None) -> int:
    """Accept what is to be accepted, save and print a report, and return the exit code; JSON names the report `subject`."""
    accepting = acceptance or Acceptance()
    if accepting.new_baseline is not None:
        findings = {finding.check: finding.message for finding in (*report.failures, *report.weaknesses)}
        _write(accepting.new_baseline, {report.name: findings})
    report = report.accept(accepting.reasons(report))
    if output is not None:
        report.save(output)
    code = FAILURE if report.failures else WEAKNESS if accepting.strict and report.weaknesses else 0
    values = {"exit_code": code, subject: report.name, "findings": report.to_rows(), "seconds": dict(report.seconds)}
    print_result(as_json, values, *str(report).splitlines())
    return code


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        document = files.read_json(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read the baseline {path}: {error}; --write-baseline makes one") from error
    rows = document.values() if isinstance(document, dict) else [None]
    if not all(isinstance(row, dict) and all(isinstance(reason, str) for reason in row.values()) for row in rows):
        raise DataError(f'{path} is not a baseline; expected {{"step": {{"check": "reason"}}}}, as --write-baseline writes it')
    return {str(name): dict(row) for name, row in document.items()}


def _write(path: Path, rows: dict[str, dict[str, str]]) -> None:
    try:
        files.write_whole(path, (json.dumps(rows, indent=1, sort_keys=True) + "\n").encode())
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; name another file with --write-baseline") from error


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
    acceptance = Acceptance(options=accept or (), baseline=baseline, new_baseline=write_baseline, strict=strict)
    return conclude(report, "step", output, as_json, acceptance)


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
