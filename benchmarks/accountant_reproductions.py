"""Five lines of Python that show what a library says in a case of the battery, in the library's own words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from audit.accounting.regression.suite import Case, ClaimQuestion
from audit.core.adjacency import Adjacency
from audit.core.errors import UnsupportedMechanism
from audit.core.event_forms import dp_events, fold
from audit.core.event_reading import phases
from audit.core.events import Composed, Event, Gaussian, Laplace, PoissonSampled, Repeated, SampledWithoutReplacement

_RELATIONS = {
    Adjacency.ADD_REMOVE: "ADD_OR_REMOVE_ONE",
    Adjacency.ZERO_OUT: "REPLACE_SPECIAL",
    Adjacency.REPLACE_ONE: "REPLACE_ONE",
}


def reproduction(spec: str, case: Case, side: str = "upper") -> list[str]:
    """At most five lines that print what a subject says in a case: the library alone if it can be asked directly.

    Relations between two figures, and what our own adapters add, are shown through this suite.
    """
    kind, _, options = spec.partition(",")
    writer = _WRITERS.get(kind)
    if writer is not None and case.kind != "relation":
        try:
            return [*writer(case.asks[0], options)[:-1], f"{writer(case.asks[0], options)[-1]}  # {_truth(case, side)}"]
        except UnsupportedMechanism:
            pass  # the library's own words do not reach that far: through the suite, as below
    return [
        "from audit.accounting import resolve",
        "from audit.accounting.regression import suite",
        f'case = next(one for one in suite.load() if one.id == "{case.id}")',
        f'print(suite.judge(resolve.subject("{spec}"), case))  # {_truth(case, side)}',
    ]


def _truth(case: Case, side: str) -> str:
    if case.kind != "bracket":
        return case.reason
    return f"the truth is at most {case.upper:.9g}" if side == "lower" else f"the truth is at least {case.lower:.9g}"


class _Calls:
    """Represents a module with functions that give their own text call."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __getattr__(self, name: str) -> _Calls:
        return _Calls(f"{self.text}.{name}")

    def __call__(self, *arguments: Any) -> _Calls:
        return _Calls(f"{self.text}({', '.join(_source_text(argument) for argument in arguments)})")

    def __repr__(self) -> str:
        return self.text


def _source_text(value: Any) -> str:
    if isinstance(value, float) and math.isnan(value):
        return 'float("nan")'
    if isinstance(value, list | tuple):
        brackets = "[]" if isinstance(value, list) else "()"
        return f"{brackets[0]}{', '.join(_source_text(item) for item in value)}{brackets[1]}"
    return repr(value)


def _dp_accounting(kind: str) -> Callable[[ClaimQuestion, str], list[str]]:
    def write(ask: ClaimQuestion, options: str) -> list[str]:
        if options:
            raise UnsupportedMechanism("options of our adapter")
        code = repr(dp_events(ask.event, _Calls("dp_accounting")))
        name = {"rdp": "RdpAccountant", "pld": "PLDAccountant"}[kind]
        return [
            "import dp_accounting, numpy as np" if "np." in code else "import dp_accounting",
            f"from dp_accounting import {kind}",
            f"relation = dp_accounting.NeighboringRelation.{_RELATIONS[ask.adjacency]}",
            f"accountant = {kind}.{name}(neighboring_relation=relation)",
            f"print(accountant.compose({code}).get_epsilon({_source_text(ask.delta)}))",
        ]

    return write


def _opacus(name: str) -> Callable[[ClaimQuestion, str], list[str]]:
    def write(ask: ClaimQuestion, options: str) -> list[str]:
        return [
            f"from opacus.accountants import {name}",
            f"accountant = {name}()",
            f"accountant.history = {_source_text(list(phases(ask.event)))}  # noise multiplier, sample rate, steps",
            f"print(accountant.get_epsilon({_source_text(ask.delta)}))",
        ]

    return write


def _prv(ask: ClaimQuestion, options: str) -> list[str]:
    side = options.removeprefix("side=") or "upper"
    prvs: list[str] = []
    counts: list[int] = []
    for part, count in _single(ask.event):
        match part:
            case Gaussian(noise_multiplier=noise):
                prvs.append(f"p.GaussianMechanism({_source_text(noise)})")
            case PoissonSampled(mechanism=Gaussian(noise_multiplier=noise), sample_rate=rate):
                prvs.append(f"p.PoissonSubsampledGaussianMechanism({_source_text(rate)}, {_source_text(noise)})")
            case Laplace(noise_multiplier=scale):
                prvs.append(f"p.LaplaceMechanism({_source_text(1 / scale)})")
            case _:
                raise UnsupportedMechanism(f"no words for {part}")
        counts.append(count)
    return [
        "import prv_accountant as p",
        f"prvs, counts, delta = [{', '.join(prvs)}], {counts!r}, {_source_text(ask.delta)}",
        "accountant = p.PRVAccountant(prvs, 0.01, delta / 1000, counts)",
        "lower, estimate, upper = accountant.compute_epsilon(delta, counts)",
        f"print({side})",
    ]


