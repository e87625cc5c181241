"""Numbers as a reader sees them. Lower bounds and ceilings are rounded down, claims up, and the signs stay with their numbers.

Decimal digits are cut from the shortest decimal that names the float, so 0.29 prints as 0.29 and never as 0.28.
"""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

SPACE = "\N{NO-BREAK SPACE}"
DASH = "not measured"
NO_GUARANTEE = "no guarantee"
INFINITY_TEXT = "∞"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


PLACES = 2
_WIDE = Context(prec=1000)  # digits of the largest double, and of any number of places behind the point
MOST_PLACES = 16  # a double near 1 has no more
_PLACES: ContextVar[int] = ContextVar("decimals of an epsilon", default=PLACES)


@contextmanager
def decimals(places: int) -> Iterator[None]:
    """A scope in which `down` and `up` cut to so many decimals, wherever no other number of them is asked for."""
    token = _PLACES.set(places)
    try:
        yield
    finally:
        _PLACES.reset(token)


def places_apart(pairs: Iterable[tuple[float, float]]) -> int:
    """Return how many decimals print every lower bound that is above its claim above that claim; 2 if that is enough.

    Args:
        pairs: a claim and a lower bound each. A bound at or below its claim prints at or below it with any number of decimals.

    >>> places_apart([(1.0, 2.81)]), places_apart([(1.0, 1.000001)]), places_apart([(1.001, 1.004)])
    (2, 6, 3)
    """
    places = PLACES
    for claim, bound in pairs:
        while claim < bound < math.inf and places < MOST_PLACES and not _printed_above(claim, bound, places):
            places += 1
    return places


def _printed_above(claim: float, bound: float, places: int) -> bool:
    unit = Decimal(1).scaleb(-places)
    highest = Decimal(repr(float(claim))).quantize(unit, rounding=ROUND_CEILING)
    return highest < Decimal(repr(float(bound))).quantize(unit, rounding=ROUND_FLOOR)


def down(value: float, digits: int | None = None) -> str:
    """A lower bound or a ceiling: never above `value`.

    >>> down(3.419), down(0.29), down(0.004)
    ('3.41', '0.29', '0.00')
    """
    return INFINITY_TEXT if value == math.inf else _cut(value, _PLACES.get() if digits is None else digits, ROUND_FLOOR)


def below(value: float, digits: int = 4, claim: float | None = None) -> str:
    """A lower bound of any size in a sentence: so many significant digits, never above `value`.

    Args:
        claim: beside which it is; a bound above it takes as many digits as print it above.

    >>> below(1.58359), below(0.99999), below(1.2e-7), below(0.0), below(math.inf)
    ('1.583', '0.9999', '1.2e-7', '0', '∞')
    >>> below(1.0000019, claim=1.0)
    '1.000001'
    """
    if value == math.inf:
        return INFINITY_TEXT
    cuts = (Context(prec=precision, rounding=ROUND_DOWN).create_decimal(repr(float(value))) for precision in range(digits, 18))
    cut = next(
        (cut for cut in cuts if claim is None or value <= claim or cut > Decimal(repr(float(claim)))),
        Decimal(repr(float(value))),
    )
    return f"{cut.normalize():g}"


def up(value: float, digits: int | None = None) -> str:
    """A claim: never below `value`, so a positive claim never prints as zero.

    >>> up(7.9981), up(0.0004), up(float("inf"))
    ('8.00', '0.01', 'no guarantee')
    """
    return NO_GUARANTEE if value == math.inf else _cut(value, _PLACES.get() if digits is None else digits, ROUND_CEILING)


def near(value: float, digits: int = 2) -> str:
    """A figure without a direction, to the nearest.

    >>> near(0.125), near(1.005, 1)
    ('0.12', '1.0')
    """
    return INFINITY_TEXT if value == math.inf else _cut(value, digits, ROUND_HALF_EVEN)


