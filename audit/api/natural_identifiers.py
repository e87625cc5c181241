"""Post-hoc audits by identifiers that were random already: hashes, UUIDs and short links in the training texts.

Nothing is planted and no coin of the auditor's is needed: the identifier's own law is the randomness. It has to be stated, and
it is an assumption about how the data came about, not a fact that this package can prove. What can be seen in the texts is
looked at: copies in another spelling, context that gives the beginning away, places with characters that are not uniform.
Alternatives share with the true identifier whatever a form may fix (zeros in front, the marks of a UUID without dashes).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed, new_seed
from audit.stats.sampling_tests import uniformity

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
USUAL = ("hash", "uuid")  # services choose the characters of short links by their own rules
HEAD = 6  # characters in front by which a second copy is known, however it is spelt or cut
TRIES = 20  # for each alternative
FEWEST, MOST_TESTED = 32, 128  # identifiers of one form that a test of their characters needs, and looks at: its tail is exact
SURPRISE = 1e-4  # error rate of all those tests together
RANDOMNESS = (
    "each identifier was drawn uniformly from the strings of its form, independently of all else in the training data (as "
    "outputs of a hash function on unknown inputs, UUIDs of version 4 and random short links are), stands in one text only, "
    "whole or in part, and was in no data that the model had seen before this training"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NaturalIdentifiers:
    """Identifiers of training texts, each hidden among alternatives that the same law might have given.

    Attributes:
        prefixes: what is before each identifier in its text, `m` strings.
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
            log_probabilities: pairs of prefix and whole text to the log-probability of what is behind the prefix, such as
                `audit.engine.text.secret_scores.secret_log_probabilities` of a model, minus the same before training.
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
    kinds: Sequence[str] = USUAL,
    most_context: int = 200,
    seed: int | None = None,
) -> NaturalIdentifiers:
    """Return the identifiers of training texts, at most one of each text, among alternatives of the same form.

    Args:
        texts: that the model was trained on, whole.
        candidates: k, the true identifier counted.
        kinds: of "hash" (hexadecimal, 32 to 128 digits), "uuid" (version 4) and "link" (short links of known services, if
            you know that their characters were drawn uniformly).
        most_context: characters before an identifier that are kept.
        seed: of alternatives and places; None draws one from the system's randomness.

    Raises:
        ConfigError: fewer than two candidates, or an unknown kind.
        DataError: no text holds such an identifier that is nowhere else, or their characters are not uniform.

    References:
        Natural identifiers for privacy and data audits in large language models, ICLR 2026.
    """
    if candidates < 2 or not kinds or not set(kinds) <= set(KINDS):
        raise ConfigError(
            f"{candidates} candidates of kinds {list(kinds)}; expected at least 2, and kinds of {', '.join(KINDS)}"
        )
    sites = [match for match in (_first(text, kinds) for text in texts) if match is not None and match.start() > 0]
    heads = _heads(texts, kinds)
    sites = [match for match in sites if heads[_code(match.group())[:HEAD].lower()] == 1]
    sites = [match for match in sites if not _is_given_away(match.group(), _words_before(match))]
    sites = [match for match in sites if not match.group().isdigit()]  # numbers of accounts and of articles are no hashes
    if not sites:
        raise DataError(
            f"none of {len(texts)} texts holds an identifier ({', '.join(kinds)}) behind other text that stands nowhere else; "
            "plant canaries instead (CanaryAudit)"
        )
    _refuse_uneven([match.group() for match in sites])
    random = Seed(new_seed() if seed is None else seed).numpy()
    prefixes, rows, drawn = [], [], []
    for match in sites:
        peers = _draw_heads(match, heads, candidates - 1, random)
        if len(peers) == candidates - 1:
            place = int(random.integers(candidates))
            prefixes.append(match.string[max(0, match.start() - most_context) : match.start()])
            rows.append((*peers[:place], match.group(), *peers[place:]))
            drawn.append(place)
    if not rows:
        raise DataError(f"no identifier has {candidates - 1} alternatives of its form; ask for fewer candidates")
    return NaturalIdentifiers(prefixes=tuple(prefixes), alternatives=tuple(rows), drawn=np.array(drawn))


def _first(text: str, kinds: Sequence[str]) -> re.Match[str] | None:
    return next((match for match in _FORMS.finditer(text) if match.lastgroup in kinds), None)


