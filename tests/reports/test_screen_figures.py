"""Drawings of the HTML: small, and the same picture as in the PDF."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Tree

import numpy as np
import pytest

from reports.figures import _plots
from reports.formats import _screen_figure, figures, html
from reports.pages.blocks import Figure
from tests.reports import sample

STEP = 1 / 10


def corners(path: str) -> list[tuple[float, float]]:
    """Return the points of a path in relative lines, as a browser reads it."""
    points: list[tuple[float, float]] = []
    for command, text in re.findall(r"([Mhvl])([^Mhvlz]*)", path):
        numbers = [float(number) for number in re.findall(r"-?\d*\.?\d+", text)]
        x, y = points[-1] if points and command != "M" else (0.0, 0.0)
        right, down = {"h": (numbers[0], 0.0), "v": (0.0, numbers[0])}.get(command, tuple(numbers))
        points.append((x + right, y + down))
    return points


def test_a_thinned_line_stays_within_half_a_pixel_of_what_was_drawn() -> None:
    rng = np.random.default_rng(3)
    line = np.column_stack([np.linspace(0, 200, 2001), 100 + np.cumsum(rng.normal(0, 0.4, 2001))])
    data = "M" + "L".join(f" {x} {y}\n" for x, y in line)
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="{data}"/></svg>'
    text = _screen_figure.compact(svg.encode(), "")
    points = np.array(corners(re.search(r' d="([^"]+)"', text).group(1)))  # type: ignore[union-attr]
    assert 3 < len(points) < 1000
    starts, moves = points[:-1], np.diff(points, axis=0)
    for point in line:
        share = np.clip(((point - starts) * moves).sum(axis=1) / np.maximum((moves**2).sum(axis=1), 1e-9), 0, 1)
        nearest = np.hypot(*(starts + share[:, None] * moves - point).T).min()
        assert nearest < (_screen_figure.TOLERANCE + 1) * STEP


@pytest.mark.parametrize("name", ["roc", "scores"])
def test_the_words_of_a_drawing_are_text_and_its_rims_come_back(name: str) -> None:
    report = sample.scores()
    plan = next((plan for key, plan in figures.planned(report).items() if key.startswith(name)), None)
    assert plan is not None
    figure = _plots.draw_figure(plan.height_mm, plan.paint)
    before = _plots.write_svg(figure)
    root = Tree.fromstring(_screen_figure.compact(_plots.write_screen(figure), "p-"))
    assert _plots.write_svg(figure) == before
    words = {item.text for item in root.iter("text")}
    shown = {text.get_text() for text in figure.findobj(_is_shown)}
    assert shown and shown <= words
    assert not root.findall(".//{*}use") and all(item.get("id", "p-").startswith("p-") for item in root.iter())


def _is_shown(artist: object) -> bool:
    from matplotlib.axis import Tick
    from matplotlib.text import Text

    return isinstance(artist, Text) and not isinstance(artist, Tick) and bool(artist.get_path_effects())


def test_what_lies_outside_of_the_axes_is_cut_off_and_a_dot_stays_round() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 99 99"><defs>'
        '<clipPath id="box"><rect x="10" y="10" width="50" height="50"/></clipPath><path id="m" d="M 0 2 C 1 2 2 1 2 0 '
        f'{"C 2 0 2 0 2 -2 " * 6}C -1 2 -2 1 -2 0 z"/></defs><g id="a"><path d="M 20 20 L 30 40" clip-path="url(#box)"/>'
        '<path d="M 20 20 L 300 40" clip-path="url(#box)" style="fill: none"/></g>'
        '<use xlink:href="#m" x="30" y="40" clip-path="url(#box)"/></svg>'
    )
    inside, outside, dot = Tree.fromstring(_screen_figure.compact(svg.encode(), "p-")).findall("path")
    assert inside.attrib == {"d": "M20 20l10 20"}
    assert outside.attrib == {"d": "M20 20l280 20", "clip-path": "url(#p-box)"}
    assert dot.get("d") == "M28 40a2 2 0 1 0 4 0a2 2 0 1 0 -4 0z"


def test_what_stands_alike_in_two_drawings_is_written_once() -> None:
    long = '<path d="M0 0' + "h1v1" * 40 + '"/>'
    text = _screen_figure.shared(f"<svg>{long}</svg><svg>{long}<path d='M0 0'/></svg>")
    assert text.count("h1v1" * 40) == 1 and text.count('<use href="#u0"/>') == 1 and text.count('id="u0"') == 1


def test_drawings_of_one_page_share_no_identifier() -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><path id="a" d="M0 0"/></svg>'
    names = ("roc-\u0440\u043e\u0437\u0430", "roc-\u043b\u0438\u0441\u0430", "a_b", "a-b", "A-b")
    blocks = [Figure(name=name, caption="c", alt="a") for name in names]
    page = html.standalone("title", blocks, dict.fromkeys(names, svg)).decode()
    identifiers = re.findall(r'id="([^"]+)"', page)
    assert len(identifiers) == len(names) == len(set(identifiers))
