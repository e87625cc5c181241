"""How plug-ins of each kind are called, and what is wrong with an answer: each answer of a third party's is asked about."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Member:
    """A method or an attribute of plug-ins of one kind.

    Attributes:
        form: how it is called, as messages write it; "" for an attribute.
        returns: what it returns, in words.
        problem: what is wrong with an answer, "" if nothing is; gets the arguments of the call, too.
    """

    form: str
    returns: str
    problem: Callable[..., str]


def _class(name: str) -> Any:
    """Return the class that `package.module:Class` names: imported by an answer, since `audit --help` asks for none."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _type_name(answer: Any) -> str:
    return f"a {type(answer).__name__}"


def _instance(name: str) -> Callable[..., str]:
    return lambda answer, *call, **options: "" if isinstance(answer, _class(name)) else _type_name(answer)


def _rows(name: str) -> Callable[..., str]:
    def problem(answer: Any, *call: Any) -> str:
        is_right = isinstance(answer, list | tuple) and all(isinstance(row, _class(name)) for row in answer)
        return "" if is_right else _type_name(answer)

    return problem


def _attributes(*names: str) -> Callable[..., str]:
    return lambda answer, *call: "" if all(hasattr(answer, name) for name in names) else _type_name(answer)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and not math.isnan(value)


def _truth(answer: Any, *call: Any, **options: Any) -> str:
    return "" if type(answer).__name__ in ("bool", "bool_") else repr(answer)  # numpy's comparisons are truths, too


def _figure(answer: Any, *call: Any) -> str:
    return "" if answer is None or _is_number(answer) else repr(answer)


def _claim(answer: Any, event: Any, *, delta: float, adjacency: Any) -> str:
    if problem := _instance("audit.core.claims:Claim")(answer):
        return problem
    if not _is_number(answer.epsilon) or answer.epsilon < 0:
        return f"a claim with epsilon {answer.epsilon!r}"
    is_right = answer.delta <= delta and answer.adjacency is adjacency
    return "" if is_right else f"a claim at delta {answer.delta!r} and {answer.adjacency}, asked at {delta!r} and {adjacency}"


def _bound(answer: Any, scores: Any, *, delta: float, confidence: float, seed: Any) -> str:
    if problem := _instance("audit.core.lower_bounds:LowerBound")(answer):
        return problem
    if not (_is_number(answer.epsilon) and _is_number(answer.ceiling) and 0 <= answer.epsilon <= answer.ceiling):
        return f"a bound with epsilon {answer.epsilon!r} and ceiling {answer.ceiling!r}"
    is_right = answer.delta == delta and answer.confidence >= confidence
    terms = f"a bound at delta {answer.delta!r} with confidence {answer.confidence!r}"
    return "" if is_right else f"{terms}, asked at {delta!r} with {confidence!r}"


def _assumptions(answer: Any) -> str:
    is_right = isinstance(answer, frozenset | set) and answer <= set(_class("audit.core.game:Assumption"))
    return "" if is_right else repr(answer)


def _source(answer: Any) -> str:
    if problem := _attributes("main", "scaling")(answer):
        return problem
    inputs, labels = len(answer.main.inputs), len(answer.main.labels)
    return "" if inputs == labels else f"{inputs} inputs and {labels} labels"


def _subject(answer: Any, job: Any, *call: Any) -> str:
    if problem := _attributes("weights", "executed", "outputs", "read")(answer):
        return problem
    models = {len(answer), *(len(array) for array in answer.weights.values())}
    return "" if models == {len(job.seeds)} else f"{min(models)} of {len(job.seeds)} models"


def _canaries(answer: Any, dataset: Any, count: int, *call: Any) -> str:
    if problem := _instance("audit.core.canaries:Canaries")(answer):
        return problem
    return "" if len(answer) == count else f"{len(answer)} of {count} canaries"


def _files(answer: Any, report: Any) -> str:
    is_right = isinstance(answer, Mapping) and all(isinstance(content, bytes) for content in answer.values())
    return "" if is_right else _type_name(answer)


def _two_texts(answer: Any) -> str:
    is_right = isinstance(answer, tuple) and len(answer) == 2 and all(isinstance(text, str) for text in answer)
    return "" if is_right else repr(answer)


_CANARIES = "Canaries (audit.core.canaries), as many as were asked for"
_CLAIM = "a Claim (audit.core.claims) at the delta and adjacency asked for, its epsilon a number of at least 0 or infinity"
_BOUND = "a LowerBound (audit.core.lower_bounds) at the delta and confidence asked for, its epsilon from 0 to its ceiling"
_SUBJECT = "a Subject (audit.core.models) with a trained model for each of job.seeds"
# the first of each is what every plug-in of the kind has; `_attributes()` accepts what its caller checks
MEMBERS: Mapping[str, Mapping[str, Member]] = {
    "accountants": {"claim": Member("claim(event, *, delta, adjacency) -> Claim", _CLAIM, _claim)},
    "canaries": {
        "make": Member("make(dataset, count, parameters, seed) -> Canaries", _CANARIES, _canaries),
        "make_in_tensors": Member("make_in_tensors(dataset, count, tensors, seed) -> Canaries", _CANARIES, _canaries),
    },
    "checks": {
        "check": Member(
            "check(event, executed) -> Checks", "a tuple of Check (audit.core.results)", _rows("audit.core.results:Check")
        )
    },
    "coverage": {
        "covers": Member("covers(game) -> bool", "True or False", _truth),
        "attack_class": Member("", "a text, its name in reports", _instance("builtins:str")),
        "absent": Member("", "two texts, what was done and the status if no game covers it", _two_texts),
    },
    "estimators": {
        "lower_bound": Member("lower_bound(scores, *, delta, confidence, seed) -> LowerBound", _BOUND, _bound),
        "refutes": Member("refutes(scores, *, epsilon, delta, confidence, seed) -> bool", "True or False", _truth),
        "assumes": Member("", "a frozenset of audit.core.game.Assumption", _assumptions),
    },
    "executors": {
        "map": Member(
            "map(work, shared, jobs, progress)",
            "a generator of (index of a job, what work(shared, job, progress) returned)",
            _attributes("__next__", "close"),
        )
    },
    "formats": {"render": Member("render(report) -> {name: bytes}", "the bytes of each file by its name", _files)},
    "gates": {
        "met": Member("met(found) -> bool", "True or False", _truth),
        "found": Member("found(results) -> float | None", "a number, or None if the results show none", _figure),
    },
    "mechanisms": {
        "event": Member("event(setting) -> Event", "an Event (audit.core.events)", _instance("audit.core.events:Event"))
    },
    "models": {"build": Member("build(input_shape, outputs) -> nn.Module", "a torch.nn.Module", _attributes())},
    "optimizers": {"start": Member("start(steps)", "an object with step(flat, gradient)", _attributes("step"))},
    "probes": {
        "run": Member(
            "run(step) -> list of findings",
            "a list of findings (audit.step_checks.findings)",
            _rows("audit.step_checks.findings:Finding"),
        )
    },
    "readers": {"read": Member("read() -> Source", "a Source (audit.data.source), a label for each of its inputs", _source)},
    "scorers": {"score": Member("score(target, reference, seed) -> (m,)", "a number for each canary", _attributes())},
    "trainers": {"fit": Member("fit(job, progress)", _SUBJECT, _subject)},
}
