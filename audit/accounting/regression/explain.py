"""A failure in words: what was asked, what was claimed, what is true, by how much, and two lines that show it again."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from audit.accounting.regression.suite import CaseFinding, ClaimQuestion, Result
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import encode, plain
from audit.core.event_reading import phases, releases
from audit.core.rounding import plural

_IMPORTS = (
    "from audit.accounting.resolve import subject; from audit.core.adjacency import Adjacency; "
    "from audit.core.event_forms import decode"
)


def describe(ask: ClaimQuestion) -> dict[str, Any]:
    """Return what a question asks: noise, rate and steps if it is one phase of DP-SGD, delta, adjacency, unit."""
    numbers: dict[str, Any] = {}
    try:
        parts = phases(ask.event)
    except UnsupportedMechanism:
        parts = ()
    if len(parts) == 1:
        numbers = dict(zip(("noise_multiplier", "sample_rate", "steps"), map(plain, parts[0]), strict=True))
    units = sorted({release.unit for release in releases(ask.event)}) or ["example"]
    about = {"mechanism": str(ask.event), "delta": plain(ask.delta), "adjacency": str(ask.adjacency), "unit": units[0]}
    return {**numbers, **about}


def question_text(ask: ClaimQuestion) -> str:
    """Return a question as a person would say it.

    >>> from audit.core.adjacency import Adjacency
    >>> from audit.core.events import dp_sgd
    >>> event = dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000)
    >>> question_text(ClaimQuestion(event=event, delta=1e-5, adjacency=Adjacency.ADD_REMOVE))
    'noise 1.0, rate 0.01, 1,000 steps, delta 1e-05, add_remove, about one example'
    """
    values = describe(ask)
    subject = values["mechanism"]
    if "steps" in values:
        steps = values["steps"]
        count = f"{steps:,}" if isinstance(steps, int) else steps
        subject = f"noise {values['noise_multiplier']}, rate {values['sample_rate']}, {count} steps"
    return f"{subject}, delta {values['delta']}, {values['adjacency']}, about one {values['unit']}"


def shortfall_text(result: Result) -> str:
    """Return by how much a claim is on the wrong side of what is expected, "" if that is no number."""
    case, epsilon = result.case, result.epsilon
    end = case.lower if epsilon < case.lower else case.upper
    if case.kind not in ("bracket", "method") or not (math.isfinite(epsilon) and 0 < end < math.inf):
        return ""
    share = 100 * (epsilon / end - 1)
    return f"{abs(share):.3g} % too {'small' if share < 0 else 'large'}" if share else ""


def reproduce(result: Result, spec: str) -> list[str]:
    """Return two lines of Python that print what an accountant claims in a case."""
    lines = []
    for ask in result.case.asks:
        values = describe(ask)
        module, _, name = spec.partition(":")
        if name and "steps" in values and all(not isinstance(value, dict) for value in values.values()):
            numbers = ", ".join(_source(values[key]) for key in ("noise_multiplier", "sample_rate", "steps", "delta"))
            lines.append((f"from {module} import {name}", f"{name}({numbers})"))
        else:
            event = f"decode({encode(ask.event)!r})"
            call = f"subject({spec!r}).claim({event}, delta={ask.delta!r}, adjacency=Adjacency({str(ask.adjacency)!r})).epsilon"
            lines.append((_IMPORTS, call))
    return [lines[0][0], f"print({', '.join(call for _, call in lines)})"]


def _source(value: Any) -> str:
    return f"float({value!r})" if isinstance(value, str) else repr(value)


def paragraph(result: Result, spec: str) -> str:
    """Return the lines of a failure as one text."""
    return "\n".join(lines(result, spec))


def lines(result: Result, spec: str) -> list[str]:
    """Return everything that a maintainer needs of one failure."""
    case = result.case
    short = shortfall_text(result)
    questions = [f"  asked: {question_text(ask)}" for ask in case.asks]
    again = ["  to see it again:", *(f"    {line}" for line in reproduce(result, spec))] if case.kind != "refusal" else []
    return [
        f"{result.finding} {case.id}: {result.message}{f', {short}' if short else ''}",
        *questions,
        f"  expected because: {case.reason}",
        f"  catches: {case.catches}",
        *again,
    ]


def fields(result: Result, spec: str) -> dict[str, Any]:
    """Return the same as fields of JSON."""
    return {
        "asked": [describe(ask) for ask in result.case.asks],
        "claims": [plain(claim) for claim in result.claims],
        "wrong_by": shortfall_text(result),
        "reproduce": reproduce(result, spec) if result.case.kind != "refusal" else [],
    }


def loose_line(results: Sequence[Result]) -> str:
    """Return one line on all claims that are safe and above the least safe value, "" if there are none."""
    factors = sorted((result for result in results if result.finding is CaseFinding.LOOSE), key=lambda result: result.factor)
    finite = [result for result in factors if math.isfinite(result.factor)]
    if not factors:
        return ""
    line = f"LOOSE: {plural(len(factors), 'safe claim')} above the bracket"
    if finite:
        worst = finite[-1]
        line += (
            f"; the median is {median(row.factor for row in finite):.4g} times the truth, the worst {worst.factor:.4g} times "
            f"({worst.case.id}: {question_text(worst.case.asks[0])})"
        )
    return line + " (--all lists them)"
