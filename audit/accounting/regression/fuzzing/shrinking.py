"""A failing question made small: fewer parts, smaller counts, rounder numbers, as long as it still fails."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from audit.accounting.regression.fuzzing.strata import Drawn, QuestionPair
from audit.core.errors import ConfigError
from audit.core.event_reading import nodes, rebuilt
from audit.core.events import Composed, Event, Grouped, Parallel, PoissonSampled, Repeated

_ROUNDINGS = (1, 2, 3)  # significant digits that a number is tried with
_EVALUATIONS = 80
Question = TypeVar("Question", bound=Drawn)


def shrunk(question: Question, fails: Callable[[Drawn], bool], *, evaluations: int = _EVALUATIONS) -> Question:
    """Return the smallest question found for which `fails` still holds; `fails(question)` is taken to be true."""
    best = question
    while True:
        limit = complexity(best)
        smaller = sorted((candidate for candidate in _simpler(best) if complexity(candidate) < limit), key=complexity)
        for candidate in smaller:
            evaluations -= 1
            if evaluations < 0:
                return best
            if fails(candidate):
                best = candidate
                break
        else:
            return best


def complexity(question: Drawn) -> tuple[int, int, float]:
    """Return how much there is to read: parts of the event, digits, and the size of its numbers."""
    if isinstance(question, QuestionPair):
        first, second = complexity(question.first), complexity(question.second)
        return first[0] + second[0], first[1] + second[1], first[2] + second[2]
    numbers = [question.delta, *(value for node in nodes(question.event) for _, value in _numbers(node))]
    size = sum(abs(math.log(value)) if 0 < value < math.inf else 0.0 for value in numbers)
    return sum(1 for _ in nodes(question.event)), sum(_digits(value) for value in numbers), size


def _digits(value: float) -> int:
    return len(repr(float(value)).partition("e")[0].replace(".", "").replace("-", "").strip("0"))


def _numbers(node: Event) -> Iterator[tuple[str, float]]:
    """Fields of one node that hold numbers."""
    for field in dataclasses.fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield field.name, value


def _simpler(question: Question) -> Iterator[Question]:
    if isinstance(question, QuestionPair):
        yield from _simpler_pairs(question)
        return
    for event in _simpler_events(question.event):
        yield dataclasses.replace(question, event=event)
    for delta in _smaller_deltas(question.delta):
        yield dataclasses.replace(question, delta=delta)


def _simpler_pairs(question: QuestionPair) -> Iterator[Any]:
    """Return what both questions share is changed in both."""
    first, second = question.first, question.second
    if first.delta == second.delta:
        for delta in _smaller_deltas(first.delta):
            pair = (dataclasses.replace(ask, delta=delta) for ask in (first, second))
            yield dataclasses.replace(question, first=next(pair), second=next(pair))
    shared = {item for node in nodes(first.event) for item in _numbers(node)}
    shared &= {item for node in nodes(second.event) for item in _numbers(node)}
    for name, value in sorted(shared):
        for simpler_number in _rounder(value):
            try:
                events = (_with_value(ask.event, name, value, simpler_number) for ask in (first, second))
                asks = [dataclasses.replace(ask, event=next(events)) for ask in (first, second)]
            except ConfigError:
                continue
            yield dataclasses.replace(question, first=asks[0], second=asks[1])


def _with_value(event: Event, name: str, value: float, simpler_number: float) -> Event:
    def edit(node: Event) -> Event:
        is_it = any(item == (name, value) for item in _numbers(node))
        return dataclasses.replace(node, **{name: simpler_number}) if is_it else node  # type: ignore[type-var]

    return rebuilt(event, edit)


def _simpler_events(event: Event) -> Iterator[Event]:
    match event:
        case Composed(parts=parts) | Parallel(parts=parts):
            yield from parts
            for place, part in enumerate(parts):
                yield dataclasses.replace(event, parts=parts[:place] + parts[place + 1 :])
                for simpler in _simpler_events(part):
                    yield dataclasses.replace(event, parts=(*parts[:place], simpler, *parts[place + 1 :]))
        case Repeated(mechanism=inner) | PoissonSampled(mechanism=inner) | Grouped(mechanism=inner):
            yield inner
            for simpler in _simpler_events(inner):
                yield dataclasses.replace(event, mechanism=simpler)
    for name, value in _numbers(event):
        for simpler_number in _rounder(value):
            try:
                yield dataclasses.replace(event, **{name: simpler_number})  # type: ignore[type-var]
            except ConfigError:
                continue


def _smaller_deltas(delta: float) -> Iterator[float]:
    """Deltas of fewer digits, and the one that everybody uses."""
    yield from (short_value for short_value in (*_rounder(delta), 1e-5) if 0 < short_value < 1 and short_value != delta)


def _rounder(value: float) -> Iterator[float]:
    """Simpler numbers in place of one: small counts for a count, fewer digits for any other."""
    if isinstance(value, int):
        yield from sorted({1, 2, 3, value // 10, value // 2, value - 1} & set(range(1, value)))
        return
    if value > 0:
        yield from (short_value for digits in _ROUNDINGS if (short_value := float(f"{value:.{digits - 1}e}")) != value)
        if value != 1:
            yield 1.0
