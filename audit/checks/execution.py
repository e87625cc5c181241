"""What was run, compared with what was accounted for: every check of `audit/checks/executed`, and those of third parties."""

import functools
from collections.abc import Sequence

import numpy as np

from audit import plugins
from audit.core.data import Array
from audit.core.events import Event
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import ExecutionCheck
from audit.core.results import Check, Status
from audit.core.training import Executed, row_texts


def check_executed(event: Event, execution: Executed, execution_checks: Sequence[ExecutionCheck] = ()) -> tuple[Check, ...]:
    """Return what the trainer measured of itself against the event that the accountants were given, others' checks last.

    Steps must agree exactly. The batch law is compared through the mean and the dispersion of realised batch sizes, the noise
    through its realised standard deviation, each within five standard errors.
    """
    if not execution.measured:
        value = "nothing was measured: models were trained by the user's own function"
        return (Check(code="execution", item="What was run", value=value, status=Status.GAP),)
    rows = tuple(row for check in (*_own(), *execution_checks) for row in check.check(event, execution))
    return (*rows, *_frozen_part(execution), *_compiled(execution), *own_modules(execution))


def _frozen_part(execution: Executed) -> tuple[Check, ...]:
    """Return how what is frozen in the models was computed, where not in every step: the same to rounding alone."""
    models = _count_models(execution.features)
    if len(execution.features) > int(np.sum(execution.features)) > 0:
        models = phrase("{models}, in every step for the rest", models=models)
    value = phrase("computed once for each record, for {models}", models=models)
    return (Check(code="frozen-part", item="Frozen part", value=value, status=Status.CHECKED),) if models else ()


def _compiled(execution: Executed) -> tuple[Check, ...]:
    """Return that compiled code made the sums of gradients, if it did: the same as torch's to rounding alone."""
    models = _count_models(execution.compiled)
    if len(execution.compiled) > int(np.sum(execution.compiled)) > 0:
        models = phrase("{models}, by torch for the rest", models=models)
    value = phrase(
        "made by code that was compiled on the machine, for {models}; the same as torch's but for rounding", models=models
    )
    return (Check(code="compiled", item="Sums of gradients", value=value, status=Status.CHECKED),) if models else ()


def _count_models(flags: Array) -> str:
    return _models(int(np.sum(flags)), len(flags))


def _models(count: int, total: int) -> str:
    if not count:
        return ""
    if count == total:
        return phrase("all {total} models", total=total)
    return phrase("{count} of {total} models", count=count, total=total)


def own_modules(execution: Executed) -> tuple[Check, ...]:
    """Return in what models differ in addition to their weights, if they do; each then has a module, and is slower for it."""
    reasons = [reason for reason in row_texts(execution.own_modules) if reason]
    if not reasons:
        return ()
    value = phrase(
        "{models} were trained and attacked each by its own module, one after another, which is slower: {reason}",
        models=_models(len(reasons), len(execution.own_modules)),
        reason=reasons[0],
    )
    return (Check(code="own-modules", item="Own modules", value=value, status=Status.CHECKED),)


@functools.lru_cache(maxsize=1)
def _own() -> tuple[ExecutionCheck, ...]:
    return tuple(check() for check in plugins.in_order(plugins.FOLDERS["checks"]).values())


def check_finite(non_finite: Array) -> Check:
    """Return whether all models `(N,)` stayed finite; signals of one that did not carry no information."""
    count = int(np.sum(non_finite))
    if not count:
        finite = phrase("all {models} models stayed finite", models=len(non_finite))
        return Check(code="finite", item="Training", value=finite, status=Status.CHECKED)
    model_names = ", ".join(str(model) for model in np.flatnonzero(non_finite)[:8])
    divergence = phrase("{left} of {models} models diverged ({names})", left=count, models=len(non_finite), names=model_names)
    value = join_clauses((divergence, "their outputs count as the same for every record"))
    return Check(code="finite", item="Training", value=value, status=Status.GAP)