def significant(value: float, digits: int = 4) -> str:
    """`value` with that many significant digits and no exponent if it reads well.

    >>> significant(0.93214), significant(120.0), significant(0.00001234)
    ('0.9321', '120', '1.234 × 10⁻⁵')
    """
    if not math.isfinite(value):
        return INFINITY_TEXT
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        return power(value, digits)
    return f"{value:.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def figure(value: float) -> str:
    """A utility figure: three decimals if it is of the order of one, else four significant digits.

    >>> figure(0.90712), figure(25321.4), figure(-0.2)
    ('0.907', '25,321', '−0.200')
    """
    return near(value, 3) if 1e-2 <= abs(value) < 10 or value == 0 else significant(value)


def power(value: float, digits: int = 3) -> str:
    """`value` in powers of ten.

    >>> power(1e-5), power(0.0), power(2.5e-6)
    ('10⁻⁵', '0', '2.5 × 10⁻⁶')
    """
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa} × {power}"


def percent(rate: float | None, digits: int = 1, side: str = "near") -> str:
    """A rate in per cent; `side` is "down", "up" or "near".

    >>> percent(0.0234), percent(0.02341, side="up"), percent(None)
    ('2.3\\xa0%', '2.4\\xa0%', 'not measured')
    """
    if rate is None:
        return DASH
    direction = {"down": ROUND_FLOOR, "up": ROUND_CEILING, "near": ROUND_HALF_EVEN}[side]
    return f"{_cut(rate, digits, direction, 100)}{SPACE}%"


def rate(value: float | None, size: int, side: str = "near") -> str:
    """A rate out of `size` records, with as many digits as one record is worth and never more than two.

    >>> rate(0.0005, 2000), rate(0.5, 40)
    ('0.05\\xa0%', '50\\xa0%')
    """
    return percent(value, 2 if size > 1000 else 1 if size > 100 else 0, side)


def target(rate: float) -> str:
    """A false positive rate that was asked for, without idle zeros.

    >>> target(0.001), target(0.1)
    ('0.1\\xa0%', '10\\xa0%')
    """
    return f"{float(Decimal(repr(rate)) * 100):g}{SPACE}%"


def confidence(level: float) -> str:
    """A confidence in per cent, cut so that it is never overstated and never reads 100.

    >>> confidence(0.95), confidence(0.9958333), confidence(0.99999)
    ('95\\xa0%', '99.58\\xa0%', '99.999\\xa0%')
    """
    doubt = 100 * (1 - level)
    # as many digits as show the distance to 100, and one more
    digits = 1 + max(0, math.ceil(-math.log10(doubt))) if doubt > 0 else 0
    text = _cut(level, digits, ROUND_FLOOR, 100)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}{SPACE}%"


def count(number: int) -> str:
    """A count with a comma every three digits.

    >>> count(4000)
    '4,000'
    """
    return f"{number:,}"


def width(text: str) -> int:
    """Return how many Latin letters a text is as wide as; a Chinese character takes two.

    >>> width("dp"), width("隐私")
    (2, 4)
    """
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def elide(text: str, limit: int) -> str:
    """`text` cut in its middle to a width of `limit` Latin letters, for places that cannot grow.

    >>> elide("attack_with_a_long_name", 13), elide("lira", 13), elide("隐私审计的攻击", 9)
    ('attack…g_name', 'lira', '隐私…攻击')
    """
    if width(text) <= limit:
        return text
    tail = (limit - 1) // 2
    return f"{_beginning(text, limit - 1 - tail)}…{_beginning(text[::-1], tail)[::-1]}"


def _beginning(text: str, limit: int) -> str:
    """The longest beginning of a text that is no wider than `limit` Latin letters."""
    widths = itertools.accumulate(map(width, text))
    return text[: sum(so_far <= limit for so_far in widths)]


def plural(number: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "attack"), plural(2, "attack")
    ('1 attack', '2 attacks')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _cut(value: float, digits: int, side: str, scale: int = 1) -> str:
    number = _WIDE.multiply(Decimal(repr(float(value))), scale)
    quantity = number.quantize(Decimal(1).scaleb(-digits), rounding=side, context=_WIDE)
    return f"{quantity if quantity else abs(quantity):,f}".replace("-", "−")  # a zero has no sign
