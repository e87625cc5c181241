"""What the audit of a mechanism found, beside what is claimed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.core.claims import DeltaBound, Verdict
from audit.core.lower_bounds import LowerBound
from audit.core.rounding import below
from audit.mechanism_checks.sampling import Pair


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MechanismReport:
    """Bounds that hold together, each from one event that was fixed before the outputs it was counted on were drawn.

    Attributes:
        name: of the mechanism.
        verdict: the claim, what is said of it and why.
        epsilon: the bound on epsilon at the claimed delta.
        delta: the bound on delta at the claimed epsilon.
        fit: the bound on epsilon inside the declared family, or None.
        floating_point: the bound on delta at the claimed epsilon by the lowest bits of outputs, or None where not asked for.
        pair: the most informative neighbouring data sets, on which all bounds rest.
        scouts: name of each pair that was tried and what it promised.
        refusals: names of pairs with hostile records for which the mechanism raised an error.
        samples: outputs on either side, a third of them to search, the rest to count.
        confidence: with which all bounds hold together.
        seconds: name of each stage to its wall time.
    """

    name: str
    verdict: Verdict
    epsilon: LowerBound
    delta: DeltaBound
    fit: LowerBound | None
    floating_point: DeltaBound | None
    pair: Pair
    scouts: tuple[tuple[str, float], ...]
    refusals: tuple[str, ...] = ()
    samples: int
    confidence: float
    seconds: Mapping[str, float]

    @property
    def exit_code(self) -> int:
        """Return what `audit mechanism` answers: 0 not refuted, 1 refuted, 3 out of reach or invalid."""
        return self.verdict.outcome.exit_code

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        claim = self.verdict.claim
        return {
            "exit_code": self.exit_code,
            "mechanism": self.name,
            "outcome": self.verdict.outcome.value,
            "reason": self.verdict.reason,
            "claim": {
                "epsilon": claim.epsilon,
                "delta": claim.delta,
                "adjacency": claim.adjacency.value,
                "family": claim.family,
            },
            "confidence": self.confidence,
            "samples": self.samples,
            "epsilon": _epsilon(self.epsilon),
            "delta": _delta(self.delta),
            "fit": None if self.fit is None else {**_epsilon(self.fit), "family": self.fit.family, "mu": self.fit.parameter},
            "floating_point": None if self.floating_point is None else _delta(self.floating_point),
            "pair": self.pair.name,
            "scouts": [{"pair": name, "promise": promise} for name, promise in self.scouts],
            "refusals": list(self.refusals),
            "seconds": dict(self.seconds),
        }

    def __str__(self) -> str:
        claim = self.verdict.claim
        proven = below(self.epsilon.epsilon, claim=claim.epsilon)
        lines = [
            f"{self.name}: {self.verdict.outcome.value.replace('_', ' ')}. {self.verdict.reason}",
            f"  claimed  epsilon {claim.epsilon:g} at delta {claim.delta:g}",
            f"  proven   epsilon >= {proven} at delta {claim.delta:g}, by {self.epsilon.selected}",
            f"           delta >= {below(self.delta.delta, claim=claim.delta)} at epsilon {claim.epsilon:g}",
        ]
        if self.fit is not None:
            lines.append(
                f"           epsilon >= {below(self.fit.epsilon, claim=claim.epsilon)} inside the family '{self.fit.family}'"
            )
        if self.floating_point is not None:
            bound = below(self.floating_point.delta, claim=claim.delta)
            lines.append(f"           delta >= {bound} at epsilon {claim.epsilon:g}, by the lowest bits of the outputs")
        lines += [
            f"  ceiling  epsilon {self.epsilon.ceiling:.3f}: outputs that two data sets never share would prove no more",
            f"  pair     {self.pair.name}: {_short(self.pair.data)} and {_short(self.pair.neighbour)}",
            f"  samples  {self.samples:,} outputs on either; all bounds hold together with confidence {self.confidence:.4g}",
        ]
        if self.refusals:
            lines.append(f"  refused  {'; '.join(self.refusals)}")
        return "\n".join(lines)


def _epsilon(bound: LowerBound) -> dict[str, Any]:
    return {"bound": bound.epsilon, "at_delta": bound.delta, "ceiling": bound.ceiling, "event": bound.selected}


def _delta(bound: DeltaBound) -> dict[str, Any]:
    return {"bound": bound.delta, "at_epsilon": bound.epsilon, "ceiling": bound.ceiling}


def _short(data: Any, limit: int = 60) -> str:
    text = " ".join(str(data).split())
    return text if len(text) <= limit else f"{text[: limit - 4]} ..."
