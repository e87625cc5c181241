"""`audit training` and `audit unlearn`: any system of the user's own in a game of coins, by names in a module."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from audit.cli import deliver, own_code
from audit.cli.printing import AsJson
from audit.core.results import USUAL_FORMATS

Train = Annotated[str, typer.Argument(help="package.module:train(records, seed) -> system. Its module is executed.")]
Forget = Annotated[
    str, typer.Argument(help="package.module:forget(system, request, data, seed) -> system. Its module is executed.")
]
TrainOption = Annotated[str | None, typer.Option("--train", help="train(records, seed) -> system. Default: `train` there.")]
Data = Annotated[str | None, typer.Option(help="Records of every training. Default: `data` of the same module, or none.")]
Canaries = Annotated[str | None, typer.Option(help="Records under test. Default: `canaries` of the same module.")]
Score = Annotated[
    str | None, typer.Option(help="score(system, canaries). Default: `score` of the same module, or minus the loss.")
]
Epsilon = Annotated[float, typer.Option(help="Epsilon that is claimed.")]
Delta = Annotated[float, typer.Option(help="Delta that is claimed.")]
Runs = Annotated[int, typer.Option(min=1, help="Trainings that are judged.")]
References = Annotated[int, typer.Option(min=0, help="Further trainings that scores are compared with: 0, or at least 4.")]
Together = Annotated[bool, typer.Option("--together", help="One coin a run for all canaries, in place of one for each.")]
Confidence = Annotated[float, typer.Option(help="Confidence of the bound.")]
CoinSeed = Annotated[int | None, typer.Option("--seed", help="Seed of coins and trainings. Default: drawn by the system.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: none is written.")]


def training(
    train: Train,
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    data: Data = None,
    canaries: Canaries = None,
    score: Score = None,
    runs: Runs = 1,
    references: References = 0,
    confidence: Confidence = 0.95,
    seed: CoinSeed = None,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Test any system that saw data: coins decide which canaries it sees. Exit code 1 if its claim is refuted."""
    from audit.api.training import check_training

    options = {"epsilon": epsilon, "delta": delta, "runs": runs, "references": references}
    records = _Records(train, data, canaries, score)
    return _judge(check_training, {"train": train}, records, output, as_json, confidence=confidence, seed=seed, **options)


def unlearn(
    forget: Forget,
    epsilon: Epsilon,
    delta: Delta = 1e-5,
    train: TrainOption = None,
    data: Data = None,
    canaries: Canaries = None,
    score: Score = None,
    runs: Runs = 1,
    references: References = 8,
    together: Together = False,
    confidence: Confidence = 0.95,
    seed: CoinSeed = None,
    output: Output = None,
    as_json: AsJson = False,
) -> int:
    """Test a method of unlearning: canaries are trained on and forgotten, or never there. Exit code 1 if it is refuted."""
    from audit.api.unlearning import check_unlearning

    options = {"epsilon": epsilon, "delta": delta, "runs": runs, "references": references, "together": together}
    functions = {"train": train or _beside(forget, "train"), "forget": forget}
    records = _Records(forget, data, canaries, score)
    return _judge(check_unlearning, functions, records, output, as_json, confidence=confidence, seed=seed, **options)


class _Records(NamedTuple):
    """Names of what a game is played with; those that are None are looked for in the module of `function`."""

    function: str
    data: str | None
    canaries: str | None
    score: str | None


def _judge(
    check: Callable[..., Any], functions: Mapping[str, str], names: _Records, output: Path | None, as_json: bool, **options: Any
) -> int:
    if output is not None:
        deliver.demand_new(output)
    own_code.add_working_folder([names.function])
    with own_code.prints_aside():
        report = check(
            *(own_code.find(name, role) for role, name in functions.items()),
            _named(names.function, names.data, "data", own_code.instance),
            own_code.instance(names.canaries or _beside(names.function, "canaries"), "canaries"),
            score=_named(names.function, names.score, "score"),
            command=deliver.origin("cpu")["command"],
            **options,
        )
    scores = deliver.scores({"score": report.untied_scores.ravel()}, report.included.ravel())
    return deliver.finish(report.report, output, as_json, USUAL_FORMATS, scores)


def _named(function: str, name: str | None, usual: str, load: Callable[[str, str], Any] = own_code.find) -> Any:
    """Return what has a name, or the usual one in the function's module; None if it has neither."""
    own_code.find(function)  # its module is loaded
    if name is None and not hasattr(sys.modules[function.partition(":")[0]], usual):
        return None
    return load(name or _beside(function, usual), usual)


def _beside(function: str, name: str) -> str:
    return f"{function.partition(':')[0]}:{name}"
