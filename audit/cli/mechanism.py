"""`audit mechanism`: any randomised function compared with its claimed epsilon and delta."""

from __future__ import annotations

from typing import Annotated

import typer

from audit.cli import own_code
from audit.cli.printing import AsJson, print_result

Function = Annotated[
    str, typer.Argument(help="The mechanism: package.module:function(data, rng[, size]) that returns an output.")
]
Epsilon = Annotated[float, typer.Option(help="Epsilon that is claimed.")]
Delta = Annotated[float, typer.Option(help="Delta that is claimed.")]
Pairs = Annotated[
    str | None,
    typer.Option(help="package.module:object with neighbouring data sets: a list of (data, neighbour); may be a function."),
]
Neighbours = Annotated[
    str | None, typer.Option(help="Pairs to try if none are given: records (numbers), or answers (each moved by at most 1).")
]
Size = Annotated[int, typer.Option(help="Number of answers or records in each data set of those pairs.")]
Low = Annotated[float, typer.Option(help="Smallest record.")]
High = Annotated[float, typer.Option(help="Largest record.")]
Within = Annotated[
    bool, typer.Option("--within", help="No record leaves --low and --high: try no NaN, infinite or outer ones.")
]
AdjacencyName = Annotated[
    str | None,
    typer.Option(
        help="Relation of the data sets: add_remove, replace_one or zero_out. Default: by sizes of --pairs, else replace_one."
    ),
]
Family = Annotated[str | None, typer.Option(help="Family of trade-off curves that the claim asserts: gdp.")]
FloatingPoint = Annotated[bool, typer.Option("--floating-point", help="Test the lowest bits of outputs as well.")]
Samples = Annotated[int, typer.Option(help="Number of outputs on either data set of the pair that is chosen.")]
Confidence = Annotated[float, typer.Option(help="Confidence with which all bounds hold together.")]
MechanismSeed = Annotated[int, typer.Option("--seed", help="Seed of the generator that the function is given.")]


def mechanism(
    function: Function,
    epsilon: Epsilon,
    delta: Delta = 0.0,
    pairs: Pairs = None,
    neighbours: Neighbours = None,
    size: Size = 5,
    low: Low = 0.0,
    high: High = 1.0,
    within: Within = False,
    adjacency: AdjacencyName = None,
    family: Family = None,
    floating_point: FloatingPoint = False,
    samples: Samples = 100_000,
    confidence: Confidence = 0.95,
    seed: MechanismSeed = 0,
    as_json: AsJson = False,
) -> int:
    """Test a mechanism by its outputs on neighbouring data. Exit code 1 if its claim is refuted. Executes its module."""
    from audit.api.mechanism import mechanism as audit_mechanism

    own_code.add_working_folder([function, pairs])
    with own_code.prints_aside():
        report = audit_mechanism(
            own_code.find(function),
            epsilon=epsilon,
            delta=delta,
            pairs=None if pairs is None else own_code.instance(pairs),
            neighbours=neighbours,
            size=size,
            low=low,
            high=high,
            within=within,
            adjacency=adjacency,
            family=family,
            floating_point=floating_point,
            samples=samples,
            confidence=confidence,
            seed=seed,
        )
    print_result(as_json, report.to_dict(), *str(report).splitlines())
    return report.exit_code
