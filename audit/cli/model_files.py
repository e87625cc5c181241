"""Files that `audit model` is given, read and put to the attacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit import plugins
from audit.cli.targets import FOLDER, holds_records
from audit.core.errors import ConfigError
from audit.core.files import file_sha256

if TYPE_CHECKING:
    from audit.experiment.external.inspection import Inspection, References, ReferenceTraining, Settings


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Files that a trained model, or its outputs, and the audited records are in.

    Attributes:
        options: of the reader of this kind of target.
        trains_target: whether the target is trained by this audit, so that members and nonmembers are records.
    """

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
        return f"{self.target.name} ({self.kind}, sha256 {file_sha256(self.target)})"

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
    """Return the settings with what the file says of the training: its description, and its claim if none was given.

    Raises:
        ConfigError: the file claims something else than the command.
    """
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
