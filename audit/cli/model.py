"""`audit model`: attacks on a model that is already trained."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import plugins
from audit.cli import gates, options, own_code
from audit.cli.options import SEED_VARIABLE
from audit.cli.printing import AsJson, print_plain
from audit.cli.references import ReferenceOptions
from audit.cli.targets import FOLDER, ReaderOptions, guess_kind, holds_records
from audit.core import files
from audit.core.errors import ConfigError, DataError
from audit.core.files import file_sha256
from audit.core.phrases import phrase
from audit.core.results import USUAL_FORMATS

if TYPE_CHECKING:
    from audit.core.data import Array
    from audit.experiment.external.inspection import Inspection, References, ReferenceTraining, Settings


# Files that `audit model` is given, read and put to the attacks.
@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Files of a trained model or its outputs, and of the audited records; `options` are those of its reader."""

    target: Path | None
    kind: str
    members: Path | None
    nonmembers: Path | None
    options: Mapping[str, Any]
    trains_target: bool = False

    @property
    def description(self) -> str:
        """The target in words, with the hash of its file."""

        if self.trains_target:
            return "trained by this audit"
        if self.target is None or not self.target.is_file():
            return "predictions made elsewhere"
        digest = file_sha256(self.target)
        return phrase("{name} ({format}, sha256 {digest})", name=self.target.name, format=self.kind, digest=digest)

    @property
    def holds_records(self) -> bool:
        """True if the target holds outputs for the audited records, not a model."""
        return not self.trains_target and holds_records(self.kind)

    def inspect(self, settings: Settings, references: References | ReferenceTraining | None) -> Inspection:
        """Return the audit of the model; `DataError` or `ConfigError` if a file is missing or does not fit."""
        return (self._outputs if self.holds_records else self._model)(settings, references)

    def _outputs(self, settings: Settings, references: References | ReferenceTraining | None) -> Inspection:
        import numpy as np

        from audit.experiment.external import inspection
        from audit.experiment.external.units import first_occurrences

        files = {"path": self.target, "members": self.members, "nonmembers": self.nonmembers}
        paths = {name: str(path) for name, path in files.items() if path is not None}
        subject = plugins.build(FOLDER, {"kind": self.kind, **paths, **self.options}, "--kind")
        units = getattr(subject, "units", None)
        places = np.arange(len(subject.included)) if units is None else first_occurrences(units)
        return inspection.examine_outputs(
            subject.view,
            subject.included,
            _with_metadata(settings, getattr(subject, "metadata", {})),
            inputs=subject.inputs,
            groups=subject.groups,
            units=units,
            index=None if self.target is None else places,
            source=(", ".join(Path(path).name for path in paths.values()), subject.sha256),
            references=references,
        )

    def _model(self, settings: Settings, references: References | ReferenceTraining | None) -> Inspection:
        from audit.experiment.external import inspection

        if self.members is None or self.nonmembers is None or (self.target is None and not self.trains_target):
            raise ConfigError(
                "give --target, --members and --nonmembers (or a file of predictions alone, as --target; or --train without "
                "--target)"
            )
        form = {"kind": self.kind, "path": str(self.target), **self.options}
        subject = None if self.target is None else plugins.build(FOLDER, form, "--kind")
        return inspection.examine(subject, self.members, self.nonmembers, settings, references)


def _with_metadata(settings: Settings, metadata: Mapping[str, Any]) -> Settings:
    """Return the settings with the file's description and claim; `ConfigError` if the command claims something else."""
    from audit.data import exchange

    claim, delta = metadata.get("claimed_epsilon"), exchange.read_delta(metadata)
    if claim is not None:
        if settings.claim_epsilon not in (None, claim):
            raise ConfigError(f"--claim-epsilon is {settings.claim_epsilon:g}, the file claims {claim:g}; leave one out")
        if delta is not None and delta != settings.delta:
            raise ConfigError(f"--delta is {settings.delta:g}, the claim of the file is at {delta:g}; give --delta {delta:g}")
    text = exchange.describe(metadata)
    return replace(
        settings,
        claim_epsilon=settings.claim_epsilon if claim is None else float(claim),
        model=f"{settings.model}; by its own account: {text}" if text else settings.model,
    )


