"""A report's figures as metrics of an MLflow run, with its files as artifacts, for people who follow models there."""

import math
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from audit.core.errors import ConfigError, OutputError
from audit.core.lower_bounds import read_ceiling, read_epsilon
from audit.core.phrases import plain
from audit.core.results import AuditReport, MechanismResult
from audit.core.visible import without_passwords
from reports import headline

EXPERIMENT = "epsilon-audit"
_FOREIGN = re.compile(r"[^\w\-. /]")  # what MLflow allows in a name, but for the colon, which its file store lacks on Windows


def metrics(report: AuditReport) -> dict[str, float]:
    """Return the figures of each mechanism by name: epsilon claimed, proven and its ceiling, AUC by attack, utility, gates met.

    Infinite figures are in it; `log` writes them as tags, since stores of MLflow do not keep them alike.

    >>> metrics(report)["dp-sgd/epsilon_proven"]  # doctest: +SKIP
    1.93
    """
    rows = {name: value for mechanism in report.mechanisms for name, value in _mechanism_rows(mechanism)}
    return rows | {f"policy/{gate.gate} met": float(gate.met) for gate in report.policy}


def _mechanism_rows(mechanism: MechanismResult) -> Iterator[tuple[str, float]]:
    verdict, bound = headline.deciding(mechanism), headline.free(mechanism)
    if verdict is not None:
        yield f"{mechanism.name}/epsilon_claimed", verdict.claim.epsilon
    if bound is not None:
        yield f"{mechanism.name}/epsilon_{'void' if mechanism.is_void else 'proven'}", read_epsilon(bound.bound)
        yield f"{mechanism.name}/epsilon_ceiling", read_ceiling(bound.bound)
    for game in mechanism.games:
        for attack in game.attacks:
            if attack.auc is not None:
                yield f"{mechanism.name}/{game.name}/{attack.scorer}/auc", attack.auc
    for metric in mechanism.utility:
        yield f"{mechanism.name}/{metric.name}", metric.value


def log(report: AuditReport, files: Mapping[str, bytes], uri: str, experiment: str = EXPERIMENT) -> str:
    """Write a report into MLflow and return the id of its new run.

    Args:
        files: artifacts by name, as `reports.render` gives them.
        uri: of the tracking server or store: `http://...`, `sqlite:///mlflow.db`, `file:///folder`.
        experiment: created if it does not exist.

    Raises:
        ConfigError: MLflow is not installed.
        OutputError: the store cannot be reached or refuses what is written.
    """
    try:
        import mlflow
    except ImportError as error:
        raise ConfigError("--mlflow needs MLflow: pip install mlflow") from error
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        record = client.get_experiment_by_name(experiment)
        place = client.create_experiment(experiment) if record is None else record.experiment_id
        run = client.create_run(
            place, run_name=plain(report.title), start_time=_milliseconds(report.created), tags=_tags(report)
        )
        name = run.info.run_id
        with _termination(client, name):
            for key, value in metrics(report).items():
                if math.isfinite(value):
                    client.log_metric(name, _FOREIGN.sub("_", key), value)
                else:
                    client.set_tag(name, _FOREIGN.sub("_", key), str(value))
            _artifacts(client, name, files)
    except (mlflow.exceptions.MlflowException, OSError) as error:
        raise OutputError(
            f"MLflow at '{without_passwords(uri)}' could not be written: {without_passwords(str(error))}"
        ) from error
    return str(name)


@contextmanager
def _termination(client: Any, run: str) -> Iterator[None]:
    """A scope: at its end the run is finished, or failed if it raised: else MLflow shows it as running for ever."""
    try:
        yield
    except BaseException:
        client.set_terminated(run, "FAILED")
        raise
    client.set_terminated(run)


def _tags(report: AuditReport) -> dict[str, str]:
    outcomes = {f"{mechanism.name} outcome": str(mechanism.outcome) for mechanism in report.mechanisms}
    tags = {"report": report.id, "outcome": str(report.outcome), **outcomes}
    return {_FOREIGN.sub("_", key): value for key, value in tags.items()}


def _milliseconds(date: str) -> int:
    return int(1000 * datetime.fromisoformat(date).timestamp())  # the unit of MLflow


def _artifacts(client: Any, run: str, files: Mapping[str, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        client.log_artifacts(run, folder)
