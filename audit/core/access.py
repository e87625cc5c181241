"""What an adversary is given of trained models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from audit.core.events import Event

ROUNDS = frozenset({"models", "sums", "updates"})  # what parties of a federated training see of each round


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A named set of what is released to an adversary; more of it is more access, and some sets cannot be compared.

    Signals are computed from what is released: each names its source (`attacks/signals`), so a new signal changes no access,
    and a new access shows every signal of the sources that it holds.

    Attributes:
        name: in configs and reports.
        released: "labels" (predicted), "losses" and "outputs" of the audited records; "label_queries" and "queries", the same
            for any other input; "weights"; "steps" (every noisy sum); of federated training "models" (each one released),
            "sums" (what is added up each round) and "updates" (of each client); of language models "generations" (greedy
            continuations), "token_log_probabilities" (of the tokens of audited texts, and those of the public model that
            training began from) and "token_distributions" (over the whole vocabulary); or names of your own.
        view: what the adversary sees, as a sentence names it: "the outputs of the final model"; of the name if empty.
        knowledge: its further knowledge: "all other records"; may be empty.
    """

    name: str
    released: frozenset[str] = field(default=frozenset(), compare=False)
    view: str = field(default="", compare=False)
    knowledge: str = field(default="", compare=False)

    LABEL_ONLY: ClassVar[Access]
    FINAL_MODEL: ClassVar[Access]
    FINAL_WEIGHTS: ClassVar[Access]
    ALL_STEPS: ClassVar[Access]
    RELEASED_MODELS: ClassVar[Access]
    SECURE_SUM: ClassVar[Access]
    EACH_UPDATE: ClassVar[Access]
    GENERATIONS: ClassVar[Access]
    LOG_PROBABILITIES: ClassVar[Access]
    TOKEN_DISTRIBUTIONS: ClassVar[Access]

    def shows(self, access: Access) -> bool:
        """True if an adversary with this access is given all that `access` gives.

        >>> Access.FINAL_WEIGHTS.shows(Access.LABEL_ONLY), Access.LABEL_ONLY.shows(Access.FINAL_MODEL)
        (True, False)
        """
        return access.released <= self.released

    @property
    def each_release(self) -> bool:
        """True if every noisy release is seen alone, so that orthogonal canaries meet independent noise."""
        return bool(self.released & (ROUNDS | {"steps"}))

    @property
    def words(self) -> str:
        """The name in words, for sentences."""
        return self.name.replace("_", " ")

    @property
    def sees(self) -> str:
        """Return what the adversary sees, for sentences.

        >>> Access.FINAL_MODEL.sees, Access(name="an_endpoint").sees
        ('the outputs of the final model', "what 'an endpoint' releases")
        """
        return self.view or f"what '{self.words}' releases"

    @classmethod
    def by_name(cls, name: str) -> Access:
        """The access of that name; one that is not known here, from another's report, is taken to release what its name says.

        >>> Access.by_name("final_model").released == Access.FINAL_MODEL.released
        True
        """
        return ACCESS_BY_NAME.get(name) or cls(name=name, released=frozenset({name}))


def _cumulative(*levels: Access) -> dict[str, Access]:
    """Return accesses by name, each with all that those before it release."""
    levels_by_name: dict[str, Access] = {}
    released: frozenset[str] = frozenset()
    for level in levels:
        released |= level.released
        levels_by_name[level.name] = replace(level, released=released)
    return levels_by_name


_STEP_KNOWLEDGE = "all other records and which of them each step used"
_CLIENT_KNOWLEDGE = "all other clients and which of them took part in each round"
ACCESS_BY_NAME = _cumulative(
    Access(name="label_only", released=frozenset({"labels", "label_queries"}), view="the predicted labels of the final model"),
    Access(name="final_model", released=frozenset({"losses", "outputs", "queries"}), view="the outputs of the final model"),
    Access(name="final_weights", released=frozenset({"weights"}), view="the final weights"),
    Access(name="all_steps", released=frozenset({"steps"}), view="every noisy step", knowledge=_STEP_KNOWLEDGE),
)
ACCESS_BY_NAME |= _cumulative(
    Access(
        name="released_models",
        released=ACCESS_BY_NAME["final_weights"].released | {"models"},
        view="the model after each round",
        knowledge=_CLIENT_KNOWLEDGE,
    ),
    Access(
        name="secure_sum",
        released=frozenset({"sums"}),
        view="the sum of the updates of each round",
        knowledge=_CLIENT_KNOWLEDGE,
    ),
    Access(name="each_update", released=frozenset({"updates"}), view="every update of every client"),
)
ACCESS_BY_NAME |= _cumulative(
    Access(name="generations", released=frozenset({"generations"}), view="the texts that the final model writes"),
    Access(
        name="log_probabilities",
        released=frozenset({"losses", "token_log_probabilities"}),
        view="the log-probabilities of a text's tokens under the final model",
    ),
    Access(
        name="token_distributions",
        released=frozenset({"token_distributions"}),
        view="the distributions of each next token under the final model",
    ),
)
"""Accesses by name, from least to most for each kind of training. A config may also name `package.module:OBJECT`."""

for _name, _access in ACCESS_BY_NAME.items():
    setattr(Access, _name.upper(), _access)


def smallest_access(sources: frozenset[str], within: Access) -> Access | None:
    """The least access that releases `sources`, of `within` and the known ones that it shows; None if it does not.

    >>> smallest_access(frozenset({"outputs"}), Access.ALL_STEPS).name
    'final_model'
    """
    fitting = [access for access in (*ACCESS_BY_NAME.values(), within) if sources <= access.released and within.shows(access)]
    return min(fitting, key=lambda access: len(access.released), default=None)


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
