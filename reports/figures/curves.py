"""The ROC of a game as an SVG that tells its points to whoever points at them; for the edition in a browser."""

from __future__ import annotations

import math
from html import escape

from audit.core.game_results import AttackResult, GameResult
from audit.core.results import AuditReport
from reports.figures import _plots
from reports.words.language import say
from reports.words.numbers import percent

WIDTH, HEIGHT, LEFT_MARGIN, BOTTOM = 640.0, 360.0, 60.0, 46.0
MOST_POINTS = 60
COLOURS = ("#b3321f", "#5b6670", "#1f5fa8", "#8a5a00", "#1d6b45")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 2")


def roc(report: AuditReport, name: str) -> str:
    """The drawing of that name if it is the ROC of a game, else ""."""
    for mechanism in report.mechanisms:
        for game in mechanism.games:
            if game.attacks and _plots.file_name("roc", mechanism.name, game.name) == name:
                return _svg(game)
    return ""


def _svg(game: GameResult) -> str:
    smallest = 1 / max(2, *(attack.roc.nonmembers for attack in game.attacks))
    marks = "".join(_tick(10.0**power, smallest) for power in range(math.ceil(math.log10(smallest)), 1))
    chance = (
        f'<path d="M{_x(smallest, smallest)},{_y(smallest, smallest)}L{_x(1, smallest)},{_y(1, smallest)}" stroke="#5b6670" '
    )
    lines = "".join(_curve(attack, smallest, place) for place, attack in enumerate(game.attacks))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="{WIDTH:g}" font-size="13" '
        f'font-family="sans-serif" fill="#1b2733">{marks}{chance}stroke-dasharray="4 4" fill="none"/>{lines}'
        f'<text x="{(WIDTH + LEFT_MARGIN) / 2:g}" y="{HEIGHT - 8:g}" text-anchor="middle">'
        f"{say('curve.x_with_chance')}</text>"
        f'<text transform="translate(14 {(HEIGHT - BOTTOM) / 2:g}) rotate(-90)" text-anchor="middle">'
        f"{say('curve.true_positive_rate')}</text></svg>"
    )


def _x(fpr: float, smallest: float) -> float:
    return round(LEFT_MARGIN + (WIDTH - LEFT_MARGIN - 12) * (1 - math.log(max(fpr, smallest)) / math.log(smallest)), 1)


def _y(tpr: float, smallest: float) -> float:
    return round(12 + (HEIGHT - BOTTOM - 12) * math.log(max(tpr, smallest)) / math.log(smallest), 1)


def _tick(value: float, smallest: float) -> str:
    x, y, text = _x(value, smallest), _y(value, smallest), percent(value, max(0, -round(math.log10(value)) - 2))
    return (
        f'<path d="M{x},12V{HEIGHT - BOTTOM:g}M{LEFT_MARGIN:g},{y}H{WIDTH - 12:g}" stroke="#d9dee3" fill="none"/>'
        f'<text x="{x}" y="{HEIGHT - BOTTOM + 18:g}" text-anchor="middle">{text}</text>'
        f'<text x="{LEFT_MARGIN - 6:g}" y="{y + 4}" text-anchor="end">{text}</text>'
    )


def _curve(attack: AttackResult, smallest: float, place: int) -> str:
    """One attack: its line, its name at its end, and points that say their rates."""
    points = [
        (fpr, tpr) for fpr, tpr in zip(attack.roc.fpr, attack.roc.tpr, strict=True) if fpr >= smallest and tpr >= smallest
    ]
    points = points[:: max(1, math.ceil(len(points) / MOST_POINTS))] + points[-1:]
    if not points:
        return ""
    colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
    path = "L".join(f"{_x(fpr, smallest)},{_y(tpr, smallest)}" for fpr, tpr in points)
    name = escape(attack.scorer)
    spots = "".join(
        f'<circle class="hover" cx="{_x(fpr, smallest)}" cy="{_y(tpr, smallest)}" r="6"><title>'
        f"{escape(say('curve.guessing', name=attack.scorer, tpr=percent(tpr), fpr=percent(fpr)))}</title></circle>"
        for fpr, tpr in points
    )
    x, y = _x(points[0][0], smallest), _y(points[0][1], smallest)
    return (
        f'<path d="M{path}" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}" fill="none"/>'
        f'<text x="{x + 6}" y="{y - 6 - 14 * place}" fill="{colour}">{name}</text>{spots}'
    )
