"""The options of the longest commands, each with its type, spelling and help; the commands give the defaults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from audit.cli.targets import KINDS
from audit.core.errors import ConfigError

SEED_VARIABLE = "AUDIT_RANDOMISED_SEED"


def _defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Options from a YAML file; those on the command line go before them."""
    if path is not None:
        from audit import config

        params = {param.opts[0].strip("-").replace("-", "_"): param for param in context.command.params}
        values = config.options(path, sorted(params.keys() - {"help", "config"}))
        defaults = {}
        for key, (value, place) in values.items():
            text = json.dumps(value) if key == "arguments" and isinstance(value, dict) else value
            text = [text] if params[key].multiple and not isinstance(text, list) else text
            try:
                params[key].process_value(context, text)
            except (typer.BadParameter, TypeError) as error:
                raise ConfigError(f"{place}: {key} is {value!r}: {error}") from error
            defaults[str(params[key].name)] = text
        context.default_map = {**(context.default_map or {}), **defaults}
    return path


# audit model
Config = Annotated[
    Path | None,
    typer.Option("--config", callback=_defaults, is_eager=True, help="YAML file with any of these options by name."),
]
Target = Annotated[Path | None, typer.Option(help="The trained model, or a file with its predictions.")]
Kind = Annotated[
    str | None, typer.Option(help=f"Kind of target: {', '.join(KINDS)}, or package.module:Class. Default: by the suffix.")
]
Members = Annotated[Path | None, typer.Option(help="Records that the model was trained on: npz with x and y.")]
Nonmembers = Annotated[Path | None, typer.Option(help="Records that it was not trained on: npz with x and y.")]
References = Annotated[
    Path | None, typer.Option(help="Models of your own to compare with: npz with included and outputs, or a folder of models.")
]
Train = Annotated[
    str | None,
    typer.Option(
        help="Train the references here: package.module:function((inputs, labels), seed) returns a model. It is executed. "
        "Without --target it trains the target too, on the members."
    ),
]
Runs = Annotated[int, typer.Option(min=1, help="References that --train makes.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes in which --train runs side by side.")]
Factory = Annotated[
    str | None, typer.Option(help="package.module:callable that returns the module of a state dict. It is executed.")
]
Arguments = Annotated[str | None, typer.Option(metavar="JSON", help="Keyword arguments of the factory.")]
Key = Annotated[str | None, typer.Option(help="Key of the weights in a checkpoint.")]
StripPrefix = Annotated[str | None, typer.Option(help="Prefix to remove from the names of weights, such as '_module.'.")]
Coins = Annotated[
    Path | None, typer.Option(help="File with the coin of each record (npz, csv, parquet). Needed to prove an epsilon.")
]
RandomisedSeedFile = Annotated[
    Path | None, typer.Option(help=f"File with the seed that draw_coins was called with; or set {SEED_VARIABLE}.")
]
RandomisedSeed = Annotated[
    int | None, typer.Option(help="The seed itself. Other users of this machine can read it in the list of processes.")
]
ClaimEpsilon = Annotated[float | None, typer.Option(help="The epsilon that the training claims at --delta.")]
ClaimUnit = Annotated[
    str | None,
    typer.Option(help="Whom the claim protects: record, or user where records come with 'unit'. Default: user there."),
]
Delta = Annotated[float, typer.Option(help="Delta of every epsilon.")]
Confidence = Annotated[float, typer.Option(help="Confidence with which all bounds hold together.")]
Scorer = Annotated[list[str] | None, typer.Option(help="Attack to run; may repeat. Default: all that apply.")]
Estimator = Annotated[list[str] | None, typer.Option(help="Estimator; may repeat. Default: all that hold for any mechanism.")]
DropOverlap = Annotated[bool, typer.Option("--drop-overlap", help="Leave out records that are both members and nonmembers.")]
BatchSize = Annotated[int, typer.Option(help="Number of records per call of the model.")]
Device = Annotated[str, typer.Option(help="Device: cpu or cuda.")]
BatchSeconds = Annotated[
    float, typer.Option(help="Time limit in seconds for loading a .pt2 or TorchScript model, and for each batch.")
]
MemoryGib = Annotated[float, typer.Option(help="Memory limit in GiB for a .pt2 or TorchScript model (Linux, cpu).")]
Seed = Annotated[int, typer.Option(help="Seed of the negative control and the guard.")]
RecordKey = Annotated[Path | None, typer.Option(help="File with the key of the records' names. Default: a new key.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write. Default: runs/<time>-<target>.")]