def _autodp(ask: ClaimQuestion, options: str) -> list[str]:
    smooth = options == "composition=afa"
    lines: list[str] = []
    counts: list[int] = []
    for part, count in _single(ask.event):
        match part:
            case Gaussian(noise_multiplier=noise) if smooth:
                lines.append(f"zoo.GaussianMechanism({_source_text(noise)}, phi_off=False)")
            case Gaussian(noise_multiplier=noise):
                lines.append(f"zoo.ExactGaussianMechanism({_source_text(noise)})")
            case Laplace(noise_multiplier=scale):
                lines.append(f"zoo.LaplaceMechanism({_source_text(scale)}{', phi_off=False' if smooth else ''})")
            case _:
                raise UnsupportedMechanism(f"no words for {part}")
        counts.append(count)
    compose = "ComposeAFA" if smooth else "Composition"
    return [
        "from autodp import mechanism_zoo as zoo, transformer_zoo",
        f"parts, counts = [{', '.join(lines)}], {counts!r}",
        f"print(transformer_zoo.{compose}()(parts, counts).get_approxDP({_source_text(ask.delta)}))",
    ]


def _jax(ask: ClaimQuestion, options: str) -> list[str]:
    config = "RdpAccountantConfig" if options == "accountant=rdp" else "PldAccountantConfig"
    event, count = ask.event, 1
    while isinstance(event, Repeated):
        count *= event.count
        event = event.mechanism
    match event:
        case PoissonSampled(mechanism=Gaussian(noise_multiplier=noise), sample_rate=rate):
            from fractions import Fraction

            ratio = Fraction(rate).limit_denominator(10**12)
            batch, population, sampling = ratio.numerator, ratio.denominator, "POISSON"
        case SampledWithoutReplacement(mechanism=Gaussian(noise_multiplier=noise), population=population, batch=batch):
            sampling = "FIXED_BATCH_SIZE"
        case _:
            raise UnsupportedMechanism(f"no words for {event}")
    return [
        "from jax_privacy import accounting as a",
        f"params = a.DpParams(noise_multipliers={_source_text(noise)}, num_samples={population}, batch_size={batch},",
        f"                    delta={_source_text(ask.delta)}, sampling_method=a.SamplingMethod.{sampling})",
        f"print(a.DpsgdTrainingAccountant(a.{config}()).compute_epsilon({count}, params))",
    ]


def _opake(ask: ClaimQuestion, options: str) -> list[str]:
    terms = []
    for part, count in _single(ask.event):
        match part:
            case Gaussian(noise_multiplier=noise):
                term = f"d.gaussian({_source_text(noise)})"
            case PoissonSampled(mechanism=Gaussian(noise_multiplier=noise), sample_rate=rate):
                term = f"d.poisson(d.gaussian({_source_text(noise)}), {_source_text(rate)})"
            case _:
                raise UnsupportedMechanism(f"no words for {part}")
        terms.append(term if count == 1 else f"{term} * {count}")
    together = " | ".join(f"({term})" if len(terms) > 1 else term for term in terms)
    return [
        "import opake.api.accounting.dpsgd as d  # Python 3.13",
        f"print(({together}).epsilon_at({_source_text(ask.delta)}))",
    ]


def _textbook(ask: ClaimQuestion, options: str) -> list[str]:
    ((noise, _, _),) = phases(ask.event)
    return ["import math", f"print(math.sqrt(2 * math.log(1.25 / {_source_text(ask.delta)})) / {_source_text(noise)})"]


def _single(event: Event) -> list[tuple[Event, int]]:
    """The mechanisms of an event with their counts; a sampled release as a leaf."""
    return fold(  # type: ignore[no-any-return]
        event,
        {
            Gaussian: lambda event: [(event, 1)],
            Laplace: lambda event: [(event, 1)],
            PoissonSampled: _poisson_sample,
            Repeated: lambda event, parts: [(part, count * event.count) for part, count in parts],
            Composed: lambda event, *parts: [pair for part in parts for pair in part],
        },
    )


def _poisson_sample(event: PoissonSampled, _: Any) -> list[tuple[Event, int]]:
    if not isinstance(event.mechanism, Gaussian):
        raise UnsupportedMechanism(f"no words for {event}")
    return [(event, 1)]


_WRITERS: dict[str, Callable[[ClaimQuestion, str], list[str]]] = {
    "dp_accounting_rdp": _dp_accounting("rdp"),
    "dp_accounting_pld": _dp_accounting("pld"),
    "opacus_rdp": _opacus("RDPAccountant"),
    "opacus_prv": _opacus("PRVAccountant"),
    "opacus_gdp": _opacus("GaussianAccountant"),
    "prv_accountant": _prv,
    "autodp_rdp": _autodp,
    "jax_privacy": _jax,
    "opake": _opake,
    "classical_gaussian": _textbook,
}


def defect(case: Case) -> str:
    """The name of the mistake that a case is there for: what is before the colon."""
    return re.split(":", case.catches, maxsplit=1)[0]
