"""Risks of a synthetic table to the records that it was made from: three, each beside the same attack on a control."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessRate:
    """How often an attack succeeded, with Clopper-Pearson limits."""

    successes: int
    attacks: int
    lower: float
    upper: float

    @property
    def rate(self) -> float:
        """Return the share of attacks that succeeded."""
        return self.successes / self.attacks if self.attacks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRisk:
    """One risk of a synthetic table: what an attacker gets of training records, and of records that the table never saw.

    Attributes:
        risk: "singling out", "linkability" or "inference".
        attack: in words: how many columns a predicate has, which columns are linked, which is inferred.
        training, control: success on training records, and of the same attack on control records.
        baseline: success of guessing without the synthetic records.
        excess: success on training beyond that on control, as a share of what control leaves: `(t - c) / (1 - c)`.
        excess_lower, excess_upper: its limits. Predicates that single out depend on one another, so there are none for their
            rates (0 to 1) and their excess (-1 to 1).
        p_value: chance of so much more success on training if the table does not depend on which records it was made from.
        beyond_chance: whether that is too small for chance, with all risks of the report taken together.
    """

    risk: str
    attack: str
    training: SuccessRate
    control: SuccessRate
    baseline: float
    excess: float
    excess_lower: float
    excess_upper: float
    p_value: float
    beyond_chance: bool

    @property
    def has_limits(self) -> bool:
        """True if limits of the excess say anything."""
        return self.excess_lower > -1 or self.excess_upper < 1

    @property
    def limits_text(self) -> str:
        """Return the limits of the excess in words."""
        return f"{self.excess_lower:.1%} to {self.excess_upper:.1%}" if self.has_limits else "no limits"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closeness:
    """How close synthetic records are to real ones. Descriptive: it proves nothing either way.

    Attributes:
        training_copies, control_copies: share of synthetic records equal to a training record, and to a control record.
        training_distance, control_distance: median distance of a synthetic record to the closest record of each, mean over
            columns: 0 equal, 1 all columns different or at opposite ends of their range.
    """

    training_copies: float
    control_copies: float
    training_distance: float
    control_distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAudit:
    """All risks of one synthetic table.

    Attributes:
        confidence: with which all limits hold together, and one minus the chance that any risk is wrongly called beyond chance.
        columns: of the tables, `categorical` those of them that are compared for equality alone.
    """

    synthetic_records: int
    training_records: int
    control_records: int
    columns: tuple[str, ...]
    categorical: tuple[str, ...]
    confidence: float
    risks: tuple[TableRisk, ...]
    closeness: Closeness

    @property
    def beyond_chance(self) -> tuple[TableRisk, ...]:
        """Return the risks that chance does not explain."""
        return tuple(risk for risk in self.risks if risk.beyond_chance)

    def __str__(self) -> str:
        """Return what `print` shows: a line each risk."""
        lines = [
            f"{self.synthetic_records:,} synthetic records of {self.training_records:,} training records, beside "
            f"{self.control_records:,} control records: {len(self.beyond_chance)} of {len(self.risks)} risks beyond chance"
        ]
        lines += [
            f"  {risk.risk}, {risk.attack}: {risk.training.rate:.1%} on training, {risk.control.rate:.1%} on control, "
            f"{risk.baseline:.1%} by guessing; excess {risk.excess:.1%} ({risk.limits_text}), "
            f"p {risk.p_value:.2g}{': BEYOND CHANCE' if risk.beyond_chance else ''}"
            for risk in self.risks
        ]
        closeness = self.closeness
        return "\n".join(
            [
                *lines,
                f"  all limits hold together with {self.confidence:g}; an attack that fails shows only that this attack failed",
                "  closest records, which proves nothing: "
                f"{closeness.training_copies:.1%} of synthetic records equal a training record, "
                f"{closeness.control_copies:.1%} a control record; "
                f"median distances {closeness.training_distance:.3f} and {closeness.control_distance:.3f}",
            ]
        )
