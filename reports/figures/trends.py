"""What was claimed and proven of one training over several audits, as an SVG that names its points; for a browser."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from reports.words.language import down, say, up

WIDTH, HEIGHT, LEFT_MARGIN, BOTTOM, TOP, RIGHT = 640.0, 220.0, 50.0, 34.0, 14.0, 150.0
CLAIMED, PROVEN, CEILING = "#1f5fa8", "#b3321f", "#5b6670"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One audit of a training: the tightest finite claim, the largest bound for any mechanism; None if there is none."""

    date: str
    claimed: float | None
    proven: float | None
    ceiling: float | None


def trend(points: Sequence[Point], alt: str) -> str:
    """The three figures over audits in their order, at equal distances; what is missing leaves a gap."""
    finite = [value for point in points for value in (point.claimed, point.proven, point.ceiling) if _finite(value)]
    top = max((value for value in finite if value is not None), default=1.0) * 1.08 or 1.0  # zeros alone would make it 0
    lines = (
        (CEILING, "4 3", say("game_table.ceiling"), [(point.date, point.ceiling) for point in points], down),
        (CLAIMED, "", say("table.claimed"), [(point.date, point.claimed) for point in points], up),
        (PROVEN, "", say("unclaimed.proven"), [(point.date, point.proven) for point in points], down),
    )
    axes = "".join(
        f'<path d="M{LEFT_MARGIN:g},{_y(value, top)}H{WIDTH - RIGHT:g}" stroke="#d9dee3"/>'
        f'<text x="{LEFT_MARGIN - 6:g}" y="{_y(value, top) + 4}" text-anchor="end">{value:g}</text>'
        for value in _ticks(top)
    )
    date = "".join(
        f'<text x="{_x(place, len(points))}" y="{HEIGHT - 12:g}" text-anchor="middle">{escape(points[place].date)}</text>'
        for place in sorted({0, len(points) - 1})
    )
    drawn = "".join(_line(line, place, top) for place, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(alt)}" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" '
        f'width="{WIDTH:g}" font-size="12" font-family="sans-serif" fill="#1b2733">{axes}{date}{drawn}</svg>'
    )


def _line(line: tuple[str, str, str, list[tuple[str, float | None]], object], place: int, top: float) -> str:
    colour, dash, name, values, words = line
    runs: list[list[str]] = [[]]  # a missing figure ends a line and the next one begins another
    spots = ""
    for index, (date, value) in enumerate(values):
        if value is None or not _finite(value):
            runs.append([])
            continue
        x, y = _x(index, len(values)), _y(value, top)
        runs[-1].append(f"{x},{y}")
        texts = escape(f"{date}: {name} {words(value)}" if callable(words) else name)
        spots += f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"><title>{texts}</title></circle>'
    path = "".join(f"M{'L'.join(run)}" for run in runs if run)
    label = f'<text x="{WIDTH - RIGHT + 12:g}" y="{TOP + 14 + 18 * place:g}" fill="{colour}">{escape(name)}</text>'
    return f'<path d="{path}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"/>{spots}{label}'


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _x(place: int, total: int) -> float:
    width = WIDTH - LEFT_MARGIN - RIGHT - 20
    return round(LEFT_MARGIN + 10 + (width * place / (total - 1) if total > 1 else width / 2), 1)


def _y(value: float, top: float) -> float:
    return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top, 1)


def _ticks(top: float) -> list[float]:
    # 1, 2, 5 or 10 times a power of ten, the smallest of them that gives five steps or fewer
    step = 10.0 ** math.floor(math.log10(top / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 5)
    return [step * count for count in range(int(top / step) + 1)]
