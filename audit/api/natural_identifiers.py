"""Post-hoc audits by identifiers that were random already: hashes, UUIDs and short links in the training texts.

Nothing is planted and no coin of the auditor's is needed: the identifier's own law is the randomness. It has to be stated, and
it is an assumption about how the data came about, not a fact that this package can check.
"""

from __future__ import annotations

import re
import secrets
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed

if TYPE_CHECKING:
    from audit.core.claims import CertifiedBound

HEX, BASE62 = "0123456789abcdef", string.digits + string.ascii_letters
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_LINKS = r"(?:bit\.ly|goo\.gl|is\.gd|t\.co|tinyurl\.com)"
_FORMS = re.compile(
    rf"(?<![0-9a-zA-Z-])(?P<uuid>{_UUID})(?![0-9a-zA-Z-])"
    r"|(?<![0-9a-zA-Z-])(?P<hash>[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})(?![0-9a-zA-Z-])"
    rf"|(?<={'://'})(?P<link>{_LINKS}/[0-9a-zA-Z]{{6,10}})(?![0-9a-zA-Z])"
)
KINDS = ("hash", "uuid", "link")
RANDOMNESS = (
    "each identifier was drawn uniformly from the strings of its form, independently of all else in the training data (as "
    "outputs of a hash function on unknown inputs, UUIDs of version 4 and random short links are), and stands in one text only"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NaturalIdentifiers:
    """Identifiers of training texts, each hidden among alternatives that the same law might have given.

    Attributes:
        prefixes: what stands before each identifier in its text, `m` strings.
        alternatives: `m` tuples of k strings, the true one among them.
        drawn: `(m,)` place of the true one, drawn uniformly by the auditor.
        randomness: what has to hold of the data for any bound, in words.
    """

    prefixes: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...]
    drawn: Array
    randomness: str = RANDOMNESS

    def __len__(self) -> int:
        return len(self.prefixes)

    def scores(self, log_probabilities: Callable[[list[tuple[str, str]]], Array]) -> Array:
        """Return `(m, k)` scores of all alternatives.

        Args:
            log_probabilities: pairs of prefix and whole text to the log-probability of what stands behind the prefix, such as
                `audit.engine.secret_scores.secret_log_probabilities` of a model, minus the same of a model before training.
        """
        pairs = [(prefix, prefix + text) for prefix, row in zip(self.prefixes, self.alternatives, strict=True) for text in row]
        return np.asarray(log_probabilities(pairs), dtype=np.float64).reshape(len(self), -1)

    def lower_bound(self, scores: Array, *, delta: float, confidence: float = 0.95) -> CertifiedBound:
        """Return the epsilon that guesses by these scores prove about replacing one text, if `randomness` holds."""
        from audit.api.secrets import secret_lower_bound

        return secret_lower_bound(scores, self.drawn, delta=delta, confidence=confidence)


def natural_identifiers(
    texts: Sequence[str],
    *,
    candidates: int = 64,
    kinds: Sequence[str] = KINDS,
    most_context: int = 200,
    seed: int | None = None,
) -> NaturalIdentifiers:
    """Return the identifiers of training texts, at most one of each text, among alternatives of the same form.

    Args:
        texts: that the model was trained on, whole.
        candidates: k, the true identifier counted.
        kinds: of "hash" (hexadecimal, 32 to 128 digits), "uuid" (version 4) and "link" (short links of known services).
        most_context: characters before an identifier that are kept.
        seed: of alternatives and places; None draws one from the system's randomness.

    Raises:
        ConfigError: fewer than two candidates, or an unknown kind.
        DataError: no text holds such an identifier that stands nowhere else.

    References:
        Natural identifiers for privacy and data audits in large language models, ICLR 2026.
    """
    if candidates < 2 or not kinds or not set(kinds) <= set(KINDS):
        raise ConfigError(
            f"{candidates} candidates of kinds {list(kinds)}; expected at least 2, and kinds of {', '.join(KINDS)}"
        )
    sites = [match for match in (_first(text, kinds) for text in texts) if match is not None and match.start() > 0]
    counts = Counter(identifier for text in texts for identifier in _all(text))
    sites = [match for match in sites if counts[match.group()] == 1]
    if not sites:
        raise DataError(
            f"none of {len(texts)} texts holds an identifier ({', '.join(kinds)}) behind other text that stands nowhere else; "
            "plant canaries instead (CanaryAudit)"
        )
    random = (Seed(seed) if seed is not None else Seed(secrets.randbits(63))).numpy()
    drawn = random.integers(0, candidates, len(sites))
    rows = []
    for match, place in zip(sites, drawn.tolist(), strict=True):
        others = _others(match.group(), candidates - 1, random)
        rows.append((*others[:place], match.group(), *others[place:]))
    prefixes = tuple(match.string[max(0, match.start() - most_context) : match.start()] for match in sites)
    return NaturalIdentifiers(prefixes=prefixes, alternatives=tuple(rows), drawn=drawn)


def _all(text: str) -> list[str]:
    return [match.group() for match in _FORMS.finditer(text)]


def _first(text: str, kinds: Sequence[str]) -> re.Match[str] | None:
    return next((match for match in _FORMS.finditer(text) if match.lastgroup in kinds), None)


def _others(identifier: str, count: int, random: np.random.Generator) -> list[str]:
    """Return different strings of the same form, drawn uniformly."""
    strings: list[str] = []
    while len(strings) < count:
        text = _redrawn(identifier, random)
        if text != identifier and text not in strings:
            strings.append(text)
    return strings


def _redrawn(identifier: str, random: np.random.Generator) -> str:
    start = identifier.find("/") + 1
    if start:
        return identifier[:start] + "".join(random.choice(list(BASE62), len(identifier) - start))
    drawn = random.choice(list(HEX), len(identifier))
    if "-" not in identifier:
        return "".join(drawn)
    # of a UUID version and dashes are fixed, and the variant is one of four digits
    own = [character if character == "-" else digit for character, digit in zip(identifier, drawn, strict=True)]
    own[14], own[19] = "4", str(random.choice(list("89ab")))
    return "".join(own)
