"""The power part of `audit plan`: what each estimator of each game would catch, and how much it takes to catch a violation."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from audit.core.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from audit.core.claims import Claim, Detectable
    from audit.experiment.spec import Experiment, Play, Recipe

FEWEST = 10  # simulated audits at each number of scores
PROOFS = 41  # simulated audits behind the median number of runs to a proof


def powers(
    experiment: Experiment, claims: Mapping[str, Sequence[Claim]], seconds: Mapping[tuple[str, str], float], violation: float
) -> list[dict[str, Any]]:
    """A row for each recipe, game and estimator that is quick enough to simulate.

    Args:
        claims: what is stated of each recipe.
        seconds: of training for each (recipe, game), as far as known.
        violation: the true epsilon that the audit is to catch, as a multiple of the claim.
    """
    from audit.bounds import simulation

    rows = []
    for recipe, play in experiment.pairs:
        path = _path(experiment, recipe, play)
        claims_of_training = tuple(claims.get(recipe.name, ()))
        for estimator in path.estimators:
            alone = replace(path, attacks=((estimator,),))
            for detectable in simulation.detectable(alone, claims_of_training):
                hours = seconds.get((recipe.name, play.name), math.nan) / 3600
                row = {"mechanism": recipe.name, "game": play.name, **asdict(detectable)}
                row |= {"runs_to_proof": _to_proof(alone, detectable, claims_of_training) if play.stops else None}
                rows.append(row | _scores_needed(alone, detectable, play, hours, violation))
    return rows


def _path(experiment: Experiment, recipe: Recipe, play: Play) -> Any:
    from audit.bounds import simulation
    from audit.experiment.insertion import plant, rules_of

    planting = plant(experiment.dataset, play, experiment.parameters, experiment.seed.child("plan"))
    return simulation.Path(
        attacks=tuple(attack.estimators for attack in play.attacks),
        game=rules_of(play, planting, play.access),
        mechanism=recipe.mechanism,
        delta=experiment.budget.delta,
        level=experiment.budget.level,
        together=play.stops,
    )


def _scores_needed(path: Any, detectable: Detectable, play: Play, hours: float, violation: float) -> dict[str, Any]:
    """Scores, runs and hours that catch a true epsilon of `violation` times the claim; None where nothing suffices."""
    from audit.bounds import power

    if detectable.claim <= 0:
        return {"violation": None, "needed": None, "needed_runs": None, "needed_hours": None, "hours": _none_if_unknown(hours)}
    truth = violation * detectable.claim
    question = power.Question(
        delta=path.delta,
        confidence=path.level,
        claim=detectable.claim,
        power=detectable.power,
        draws=min(detectable.draws, FEWEST),
    )
    scores = power.scores_needed(path.estimators[0], path.game, truth, question, path.mechanism)
    runs, cost = None, math.nan
    if scores is not None:
        runs = scores if play.count == 1 else play.runs
        cost = hours * (runs + play.references) / play.models
    return {
        "violation": truth,
        "needed": scores,
        "needed_runs": runs,
        "needed_hours": _none_if_unknown(cost),
        "hours": _none_if_unknown(hours),
    }


def _to_proof(path: Any, detectable: Detectable, claims: Sequence[Claim]) -> float | None:
    """Median runs until the claim is refuted at the least epsilon that is caught; None where nothing is."""
    from audit.bounds import power

    claim = next((claim for claim in claims if claim.epsilon == detectable.claim), None)
    if claim is None or math.isinf(detectable.epsilon):
        return None
    question = power.Question(delta=path.delta, confidence=path.level, claim=detectable.claim, draws=PROOFS)
    query = power.PowerQuery(estimator=path.estimators[0], game=path.game, question=question, mechanism=path.mechanism)
    return power.runs_to_proof(query, detectable.epsilon, claim)


def _none_if_unknown(hours: float) -> float | None:
    return None if math.isnan(hours) else hours


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """The rows as a drawing in a file, SVG or PNG by its name.

    Raises:
        OutputError: the file cannot be written.
    """
    from reports.figures import plan

    try:
        path.write_bytes(plan.draw(rows)[path.suffix[1:]])
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error.strerror}; choose another place") from error


def show(rows: Sequence[Mapping[str, Any]], console: Any) -> None:
    """The rows as a table on the screen."""
    from rich.table import Table

    from audit.core.rounding import up

    if not rows:
        console.print("power: no estimator of this plan is quick enough to simulate")
        return
    table = Table("mechanism", "game", "estimator", "claim", "caught from", "to catch", "scores needed", "hours")
    for row in rows:
        epsilon_text = "nothing" if math.isinf(row["epsilon"]) else f"{up(row['epsilon'])}"
        claim = f"{up(row['claim'])}" if row["claim"] > 0 else "any leakage"
        catch = "-" if row["violation"] is None else f"{up(row['violation'])}"
        runs_text = "-" if row["violation"] is None else "over 200,000" if row["needed"] is None else f"{row['needed']:,}"
        hours = "-" if row["needed_hours"] is None else f"{row['needed_hours']:.2g}"
        table.add_row(row["mechanism"], row["game"], row["estimator"], claim, epsilon_text, catch, runs_text, hours)
    console.print(table)
    console.print(
        f"caught from: the least true epsilon of a Gaussian mechanism that the best attack catches with {rows[0]['power']:.0%} "
        "probability, simulated; scores needed: to catch the violation so often (canaries, or runs of one canary each)"
    )
    for row in rows:
        if row["runs_to_proof"] is not None:
            console.print(
                f"{row['mechanism']}, {row['game']}, {row['estimator']}: at a true epsilon of {up(row['epsilon'])} training "
                f"would stop after {_runs(row['runs_to_proof'])} runs (median of simulated audits)"
            )


def _runs(number: float) -> str:
    return "no fewer than all" if math.isinf(number) else f"about {number:.0f}"