# audit scores
File = Annotated[Path, typer.Argument(help="Table (npz, csv, parquet) with a score and the coin of each record.")]
ScoresDelta = Annotated[float | None, typer.Option(help="Delta of every epsilon. Default: 1e-5.")]
Epsilon = Annotated[
    float | None,
    typer.Option(help="Instead of --delta: print the largest delta that is refuted at this epsilon, and its ceiling."),
]
ScoresClaimEpsilon = Annotated[float | None, typer.Option(help="The epsilon that is claimed at --delta.")]
Game = Annotated[
    str,
    typer.Option(
        help="one_run: memberships are independent fair coins. independent_trials: also, each score is from a separate run."
    ),
]
ScoresEstimator = Annotated[
    list[str] | None, typer.Option(help="Estimator; may repeat. Default: both_ends for independent trials, else one_run.")
]
Score = Annotated[
    list[str] | None,
    typer.Option(help="Score column; may repeat. Several columns share the error rate and the best bound counts."),
]
Member = Annotated[str | None, typer.Option(help="Name of the membership column.")]
ScoreCoins = Annotated[
    Path | None,
    typer.Option(
        "--coins",
        help="Table (npz, csv, parquet) with the coin of each record, joined to the scores by identifier. Missing, foreign and "
        "repeated identifiers are errors.",
    ),
]
Identifier = Annotated[
    str | None, typer.Option("--id", help="Name of the identifier in both tables. Default: id, record or record_id.")
]
Adjacency = Annotated[
    str,
    typer.Option(
        help="What a coin decided about a record: add_remove (present or absent), replace_one (it or another in its place) or "
        "zero_out."
    ),
]
Conditions = Annotated[
    list[str] | None, typer.Option("--where", metavar="COLUMN=VALUE", help="Use only rows with this value; may repeat.")
]
ScoresSeed = Annotated[int, typer.Option(help="Seed of the negative control.")]
Certificates = Annotated[int, typer.Option(min=0, help="Number of simulated audits behind the certificate; 0 for none.")]
ScoresOutput = Annotated[
    Path | None, typer.Option("--output", "-o", help="Folder for the report. Default: no report is written.")
]

