"""index.html: all audits of a folder in one page for a browser, without any request to elsewhere."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from audit.core.lower_bounds import LowerBound, ReportedBound, VoidBound, read_ceiling, read_epsilon
from audit.core.results import AuditReport, MechanismResult
from reports import headline
from reports.figures import trends
from reports.figures.trends import Point
from reports.formats import html
from reports.pages.blocks import Mark, Text, Tone
from reports.words import named
from reports.words.language import down, many, say, speaking, up
from reports.words.translation import translated

FILE = "index.html"
# the files of an audit that a row links to, where they lie in its folder
VIEWS = ("report.html", "report.pdf", "report-zh.pdf", "report-external.pdf", "annex.pdf", "label.pdf", "report.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """An audit of the folder: its place relative to the page, with forward slashes, "" for beside it; and its files."""

    folder: str
    files: tuple[str, ...]
    report: AuditReport


def document(entries: Sequence[IndexRow], unreadable: Mapping[str, str], language: str = "en") -> str:
    """The page as text, audits in the order of their starts; `unreadable`: why files that look like reports were not read."""
    by_time = sorted(entries, key=lambda entry: (entry.report.created, entry.folder))
    with speaking(language):
        rows = [row for entry in reversed(by_time) for row in _rows(entry)]  # the newest on top; trends run forward
        titles = ("date", "subject", "training", "claimed", "proven", "ceiling", "verdict", "policy", "release", "files")
        first = f"{many('noun.audit', len(by_time))}{say('separator.sentences')}{say('index.read')}"
        parts = [
            f"<h1>{escape(say('index.title'))}</h1><p>{escape(first)}</p>",
            _table(say("index.caption"), [say(f"index.{title}") for title in titles], rows),
            *_trends(by_time),
        ]
        if unreadable:
            reasons = [[f"<code>{escape(path)}</code>", escape(reason)] for path, reason in sorted(unreadable.items())]
            parts.append(_table(say("index.not_read"), [say("index.files"), say("index.reason")], reasons))
        return html.shell(say("index.title"), "".join(parts))


def _rows(entry: IndexRow) -> Iterator[list[str]]:
    report = translated(entry.report)
    release = report.engagement.release_context if report.engagement else ""
    for mechanism in headline.by_gravity(report):
        claim, bound = _claimed(mechanism), headline.free(mechanism)
        yield [
            f"<time>{escape(report.created[:10])}</time>",
            escape(report.title),
            f"<code>{escape(mechanism.name)}</code>",
            say("word.none") if claim is None else up(claim),
            say("word.none") if bound is None else _bound(bound.bound),
            say("word.none") if bound is None else down(read_ceiling(bound.bound)),
            html.inline(named.outcome_mark(mechanism.outcome)),
            html.inline(_policy(report)),
            escape(release or say("cover.not_declared")),
            _links(entry),
        ]


def _policy(report: AuditReport) -> Text:
    if not report.policy:
        return say("word.none")
    is_met = all(gate.met for gate in report.policy)
    return Mark(say("policy.met") if is_met else say("policy.not_met"), Tone.GOOD if is_met else Tone.BAD)


def _links(entry: IndexRow) -> str:
    prefix = f"{quote(entry.folder)}/" if entry.folder else ""
    names = [name for name in VIEWS if name in entry.files]
    return " ".join(f'<a href="{escape(prefix + quote(name))}">{escape(name)}</a>' for name in names)


def _claimed(mechanism: MechanismResult) -> float | None:
    claim = headline.tightest(mechanism) or next(iter(mechanism.claims), None)
    return None if claim is None else claim.epsilon


def _bound(bound: ReportedBound) -> str:
    figure = down(read_epsilon(bound))
    return say("table.void", bound=figure) if isinstance(bound, VoidBound) else figure


def _trends(by_time: Sequence[IndexRow]) -> Iterator[str]:
    courses: dict[tuple[str, str], list[Point]] = {}
    for entry in by_time:
        report = translated(entry.report)
        for mechanism in report.mechanisms:
            bound = headline.free(mechanism)
            point = Point(
                date=report.created[:10],
                claimed=_claimed(mechanism),
                proven=bound.bound.epsilon if bound is not None and isinstance(bound.bound, LowerBound) else None,
                ceiling=None if bound is None else read_ceiling(bound.bound),
            )
            courses.setdefault((report.title, mechanism.name), []).append(point)
    for (title, name), points in courses.items():
        if len(points) > 1 and any(point.claimed is not None or point.proven is not None for point in points):
            caption = say("index.trend", title=title, name=name, audits=many("noun.audit", len(points)))
            yield f"<figure>{trends.trend(points, caption)}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(caption: str, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that sorts; its cells are HTML already."""
    head = "".join(f'<th scope="col"><button type="button">{escape(title)}</button></th>' for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0"><table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
