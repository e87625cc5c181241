"""What is drawn as a case of the battery: brackets computed, and for two questions the floors of both."""

import functools
import hashlib
import json

from audit.accounting.accountants.reference import Reference
from audit.accounting.regression.fuzzing.strata import Drawn, QuestionPair
from audit.accounting.regression.suite import Case, ClaimQuestion
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import encode, plain

_TOLERANCE = 1e-3  # relative width at which brackets stop being refined


@functools.lru_cache(maxsize=4096)
def ends(question: ClaimQuestion) -> tuple[float, float] | None:
    """Return the bracket on the epsilon of a question, None if there is none."""
    oracle = Reference(tolerance=_TOLERANCE)
    try:
        (low, high), doubt = oracle.explain(question.event, delta=question.delta, adjacency=question.adjacency)
    except UnsupportedMechanism:
        return None
    return None if doubt else (low, high)


def without_bracket(drawn: Drawn) -> Case:
    """Return what is asked, without any bracket."""
    asks = (drawn.first, drawn.second) if isinstance(drawn, QuestionPair) else (drawn,)
    kind = "relation" if isinstance(drawn, QuestionPair) else "bracket"
    return Case(id="unproved", group="fuzz", kind=kind, asks=asks, reason="nothing yet", catches="nothing yet")


def make_case(drawn: Drawn, stratum: str) -> Case | None:
    """Return the case that a question makes, None if nothing is proved about it."""
    if isinstance(drawn, QuestionPair):
        return _comparison(drawn, stratum)
    bracket = ends(drawn)
    if bracket is None:
        return None
    return Case(
        id=_name(stratum, drawn),
        group="fuzz",
        kind="bracket",
        asks=(drawn,),
        lower=bracket[0],
        upper=bracket[1],
        reason="bracket of the reference, computed when the case was drawn",
        catches=f"something of '{stratum}' that a search found",
    )


def _comparison(drawn: QuestionPair, stratum: str) -> Case | None:
    first, second = ends(drawn.first), ends(drawn.second)
    if first is None or second is None:
        return None
    return Case(
        id=_name(stratum, drawn.first, drawn.second),
        group="fuzz",
        kind="relation",
        asks=(drawn.first, drawn.second),
        lower=drawn.low,
        upper=drawn.high,
        floors=(first[0], second[0]),
        tolerance=drawn.tolerance,
        differ=drawn.differ,
        reason=drawn.relation,
        catches=f"something of '{stratum}' that a search found",
    )


def _name(stratum: str, *questions: ClaimQuestion) -> str:
    rows = [[encode(question.event), plain(question.delta), str(question.adjacency)] for question in questions]
    digest = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:10]
    return f"fuzz-{stratum.lower().replace(' ', '-')}-{digest}"
