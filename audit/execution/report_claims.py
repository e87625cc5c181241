"""What a report claims, held against what accountants charge over the steps, in a table of costs, and by sums made here.

As `audit.execution.recompute`, which it adds to, it imports nothing else of this package.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from audit.execution.recompute import all_bounds, figure, is_equal, number


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlace:
    """Where a value of a report is, and what it is compared with."""

    report: Any
    config: Mapping[str, str]  # leaves by path, without quotation marks
    kind: str  # of the report, as its config says
    result: Any = None
    game: Any = None
    attack: Any = None

    @property
    def rows(self) -> dict[str, Any]:
        """Return the checks of the training by code."""
        return {row["code"]: row for row in self.result["checks"]}

    @property
    def bounds(self) -> list[Any]:
        """Return the bounds of the game."""
        return list(all_bounds({"games": [self.game]}))

    @property
    def accountants(self) -> list[str]:
        """Return the accountants that claims of the training come from."""
        return [row["source"] for row in self.result["claims"] if not row["source"].startswith("declared")]


def unique(rows: Any, *keys: str) -> bool:
    """Return whether no row, or no value of its keys, is there twice."""
    names = [json.dumps([row[key] for key in keys] if keys else row, sort_keys=True) for row in rows]
    return len(set(names)) == len(names)


def rises(values: Any) -> bool:
    """Return whether numbers never fall."""
    return all(number(a) <= number(b) + 1e-6 for a, b in pairwise(values))


def ends_at(course: Any, values: Any, places: Any, total: Any) -> bool:
    """Return whether a course has a value for each of its rising steps, the last one at all steps."""
    return len(values) == len(places) > 0 and unique(places) and rises(places) and places[-1] == (total or places[-1])


def step_count(at: ReportPlace) -> Any:
    """Return a training's steps, None if its mechanism has no single number."""
    return (at.result["mechanism"] or {}).get("steps")


def claims_fit(claims: Any, at: ReportPlace) -> bool:
    """Return whether claims are alike, and those of an audit of something given are the ones declared to it."""
    alike = all(row[key] == claims[0][key] for row in claims for key in ("adjacency", "unit", "delta"))
    if at.kind not in ("scores", "model") or not alike or "claim_epsilon" not in at.config:
        return alike and all(row["delta"] == at.report["delta"] for row in claims) and unique(claims)
    claim = at.config["claim_epsilon"]
    declared_claims = [] if claim == "null" else [[float(claim), at.config["adjacency"], None]]
    users = any(game["game"]["unit"] for game in at.result["games"])
    rows = [[number(row["epsilon"]), row["adjacency"], row["family"]] for row in claims]
    return rows == declared_claims and (users or all(row["unit"] == "example" for row in claims))


def costs_agree(claim: Any, event: Any) -> bool:
    """Return whether a claim computed for DP-SGD is what noise, rate and steps cost, as far as its accountant is exact."""
    event = json.loads(event["tree"]) | {"type": "DpSgd"} if "DpSgd" in str((event or {}).get("tree")) else event or {}
    exact = re.search(r"(PLD|PRV|reference)|RDP|Renyi", claim["source"])
    if (
        event.get("type") != "DpSgd"
        or not exact
        or claim["adjacency"] == "replace_one"
        or event.get("kind", "DpSgd") != "DpSgd"
    ):
        return True
    noise, epsilon = (event["noise_multiplier"], event["sample_rate"], event["steps"]), number(claim["epsilon"])
    upper, lower = epsilon * 1.01 + 1e-3, epsilon * (0.99 if exact[1] else 0.6) - (1e-3 if exact[1] else 0.1)
    return bool(dp_sgd_delta(*noise, upper) <= claim["delta"] <= dp_sgd_delta(*noise, max(lower, 0.0)))


