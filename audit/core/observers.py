"""Who sees what of one training: each observer with the event that is accounted for before it."""

from collections.abc import Sequence
from dataclasses import dataclass

from audit.core.access import Access
from audit.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    """Adversaries of one kind: the most that they see, and the event that accountants take; without noise if unprotected."""

    access: Access
    event: Event


def event_before(observers: Sequence[Observer], access: Access, otherwise: Event | None) -> Event | None:
    """Return the event of the first observer who sees all that `access` shows; `otherwise` if there is none.

    Args:
        observers: those who see least first.
        access: of an adversary.
        otherwise: what was run, for trainings that are the same to all.

    >>> event_before((), Access.FINAL_MODEL, None) is None
    True
    """
    for observer in observers:
        if observer.access.shows(access):
            return observer.event
    return otherwise