def model(
    config: options.Config = None,
    target: options.Target = None,
    kind: options.Kind = None,
    members: options.Members = None,
    nonmembers: options.Nonmembers = None,
    references: options.References = None,
    train: options.Train = None,
    runs: options.Runs = 16,
    workers: options.Workers = 1,
    factory: options.Factory = None,
    arguments: options.Arguments = None,
    key: options.Key = None,
    strip_prefix: options.StripPrefix = None,
    coins: options.Coins = None,
    randomised_seed_file: options.RandomisedSeedFile = None,
    randomised_seed: options.RandomisedSeed = None,
    claim_epsilon: options.ClaimEpsilon = None,
    claim_unit: options.ClaimUnit = None,
    delta: options.Delta = 1e-5,
    confidence: options.Confidence = 0.95,
    scorer: options.Scorer = None,
    estimator: options.Estimator = None,
    drop_overlap: options.DropOverlap = False,
    batch_size: options.BatchSize = 256,
    device: options.Device = "cpu",
    batch_seconds: options.BatchSeconds = 120,
    memory_gib: options.MemoryGib = 16,
    seed: options.Seed = 0,
    record_key: options.RecordKey = None,
    output: options.Output = None,
    gate: gates.Gates = None,
    as_json: AsJson = False,
) -> int:
    """Attack a model that is already trained and write the report."""
    from audit.cli import deliver
    from audit.execution import run_folder
    from audit.experiment.external import inspection
    from audit.experiment.games import records

    limits = gates.read(gate)
    settings = inspection.Settings(
        delta=delta,
        confidence=confidence,
        seed=seed,
        claim_epsilon=claim_epsilon,
        claim_unit=claim_unit,
        coins=None if coins is None else read_coins(coins),
        randomised_seed=_coin_seed(randomised_seed, randomised_seed_file),
        record_key=None if record_key is None else records.read_key(record_key),
        overlap="drop" if drop_overlap else "refuse",
        scorers=tuple(scorer) if scorer else None,
        proven_by=tuple(scorer) if scorer else None,
        estimators=tuple(estimator) if estimator else None,
        title=(target or members or Path("predictions")).name,
        **deliver.origin(device),
    )
    reader_options = {"factory": factory, "arguments": _arguments(arguments), "key": key, "strip_prefix": strip_prefix}
    readers = ReaderOptions(
        common={"batch_size": batch_size, "device": device, "seconds": batch_seconds, "memory_gib": memory_gib},
        explicit={name: value for name, value in reader_options.items() if value is not None},
    )
    own_code.add_working_folder([factory, kind, train, *(scorer or [])])
    target_kind = kind or guess_kind(target, readers.explicit)
    model_files = ModelFiles(  # a kind that is not there is better named before the folder is made
        target=target,
        kind=target_kind,
        members=members,
        nonmembers=nonmembers,
        options=readers.of(target_kind),
        trains_target=target is None and train is not None,
    )
    for name in scorer or ():
        plugins.find(plugins.FOLDERS["scorers"], name, "--scorer")
    folder = output or run_folder.new_folder(Path("runs"), settings.title)
    deliver.demand_new(folder)
    reference_options = ReferenceOptions(
        path=references,
        train=train,
        runs=runs,
        workers=workers,
        with_target=model_files.trains_target,
        folder=folder.parent / "references",
    )
    reference_kind = None if model_files.holds_records else kind
    with reference_options.open(reference_kind, readers) as reference_models, own_code.prints_aside():
        result = model_files.inspect(replace(settings, model=model_files.description), reference_models)
    scores = deliver.scores(result.scores, result.included, record=result.names, label=result.labels)
    extra_files = {**scores, run_folder.RECORD_KEY: settings.names.text}
    code = deliver.finish(gates.gated(result.report, limits), folder, as_json, USUAL_FORMATS, extra_files)
    if not as_json:
        print_plain(*(f"{name} ranks these records as {attack} does" for name, attack in result.repeats.items()))
    return code


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
    """The coins: array `coins` of an npz file, or column `coin` of a table; `DataError` if the file holds none."""
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


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--arguments is not JSON: {error}; expected an object like '{{\"classes\": 10}}'") from error
    if not isinstance(values, dict):
        raise ConfigError(f"--arguments is {text}; expected a JSON object like '{{\"classes\": 10}}'")
    return values