@functools.lru_cache(maxsize=64)
def dp_sgd_losses(noise: float, rate: float, steps: int, reach: float) -> Any:
    """Return losses and, for a record in and out, the chances of their sum over all steps and that of any beyond."""
    size = 2**17
    losses = (np.arange(size) - size // 2) * (2 * reach / size)
    edges = np.append(losses, reach) - reach / size
    normal = np.frompyfunc(lambda value: math.erfc(-value / math.sqrt(2)) / 2, 1, 1)

    def output(loss: Any) -> Any:
        inside = np.maximum(np.expm1(np.minimum(loss, 700)) + rate, 1e-300) / rate
        return noise * np.log(inside) + 1 / (2 * noise)  # in units of the noise

    places = output(edges), output(-edges)
    presence = (1 - rate) * normal(places[0]).astype(float) + rate * normal(places[0] - 1 / noise).astype(float)
    columns = []
    for below in (presence, 1 - normal(places[1]).astype(float)):
        chances = np.fft.ifftshift(np.diff(np.concatenate([[0.0], below[1:-1], [below[-1]]])))
        columns.append(
            (np.fft.fftshift(np.fft.irfft(np.fft.rfft(chances) ** steps, size)), -math.expm1(steps * math.log(below[-1])))
        )
    return losses, columns


def dp_sgd_delta(noise: float, rate: float, steps: int, epsilon: float) -> float:
    """Return the delta of DP-SGD at epsilon, by sums of losses on a grid (Koskela, Jalko and Honkela 2020)."""
    losses, columns = dp_sgd_losses(noise, rate, steps, 2.0 * math.ceil(epsilon) + 20.0)
    gains = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return float(max((chances * gains).sum() + beyond for chances, beyond in columns))


def course_fits(course: Any, at: ReportPlace) -> bool:
    """Return whether what an accountant charges grows to its claim."""
    claimed = {row["source"]: row["epsilon"] for row in at.result["claims"]}.get(course["accountant"])
    course_fit = ends_at(course, course["epsilon"], course["steps"], step_count(at)) and rises(course["epsilon"])
    return course_fit and is_equal(course["epsilon"][-1], claimed)


def bounds_course_fits(course: Any, at: ReportPlace) -> bool:
    """Return whether the bounds over the steps end at a bound of the training."""
    values = next(value for key, value in course.items() if key.startswith(("epsilon", "void")))
    last = [figure(bound) for bound in all_bounds(at.result) if course["label"].split(", ")[1].startswith(bound["estimator"])]
    ends = ends_at(course, values, course["steps"], step_count(at))
    return ends and any(is_equal(number(values[-1]), value) for value in last)


def cost_fits(cost: Any, at: ReportPlace) -> bool:
    """Return whether costs hold the claims, within the bracket, and end there."""
    results = [row for row in at.report["mechanisms"] if row["name"] in cost["trainings"]]
    claims = {row["source"]: row["epsilon"] for result in results for row in result["claims"]}
    rows = [row["epsilon"] for row in cost["claims"]]
    fits = (
        all(row["claims"] for row in results)
        and len(results) == len(cost["trainings"]) > 0
        and cost["delta"] == at.report["delta"]
    )
    fits &= [row["accountant"] for row in cost["claims"]] == cost["accountants"] and unique(cost["accountants"])
    fits &= all(is_equal(claims.get(row["source"], row["epsilon"]), row["epsilon"]) for row in cost["claims"])
    fits &= set(claims) <= {row["source"] for row in cost["claims"]} | {"declared"}
    fits &= all(number(row["epsilon"]) >= cost["lower"] * (1 - 1e-6) for row in cost["claims"] if row["side"] == "upper")
    steps = re.search(r"(\d+) steps", cost["mechanism"])
    if cost["course"] and steps:
        last = cost["course"][-1]
        fits &= ends_at(cost, cost["course"], cost["course_steps"], int(steps[1])) and last["claims"] == rows
        fits &= [last["lower"], last["upper"]] == [cost["lower"], cost["upper"]]
        fits &= all(
            rises([row[key] for row in cost["course"]]) and row["lower"] <= row["upper"]
            for key in ("lower", "upper")
            for row in cost["course"]
        )
    for result in results:
        event = result["mechanism"] or {}
        if event.get("type") == "DpSgd":
            fits &= cost["mechanism"] == "DP-SGD (noise {noise_multiplier:.6g}, rate {sample_rate:.6g}, {steps} steps)".format(
                **event
            )
    return bool(fits)