def _code(identifier: str) -> str:
    """Return the random part: what is behind the name of a service of links."""
    return identifier[identifier.find("/") + 1 :]


def _heads(texts: Sequence[str], kinds: Sequence[str]) -> Counter[str]:
    """Return how often each run of characters that could begin an identifier is in the texts, in either case."""
    pattern = re.compile(rf"(?=([0-9a-{'z' if 'link' in kinds else 'f'}]{{{HEAD}}}))")
    return Counter(match[1] for text in texts for match in pattern.finditer(text.lower()))


def _words_before(site: re.Match[str]) -> tuple[str, ...]:
    return tuple(set(re.findall(r"[0-9a-z]{2,}", site.string[: site.start()].lower())))


def _is_given_away(identifier: str, words: tuple[str, ...]) -> bool:
    """Return whether one of the words is how an identifier begins, as in the path `ab/abcd...`."""
    return _code(identifier).lower().startswith(words)


def _has_version(code: str) -> bool:
    """Return whether 32 digits have the version and variant of a random UUID written without dashes."""
    return len(code) == 32 and code[12] == "4" and code[16] in "89ab"


def _form(code: str) -> tuple[int, int, bool]:
    """Return what alternatives share with an identifier: its length, the zeros in front, the marks of a UUID."""
    return len(code), len(code) - len(code.lstrip("0")), _has_version(code)


def _refuse_uneven(identifiers: Sequence[str]) -> None:
    """Raise `DataError` if the characters at some place, of identifiers of one form, are not uniform."""
    groups: dict[tuple[bool, int, bool], list[str]] = {}
    for identifier in identifiers:
        code = _code(identifier)
        groups.setdefault(("/" in identifier, len(code), _has_version(code)), []).append(code)
    tests = [
        (uniformity([column.count(character) for character in alphabet]), place, codes)
        for (is_link, length, is_uuid), codes in groups.items()
        if len(codes) >= FEWEST
        for place in range(length)
        if (alphabet := _alphabet(is_link, length, is_uuid, place))
        for column in ["".join(code[place] for code in codes[:MOST_TESTED])]
    ]
    if not tests:
        return
    chance, place, codes = min(tests, key=lambda test: test[0])
    if chance * len(tests) < SURPRISE:
        raise DataError(
            f"{len(codes)} identifiers such as '{codes[0]}' do not have uniform characters at place {place + 1} (chance "
            f"{chance:.1g}): a model that knows their form alone would tell them from alternatives. Leave this kind out, or "
            "plant canaries (CanaryAudit)"
        )


def _alphabet(is_link: bool, length: int, has_version: bool, place: int) -> str:
    """Return the characters that are equally likely at a place; none if the form fixes it."""
    if is_link:
        return BASE62
    version, variant = {36: (14, 19), 32: (12, 16) if has_version else (-1, -1)}.get(length, (-1, -1))
    dashes = (8, 13, 18, 23) if length == 36 else ()
    return "" if place in (version, *dashes) else "89ab" if place == variant else HEX


def _draw_heads(site: re.Match[str], heads: Counter[str], count: int, random: np.random.Generator) -> list[str]:
    """Return different strings of the same form, drawn uniformly from those that would have been taken as well.

    Fewer than `count` if the form, such as many zeros in front, leaves hardly any: whatever the true one is.
    """
    identifier, strings = site.group(), list[str]()
    form, words = _form(_code(identifier)), _words_before(site)
    for _ in range(TRIES * count):
        if len(strings) == count:
            break
        text = _redrawn(identifier, random)
        is_new = text != identifier and text not in strings and not heads[_code(text)[:HEAD].lower()]
        if is_new and not text.isdigit() and _form(_code(text)) == form and not _is_given_away(text, words):
            strings.append(text)
    return strings


def _redrawn(identifier: str, random: np.random.Generator) -> str:
    """Return a string with other characters if the form leaves them free; zeros in front stay."""
    code = _code(identifier)
    length, zeros, has_version = _form(code)
    alphabets = [_alphabet("/" in identifier, length, has_version, place) for place in range(length)]
    numbers = random.integers(0, [len(alphabet) or 1 for alphabet in alphabets]).tolist()
    own = [
        alphabet[number] if alphabet else code[place]
        for place, (alphabet, number) in enumerate(zip(alphabets, numbers, strict=True))
    ]
    return identifier[: len(identifier) - length] + "0" * zeros + "".join(own[zeros:])
