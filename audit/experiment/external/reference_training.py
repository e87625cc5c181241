"""References that are trained here, by a function of the user's: cached, resumable, several at a time."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from audit import plugins
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError, ObservationError, OutputError
from audit.core.protocols import Executor
from audit.core.seeds import Seed
from audit.core.training import Progress
from audit.data.archives import read_npz
from audit.data.members import MemberEvidence
from audit.data.row_containers import RowContainer, find_digests
from audit.data.source import array_sha256
from audit.execution import code, run_folder
from audit.experiment.external.external_models import References, query_model
from audit.experiment.external.label_reading import find_class_names
from audit.experiment.external.model_answers import Answers
from audit.experiment.external.model_calls import in_either_type
from audit.experiment.external.units import Users

LOG = logging.getLogger("audit")
_NUMBER_TYPES = re.compile(r"dtype|scalar type|double|float64", re.IGNORECASE)
# every record should be in some references and out of others, whatever share of the records the target was trained on
RATES = (0.2, 0.8)


def _ignore(_: int) -> None:
    """Report progress to no one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingRecords:
    """The audited records, as a training function gets them and as its models are asked about them.

    Attributes:
        inputs: `(n, ...)`; `original_labels` y as it was given; `labels` the same as `read_labels` takes it.
        names: `(classes,)` the class of each of the target's columns; None if they are numbered, or nothing is known of them.
    """

    inputs: Array | RowContainer
    original_labels: Array
    labels: Array
    names: Array | None = None

    @classmethod
    def of(cls, evidence: MemberEvidence, names: Array | None = None) -> Self:
        """Return those of the evidence; whole numbers in one column are given as int64."""
        has_numbers = evidence.original_labels is None or (
            evidence.original_labels.ndim == 1 and evidence.original_labels.dtype.kind in "biu"
        )
        original_labels = evidence.labels if has_numbers or evidence.original_labels is None else evidence.original_labels
        return cls(inputs=evidence.records, original_labels=original_labels, labels=evidence.labels, names=names)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, included: Array) -> tuple[Any, Array]:
        """Return inputs, in their own form, and y of the records for which `included` `(n,)` is true."""
        is_form = isinstance(self.inputs, RowContainer)
        inputs = self.inputs.take(np.flatnonzero(included)) if is_form else self.inputs[included]  # type: ignore[union-attr,index]
        return inputs, self.original_labels[included]

    @property
    def sha256(self) -> str:
        inputs = find_digests(self.inputs) if isinstance(self.inputs, RowContainer) else self.inputs
        return array_sha256(inputs, self.original_labels, *(() if self.names is None else (self.names,)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReferenceTraining:
    """References that are trained here, each on the records that its own coins choose.

    Attributes:
        train: `train((inputs, labels), seed) -> model`, or its name, "package.module:function". The arrays are the chosen ones
            of the audited records, as they were given; the function may add others that the target was trained on as well. The
            model is a torch module, a function of arrays, or an estimator with `predict_proba`.
        runs: how many references.
        workers: processes that train side by side; more than one needs a function that can be imported by its name.
        folder: where the outputs of each model are kept as soon as it is trained, so that a second call trains what is missing
            alone. They are found by a hash of the function's source, the records, the coins and the seed. None keeps nothing.
        progress: called with 1 for each model that exists.
    """

    train: str | Callable[..., Any]
    runs: int = 16
    workers: int = 1
    folder: str | Path | None = None
    progress: Progress = _ignore

    def __post_init__(self) -> None:
        checks.count(self.runs, "runs", minimum=1)
        checks.count(self.workers, "workers", minimum=1)
        if not callable(self.train) and ":" not in str(self.train):
            raise ConfigError(f"'{self.train}' names no training function; expected package.module:function")
        if self.folder is not None and not self._modules:
            raise ConfigError(
                f"{self.name} lies in no file that can be imported, so a change of it would not be seen: put it into a "
                "module, or keep nothing (folder=None)"
            )

    @property
    def name(self) -> str:
        if isinstance(self.train, str):
            return self.train
        return f"{self.train.__module__}:{getattr(self.train, '__qualname__', type(self.train).__qualname__)}"

    @property
    def _modules(self) -> tuple[str, ...]:
        """The top-level module that holds the function; empty if its source is not known."""
        return code.foreign_modules([self.name])

    def references(self, records: TrainingRecords, rate: float, seed: Seed, users: Users | None = None) -> References:
        """Train on random halves, or other shares, of the records.

        Args:
            rate: chance of each record to be in the training set of each model; kept within `RATES`.
            users: the records of each are in or out together; None draws a coin for each record.

        Raises:
            DataError: a model's outputs have another shape than the others', or its coins chose no record.
            ObservationError: outputs that are not numbers.
            OutputError: the folder cannot be written.
        """
        share = min(max(rate, RATES[0]), RATES[1])
        streams = [seed.child("coins", run).numpy() for run in range(self.runs)]
        draws = [random.random(len(records)) < share if users is None else users.draw(random, share) for random in streams]
        included = np.stack(draws)
        answers = self.answers(records, included, seed)
        values: dict[str, Any] = {answers[0].form: np.stack([answer.values for answer in answers])}
        return References(included=included, **values)

    def answers(self, records: TrainingRecords, included: Array, seed: Seed) -> list[Answers]:
        """Answers of a model for each row of `included` `(k, n)`, the records it is trained on; errors as `references`."""
        jobs = [
            _Job(number=number, included=row, seed=seed.child("training", number).integer() % 2**31)
            for number, row in enumerate(included)
        ]
        for job in jobs:
            if not job.included.any():
                raise DataError(f"the coins of model {job.number} chose none of {len(records)} records; give more records")
        keys = self._keys(jobs, records)
        results = {job.number: result for job, key in zip(jobs, keys, strict=True) if (result := self._lookup(key)) is not None}
        self.progress(len(results))
        missing = [job for job in jobs if job.number not in results]
        for place, result in self._executor().map(_fit_and_ask, (self.train, records), missing, self.progress):
            number = missing[place].number
            self._keep(keys[number], result)
            results[number] = result
        answers = [_from_arrays(results[job.number]) for job in jobs]
        shapes = sorted({(answer.form, answer.values.shape) for answer in answers})
        if len(shapes) > 1:
            raise DataError(
                f"{self.name} gives models with outputs of different shapes {shapes}; expected the same of every training, "
                "also where a class is missing from its records"
            )
        return answers

    def _executor(self) -> Executor:
        folder = plugins.FOLDERS["executors"]
        form = {"kind": "serial"} if self.workers == 1 else {"kind": "processes", "workers": self.workers}
        executor: Executor = plugins.build(folder, form)
        return executor

    def _keys(self, jobs: Sequence[_Job], records: TrainingRecords) -> list[str]:
        """Hashes of all that decides what each model answers, libraries apart."""
        source = {name: digest for name, digest in code.sources(self._modules).items() if name != code.OWN}
        common = f"{self.name} {sorted(source.items())} {records.sha256}"
        return [
            hashlib.sha256(f"{common} {job.seed} {job.included.astype(np.uint8).tobytes().hex()}".encode()).hexdigest()
            for job in jobs
        ]

    def _lookup(self, key: str) -> Mapping[str, Array] | None:
        """Return what an earlier call left of this training; None if there is nothing, or it is damaged."""
        if self.folder is None:
            return None
        path = Path(self.folder) / f"{key}.npz"
        if not path.is_file():
            return None
        try:
            arrays = read_npz(path.read_bytes(), path)
        except DataError as error:
            LOG.warning("%s; it is trained again", error)
            return None
        return arrays if "remarks" in arrays and len(arrays) > 1 else None

    def _keep(self, key: str, result: Mapping[str, Array]) -> None:
        if self.folder is None:
            return
        folder = Path(self.folder)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"cannot write to '{folder}': {error}; choose another folder for the references") from error
        buffer = io.BytesIO()
        np.savez(buffer, allow_pickle=False, **result)
        run_folder.write(folder / f"{key}.npz", buffer.getvalue())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    number: int
    included: Array
    seed: int


def _fit_and_ask(context: tuple[Any, TrainingRecords], job: _Job, progress: Progress) -> dict[str, Array]:
    train, records = context
    function = plugins.foreign(train) if isinstance(train, str) else train
    inputs, labels = records.take(job.included)
    try:
        # torch's layers take float32 alone; nothing else is trained a second time
        model = in_either_type(
            lambda x: function((x, labels), job.seed), inputs, lambda error: bool(_NUMBER_TYPES.search(str(error)))
        )
    except Exception as error:  # whatever the user's own code raises is told to its owner, from whichever process
        raise ConfigError(
            f"training {job.number} by {train} failed: {plugins.explain(error)}; expected train((inputs, labels), seed) to "
            "return a model"
        ) from error
    names = records.names
    if names is None and records.labels.ndim == 1 and find_class_names(model) is not None:
        names = np.unique(records.labels)
    answers = query_model(model, records.inputs, records.labels, names)
    bad = int(np.isnan(answers.values).reshape(len(records), -1).any(axis=1).sum())
    if bad:
        raise ObservationError(
            f"model {job.number} answers {bad} of {len(records)} records with NaN; did its training diverge?"
        )
    progress(1)
    return {answers.form: answers.values, "remarks": np.array(answers.remarks, dtype=np.str_)}


def _from_arrays(arrays: Mapping[str, Array]) -> Answers:
    (form,) = arrays.keys() - {"remarks"}
    values: dict[str, Any] = {form: arrays[form]}
    return Answers(**values, remarks=tuple(str(remark) for remark in arrays["remarks"]))