# audit run
RunOutput = Annotated[Path | None, typer.Option("--output", "-o", help="Folder of this run. Default: runs/<time>-<name>.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the unfinished run of the same config.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done and what it could show. Trains nothing, calls no factory.")
]
Ledger = Annotated[
    str | None, typer.Option("--ledger", help="Budget ledger of the data, shown in the report; see `audit ledger`.")
]
Record = Annotated[
    str | None,
    typer.Option(
        "--record",
        metavar="TRAINING",
        help="Record a training of this mechanism in the ledger; fails if it would exceed the budget.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]

# audit step
StepFunction = Annotated[
    str, typer.Argument(help="The step: package.module:function(params, batch, generator[, noise_multiplier, ...]).")
]
Params = Annotated[str, typer.Option(help="Parameters: npz file, or package.module:object that maps names to arrays.")]
Sample = Annotated[
    str, typer.Option(help="At least 8 records: npz file with x and y, or package.module:object with the arrays.")
]
NoiseMultiplier = Annotated[float, typer.Option(help="Noise multiplier that the accounting claims.")]
ClipNorm = Annotated[float, typer.Option(help="Clip norm that the accounting claims.")]
Divisor = Annotated[float, typer.Option(help="Public constant by which the noisy sum is divided.")]
Returns = Annotated[str, typer.Option(help="What the function returns: parameters, or the released sum.")]
LearningRate = Annotated[float, typer.Option(help="Learning rate of the function, if it returns parameters.")]
Generator = Annotated[
    str | None,
    typer.Option(help="Third argument of the function: torch, numpy or seed. Default: by the type of the parameters."),
]
StepSeed = Annotated[int, typer.Option(help="Seed of the calls.")]
Probes = Annotated[
    list[str] | None,
    typer.Option("--probe", help="A probe of your own, package.module:Class, besides the usual ones; may repeat."),
]
StepOutput = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for findings.json and witnesses.")]

# audit flower
Strategy = Annotated[
    str, typer.Argument(help="The strategy, or a mod with local noise: package.module:object, or a function that returns it.")
]
Mods = Annotated[
    list[str] | None, typer.Option("--mod", help="Mod of the clients' apps: package.module:mod; may repeat, outermost first.")
]
ClaimedNoise = Annotated[float | None, typer.Option("--noise-multiplier", help="Claimed. Default: the strategy's.")]
ClaimedClip = Annotated[float | None, typer.Option("--clip-norm", help="Claimed. Default: the strategy's.")]
ClaimedClients = Annotated[int | None, typer.Option("--clients", help="Clients in a round. Default: the strategy's.")]

# audit accountant check
Accountant = Annotated[
    list[str] | None,
    typer.Option("--accountant", "-a", help="Accountant: name, name,field=value or module:object; may repeat."),
]
Group = Annotated[list[str] | None, typer.Option(help="Group of test cases to run; may repeat. Default: all.")]
Case = Annotated[list[str] | None, typer.Option(help="Run cases whose id contains this text; may repeat.")]
Skip = Annotated[list[str] | None, typer.Option(help="Id of a case to leave out; may repeat.")]
Nonsense = Annotated[
    bool, typer.Option("--nonsense", help="Also ask for arguments that mean nothing, which have to be refused.")
]
Method = Annotated[
    str | None,
    typer.Option(
        help="Method whose figures the answers have to be: rdp, moments, zcdp, gdp, pld, prv or none, with options as in "
        "'rdp,conversion=classic,orders=2..64'. Default: the one that the accountant names, or that its answers show."
    ),
]
RecordFigures = Annotated[Path | None, typer.Option("--record", help="Write every figure to this JSON file.")]
Against = Annotated[Path | None, typer.Option(help="File of --record: any figure that changed fails the check.")]
Tolerance = Annotated[float, typer.Option(help="Relative difference from --against that is no change.")]
Require = Annotated[int, typer.Option(min=1, help="Minimum number of brackets answered with neither 0 nor infinity.")]
Baseline = Annotated[Path | None, typer.Option(help="File of accepted findings, which do not fail the check.")]
Accept = Annotated[
    list[str] | None, typer.Option(help='CHECK="reason": a failure or weakness to live with, shown in the report; may repeat.')
]
WriteStepBaseline = Annotated[
    Path | None, typer.Option("--write-baseline", help="Write a file that accepts this run's findings.")
]
Strict = Annotated[bool, typer.Option("--strict", help="End with exit code 5 if a weakness is left that is not accepted.")]
WriteBaseline = Annotated[Path | None, typer.Option(help="Write the WRONG findings of this run to this file.")]
Seconds = Annotated[float, typer.Option(help="CPU seconds after which a case counts as CRASH.")]
AllCases = Annotated[bool, typer.Option("--all", help="Also list cases that are LOOSE, EXACT or UNSUPPORTED.")]
Junit = Annotated[Path | None, typer.Option(help="Write the results to this JUnit file.")]
Plot = Annotated[Path | None, typer.Option(help="Draw claims against brackets to this SVG or PNG file (one accountant).")]
