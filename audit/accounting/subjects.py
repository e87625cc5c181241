"""Who is asked, and about what: accountants by name, and the bracket on the truth beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from audit.core.errors import ConfigError, UnsupportedMechanism

if TYPE_CHECKING:
    from audit.core.adjacency import Adjacency
    from audit.core.claims import Side
    from audit.core.events import Event
    from audit.core.protocols import Accountant

USUAL = ("rdp_classic", "rdp", "renyi", "pld", "reference")
PURE = ("composition_theorems", "reference")
BEYOND_DP_SGD = ("dp_accounting_rdp", "dp_accounting_pld", "composition_theorems", "reference")
Names = Sequence["str | Mapping[str, Any] | Accountant"]


def named(accountants: Names) -> Iterator[tuple[str, Accountant]]:
    """Yield name and accountant of each that is asked for; `ConfigError` if there is no such accountant, or a text in place of
    a list.
    """
    from audit.accounting import resolve

    if isinstance(accountants, str):
        raise ConfigError(f"accountants is the text {accountants!r}; expected a list of accountants, such as [{accountants!r}]")
    for accountant in accountants:
        if isinstance(accountant, str):
            yield accountant, resolve.accountant(accountant)
        elif isinstance(accountant, Mapping):
            yield str(accountant.get("kind")), resolve.accountant(accountant)
        elif not callable(getattr(accountant, "claim", None)):
            raise ConfigError(
                f"accountants: {type(accountant).__name__} has no method 'claim'; expected names of accountants, mappings "
                "with a 'kind', or objects with that method"
            )
        else:
            yield type(accountant).__name__, accountant


def usual(event: Event, delta: float = 1e-5) -> tuple[str, ...]:
    """Return the accountants that are asked if no one says which: those of DP-SGD, those that know more, or of pure DP.

    >>> from audit.core.events import Laplace
    >>> usual(Laplace(noise_multiplier=1.0))[-1]
    'reference'
    """
    from audit.core.event_reading import phases

    if delta == 0:
        return PURE
    try:
        phases(event)
    except UnsupportedMechanism:
        return BEYOND_DP_SGD
    return USUAL


def side(accountant: Accountant) -> Side:
    """Return the side of the truth on which an accountant states its figures to be."""
    from audit.accounting.resolve import find_side

    return find_side(accountant)


def caveat(accountant: Accountant) -> str:
    """Return what to say of a budget that is kept by figures which are no upper bound."""
    side_name = side(accountant)
    return (
        ""
        if side_name == "upper"
        else f"{'a lower bound' if side_name == 'lower' else 'an estimate'}: the budget may be exceeded"
    )


def claimed(accountant: Accountant, event: Event, delta: float, adjacency: Adjacency) -> float | None:
    """Return the epsilon that an accountant claims, None if it does not cover the event."""
    try:
        return float(accountant.claim(event, delta=delta, adjacency=adjacency).epsilon)
    except UnsupportedMechanism:
        return None


def bracket(event: Event, delta: float, adjacency: Adjacency) -> tuple[tuple[float, float], str]:
    """Return the proven bracket on epsilon, (0, infinity) with the reason if there is none."""
    from audit.accounting.accountants.reference import Reference

    try:
        return Reference().explain(event, delta=delta, adjacency=adjacency)
    except UnsupportedMechanism as error:
        return (0.0, float("inf")), f"no bracket is proved here: {error}"
