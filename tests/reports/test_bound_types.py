"""No output prints a bound without its condition: void, inside a family, or so near its claim that rounding would hide it."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reports
from audit.cli import output
from audit.core.claims import Outcome
from audit.core.errors import DataError
from audit.core.lower_bounds import (
    BoundTrajectory,
    FamilyBound,
    LowerBound,
    VoidBound,
    VoidTrajectory,
    read_epsilon,
    report_bound,
    report_trajectory,
)
from audit.core.results import AuditReport, MechanismResult
from audit.core.rounding import down, places_apart, up
from audit.core.views import Scores
from audit.experiment.line.findings import attack_result
from reports.formats import figures
from reports.formats import json as report_json
from reports.pages import document, label
from reports.pages.blocks import Numbers, Table
from reports.words.language import speaking
from reports.words.translation import translated
from tests.reports import sample

DOCS = Path(__file__).resolve().parents[2] / "docs"
INSIDE = 6.5873
"""A bound inside a family as the quickstart has it, more than any other figure of these reports."""


def _third_party() -> Any:
    """The format that docs/use/report.md shows, as its reader copies it."""
    (code,) = re.findall(r"```python\n(class Markdown:.*?)```", (DOCS / "use" / "report.md").read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 13
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope["Markdown"]()


def _pages(report: AuditReport) -> str:
    """What PDF and HTML print: a line for each paragraph, and for each row of a table with its titles."""
    return "\n".join(line for section in document.sections(translated(report)) for line in _lines(section.blocks))


def _lines(blocks: Any) -> list[str]:
    lines = []
    for block in blocks:
        if isinstance(block, Table):
            titles = [column.title for column in block.columns]
            rows = [" ".join(document.texts(row)) for row in block.rows]
            cells = [[" ".join(document.texts((cell,))) for cell in row] for row in block.rows]
            pairs = [" ".join(f"{title} {cell}" for title, cell in zip(titles, row, strict=True)) for row in cells]
            lines += [f"{pair} {row}" for pair, row in zip(pairs, rows, strict=True)]
        elif isinstance(block, Numbers):
            lines += [" ".join(document.texts((item,))) for item in block.items]
        else:
            lines += [" ".join(document.texts((block,)))]
    return lines


def _members(plain: Any, path: str = "") -> list[str]:
    """A line for each number of a JSON document, with the keys that lead to it and the names beside it."""
    if isinstance(plain, list):
        return [line for row in plain for line in _members(row, path)]
    if not isinstance(plain, dict):
        return [f"{path} {plain}"]
    names = " ".join(str(plain[key]) for key in ("type", "family") if key in plain)
    return [line for key, value in plain.items() for line in _members(value, f"{path}.{key} {names}")]


def _zh(build: Callable[[AuditReport], str]) -> Callable[[AuditReport], str]:
    def speak(report: AuditReport) -> str:
        with speaking("zh"):
            return build(translated(report))

    return speak


def _files(*names: str) -> Callable[[AuditReport], str]:
    return lambda report: "\n".join(content.decode() for content in reports.render(report, names).values())


def _tables(report: AuditReport) -> str:
    return "\n".join(
        f"{column} {value} {row.get('family')} {'void' if row.get('outcome') == 'invalid' else ''}"
        for table in ("verdicts", "bounds")
        for row in report.to_pandas(table).to_dict("records")  # type: ignore[arg-type]
        for column, value in row.items()
    )


OUTPUTS: dict[str, Callable[[AuditReport], str]] = {
    "print": str,
    "notebook": lambda report: report._repr_html_(),
    "pandas": _tables,
    "console": lambda report: "\n".join(output.lines(report, Path("run"))),
    "console json": lambda report: "\n".join(_members(output.digest(report))),
    "json": lambda report: "\n".join(_members(json.loads(report_json.to_json(report)))),
    "junit": _files("junit"),
    "sarif": _files("sarif"),
    "pages": _pages,
    "pages zh": _zh(_pages),
    "label": lambda report: label.card(translated(report)),
    "label zh": _zh(label.card),
    "third party": lambda report: _third_party().render(report)["report.md"].decode(),
}


def _raised(report: AuditReport, value: float = INSIDE) -> AuditReport:
    """The report with every bound inside a family at that figure."""

    def change(bound: Any) -> Any:
        return bound if bound is None or bound.family is None else sample.replace_figures(bound, value, 50.18)

    def mechanism(result: MechanismResult) -> MechanismResult:
        games = tuple(
            replace(game, attacks=tuple(replace(a, bounds=tuple(map(change, a.bounds))) for a in game.attacks))
            for game in result.games
        )
        verdicts = tuple(replace(verdict, bound=change(verdict.bound)) for verdict in result.verdicts)
        return replace(result, games=games, verdicts=verdicts)

    return replace(report, mechanisms=tuple(map(mechanism, report.mechanisms)))


CONDITION = re.compile(r"inside|in family|the family|within|机制族|族内|dp_sgd only", re.IGNORECASE)
"""Words without which no text may hold a figure of a bound inside a family."""


@pytest.mark.sampled(7)
@pytest.mark.parametrize("outcome", [Outcome.CONSISTENT, Outcome.VIOLATED])
@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_prints_a_family_bound_as_proven_for_any_mechanism(name: str, outcome: Outcome) -> None:
    text = OUTPUTS[name](_raised(sample.run(outcome)))
    result = [line for line in text.splitlines() if re.search(r"(?<![\d.])6\.58", line)]
    assert result or name in ("third party", "sarif", "label", "label zh"), "the figure is to be found with its condition"
    for line in result:
        assert CONDITION.search(line), line


@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_of_a_void_audit_prints_a_bound_as_proven(name: str) -> None:
    full = _raised(sample.run(Outcome.INVALID))
    void = next(result for result in full.mechanisms if result.is_void)
    report = replace(full, mechanisms=(void,))
    assert not void.bounds and not void.bounds_inside and all(isinstance(bound, VoidBound) for bound in void.all_bounds)
    text = OUTPUTS[name](report)
    figures = "|".join(re.escape(down(read_epsilon(bound))) for bound in void.all_bounds if read_epsilon(bound) > 0.5)
    for line in text.splitlines():
        assert not re.search(rf"(?<![\d.])(?:{figures})", line) or re.search("void|作废", line, re.IGNORECASE), line


def _passages(content: bytes, kind: str) -> list[str]:
    """What a reader sees around each figure of 6.58 in a file: the titles of a table are up to 600 characters before."""
    if kind == "pdf":
        text = "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages)
    else:
        text = re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script).*?</\1>", "", content.decode(), flags=re.DOTALL))
    text = re.sub(r"\s+", " ", text)
    return [text[max(0, result.start() - 600) : result.end() + 80] for result in re.finditer(r"(?<![\d.])6\.58", text)]


def _build_tied_report() -> AuditReport:
    """The report on scores of which most are equal: two thirds of both sides have one value."""
    report = sample.scores()
    (result,) = report.mechanisms
    (game,) = result.games
    draw = np.random.default_rng(0)
    included = draw.random(600) < 0.5
    values = np.where(draw.random(600) < 2 / 3, 0.0, 1.0 * included)
    attack = attack_result(Scores(values=values, included=included, game=game.game, attack="label_only"), confidence=0.95)
    family = report_bound(replace(sample.bound(2.0, ceiling=9.0), family="gdp"))
    game = replace(game, attacks=(replace(attack, bounds=(sample.bound(0.4), family)),))
    return replace(report, mechanisms=(replace(result, games=(game,)),))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pdf", "html"])
def test_files_print_a_bound_inside_a_family_or_void_with_its_condition(kind: str) -> None:
    full = _raised(sample.run(Outcome.INVALID))
    void = next(result for result in full.mechanisms if result.is_void)
    for report, condition, more_than in (
        (_raised(sample.run()), CONDITION, 5),
        (replace(full, mechanisms=(void,)), re.compile("void", re.IGNORECASE), 4),  # the cover of a void audit shows no figure
    ):
        actual = _passages(reports.render(report, (kind,))[f"report.{kind}"], kind)
        assert len(actual) > more_than
        assert not [passage for passage in actual if not condition.search(passage)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", OUTPUTS)
def test_no_output_of_tied_scores_prints_a_family_bound_as_proven(name: str) -> None:
    text = OUTPUTS[name](_raised(_build_tied_report()))
    for line in text.splitlines():
        assert not re.search(r"(?<![\d.])6\.58", line) or CONDITION.search(line), line


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [name for name in OUTPUTS if name not in ("json", "console json", "pandas", "third party")])
@pytest.mark.parametrize(("claim", "bound"), [(1.0, 1.000001), (1.001, 1.004), (3.0, 3.0000000004)])
def test_a_bound_above_its_claim_is_printed_above_it(name: str, claim: float, bound: float) -> None:
    report = sample.scores()
    (result,) = report.mechanisms
    proven = sample.bound(bound, ceiling=5.13)
    game = replace(result.games[0], attacks=(replace(result.games[0].attacks[0], bounds=(proven,)),))
    stated = replace(result.claims[0], epsilon=claim)
    verdict = replace(result.verdicts[0], claim=stated, bound=proven, outcome=Outcome.VIOLATED, reason="above the claim")
    result = replace(result, claims=(stated,), games=(game,), verdicts=(verdict,), outcome=Outcome.VIOLATED)
    text = OUTPUTS[name](replace(report, mechanisms=(result,), outcome=Outcome.VIOLATED))
    places = places_apart([(claim, bound)])
    assert down(bound, places) in text and up(claim, places) in text
    assert not re.search(rf"(?<![\d.]){re.escape(down(bound, 2))}(?!\d)", text), "the figure that equals the claim"


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_whatever_differs_is_printed_different(claim: float, bound: float) -> None:
    places = places_apart([(claim, bound)])
    printed = [float(text.replace(",", "")) for text in (up(claim, places), down(bound, places))]
    assert (bound > claim) is (printed[1] > printed[0]) or math.isclose(claim, bound, rel_tol=1e-13)


def test_only_a_bound_for_any_mechanism_has_an_epsilon() -> None:
    plain = sample.bound(3.3)
    inside, void = report_bound(sample.bound(6.58, family="dp_sgd")), report_bound(plain, void=True)
    assert isinstance(plain, LowerBound) and isinstance(inside, FamilyBound) and isinstance(void, VoidBound)
    for bound in (inside, void):
        with pytest.raises(AttributeError):
            bound.epsilon  # type: ignore[union-attr]  # noqa: B018


def test_a_ceiling_inside_a_family_or_void_stands_under_no_plain_title() -> None:
    """A caller who takes the largest ceiling of the table of bounds gets one that holds for any mechanism."""
    rows = _raised(sample.run(Outcome.INVALID)).to_pandas("bounds")
    inside = rows["epsilon_inside"].notna()
    assert inside.any() and rows["void_epsilon"].notna().any() and rows["ceiling"].notna().any()
    assert (rows["ceiling"].notna() == rows["epsilon"].notna()).all()
    assert (rows["ceiling_inside"].notna() == inside).all()


def test_a_result_refuses_a_bound_without_the_type_of_its_condition() -> None:
    (plain, dp) = sample.run().mechanisms
    with pytest.raises(DataError, match="void; expected VoidBound"):
        replace(dp, outcome=Outcome.INVALID)
    raw = LowerBound(**{**_terms(sample.bound(3.3)), "family": "gdp"})
    attack = replace(plain.games[0].attacks[0], bounds=(raw,))
    with pytest.raises(DataError, match="a LowerBound of the family 'gdp'"):
        replace(plain, games=(replace(plain.games[0], attacks=(attack,)),))


def test_a_void_result_refuses_a_course_of_bounds_that_is_not_void() -> None:
    for outcome in (Outcome.CONSISTENT, Outcome.INVALID):
        result = next(row for row in sample.run(outcome).mechanisms if row.bound_trajectories)
        curve = result.bound_trajectories[0]
        wrong = report_trajectory(curve, None, void=not result.is_void)
        if isinstance(curve, VoidTrajectory):
            wrong = BoundTrajectory(label=curve.label, steps=curve.steps, epsilon=curve.void_epsilon)
        with pytest.raises(DataError, match="course"):
            replace(result, bound_trajectories=(wrong,))


def _terms(bound: Any) -> dict[str, Any]:
    return {name: getattr(bound, name) for name in LowerBound.__dataclass_fields__}


@pytest.mark.parametrize("kind", sample.ALL)
def test_a_report_of_the_older_schema_is_read_under_the_types_of_this_one(kind: str) -> None:
    report = sample.ALL[kind]()
    plain = json.loads(report_json.to_json(report))
    old = _untyped(plain) | {"schema": "audit-report/1.0"}
    assert report_json.from_json(json.dumps(old).encode()) == report


def _untyped(plain: Any) -> Any:
    """The object as version 1.0 wrote it: one type of bounds, courses without their family."""
    if isinstance(plain, list):
        return [_untyped(row) for row in plain]
    if not isinstance(plain, dict):
        return plain
    row = {key: _untyped(value) for key, value in plain.items()}
    if not str(row.get("type")).endswith(("Bound", "Trajectory")):
        return row
    if str(row.pop("type")).endswith("Trajectory"):
        row.pop("family", None)
    names = {"epsilon_inside": "epsilon", "void_epsilon": "epsilon", "ceiling_inside": "ceiling", "void_ceiling": "ceiling"}
    return {names.get(key, key): value for key, value in row.items()}


def test_drawings_print_a_bound_above_its_claim_outside_of_a_format_as_well() -> None:
    report = sample.scores()
    (result,) = report.mechanisms
    game = replace(result.games[0], attacks=(replace(result.games[0].attacks[0], bounds=(sample.bound(2.000001),)),))
    near = replace(report, mechanisms=(replace(result, games=(game,), verdicts=()),))
    plan = figures.planned(near)["overview"]
    assert "2.000001" in plan.alt
    figure = reports.plot(near, "overview")
    assert any("2.000001" in text.get_text() for axes in figure.axes for text in axes.texts)


def test_a_claim_far_beyond_the_others_does_not_press_the_bars_together() -> None:
    report = sample.scores()
    (result,) = report.mechanisms
    far = replace(result.claims[0], epsilon=900.0, source="another accountant")
    figure = reports.plot(replace(report, mechanisms=(replace(result, claims=(*result.claims, far)),)), "overview")
    (axes,) = figure.axes
    assert axes.get_xlim()[1] < 10
