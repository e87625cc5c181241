"""From a finished `AuditReport` to files: PDF, JSON, JUnit, SARIF, figures. Every file is a view of report.json."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from audit import plugins
from audit.core import training
from audit.core.errors import ConfigError, OutputError
from audit.core.files import write_whole
from audit.core.plans import Frontier, RunPlan
from audit.core.protocols import Renderer
from audit.core.results import USUAL_FORMATS, AuditReport
from audit.core.rounding import decimals
from reports.words.language import ENGLISH, speaking

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG = logging.getLogger("audit")
PACKAGE = "reports.formats"


def renderer(name: str) -> Renderer:
    """Return the renderer of a format: a file of `reports/formats`, or `package.module:Class`; else `ConfigError`."""
    plugin: Renderer = plugins.build(PACKAGE, {"kind": name}, "reports")
    return plugin


def render(report: AuditReport, formats: Sequence[str] = USUAL_FORMATS, language: str = ENGLISH) -> dict[str, bytes]:
    """Return the files of the report in each of `formats`, by name. Equal reports give equal bytes.

    Args:
        language: of every format that has words, a file of `reports/words/languages`; another than English is in the
            names of their files, as in report-zh.pdf.

    Raises:
        ConfigError: there is no such format or language.
        OutputError: a format could not be rendered, or two formats write the same file; nothing is skipped in silence.
    """
    files: dict[str, bytes] = {}
    for name in formats:
        pages = _render(report, name, language)
        if twice := sorted(set(pages) & set(files)):
            raise OutputError(f"format '{name}' would write {twice[0]} over that of another format; leave one of them out")
        files.update(pages)
    return files


def _render(report: AuditReport, name: str, language: str) -> Mapping[str, bytes]:
    """The files of one format; the language is in the names of those that have words."""
    plugin = renderer(name)
    with speaking(language) as words, decimals(report.places):
        files = plugin.render(report)
    if words.tag == ENGLISH or not getattr(plugin, "has_words", False):
        return files
    paths = {path: Path(path) for path in files}
    return {f"{paths[name].with_suffix('')}-{words.tag}{paths[name].suffix}": content for name, content in files.items()}


def attempt(report: AuditReport, formats: Sequence[str] = USUAL_FORMATS) -> tuple[dict[str, bytes], list[str]]:
    """The files of those formats that could be rendered, and why each other could not: no format takes others with it.

    Whatever a renderer or its library raises counts: the audit behind the report may have taken days.
    """
    files: dict[str, bytes] = {}
    failures = []
    for name in sorted(formats, key=lambda name: name != "json"):
        training.LOG.info("rendering %s", name)
        try:
            files.update(_render(report, name, ENGLISH))
        except ConfigError:
            raise
        except Exception as error:
            LOG.exception("format '%s' could not be rendered", name)
            failures.append(f"{name}: {error}")
    return files, failures


def refuse_incomplete(failures: Sequence[str], folder: Path) -> None:
    """Raise `OutputError` if formats of a finished report, kept in `folder`, could not be rendered."""
    if failures:
        raise OutputError(
            f"could not be rendered: {'; '.join(failures)}. All else is in '{folder}'; audit report renders again from its "
            "report.json"
        )


def save(report: AuditReport, path: str | Path) -> Path:
    """Write the report to one file, in the format that the file's suffix names, and return its path.

    A format is a file of `reports/formats`: its suffix is its own name, unless it states another as `suffix`.

    Raises:
        ConfigError: no format has this suffix.
        OutputError: the file could not be written, or the format writes no single file of this suffix.
    """
    path = Path(path)
    ending = path.suffix.lower()
    suffixes = {suffix(name): name for name in plugins.names(PACKAGE)}
    if ending not in suffixes:
        raise ConfigError(f"'{path}' ends in {ending or 'no suffix'}; expected one of {', '.join(sorted(suffixes))}")
    files = render(report, [suffixes[ending]])
    fitting = [content for name, content in files.items() if name.endswith(ending)]
    if len(fitting) != 1:
        raise OutputError(f"format '{suffixes[ending]}' writes {', '.join(files)}; expected one file ending in {ending}")
    try:
        write_whole(path, fitting[0], mode=0o666)
    except OSError as error:
        raise OutputError(f"cannot write '{path}': {error}; choose another path") from error
    return path


def suffix(name: str) -> str:
    """Return the suffix of the file that a format writes.

    >>> suffix("pdf"), suffix("junit")
    ('.pdf', '.xml')
    """
    ending: str = getattr(plugins.find(PACKAGE, name), "suffix", f".{name}")
    return ending


def plots(report: AuditReport) -> tuple[str, ...]:
    """Return the names of the figures that a report has."""
    from reports.formats import figures

    return tuple(plan.name for plan in figures.plans(report))


def plot(result: AuditReport | RunPlan | Frontier, name: str | None = None) -> Figure:
    """Return a figure of a report, the power of a plan or a frontier, to show or to save as matplotlib does.

    Args:
        name: of a report's figure (`plots` names them); None takes the first.

    Raises:
        ConfigError: there is no such figure.
    """
    from reports.figures._plots import draw_figure
    from reports.formats import figures

    if isinstance(result, RunPlan):
        return _plot_power(result, name)
    if isinstance(result, Frontier):
        from reports.figures import commands

        return commands.frontier_figure(result)

    with decimals(result.places):
        plans = {plan.name: plan for plan in figures.plans(result)}
    chosen_name = next(iter(plans), None) if name is None else name
    if chosen_name not in plans:
        raise ConfigError(f"the report has no figure {chosen_name!r}; it has: {', '.join(plans) or 'none'}")
    with decimals(result.places):
        return draw_figure(plans[chosen_name].height_mm, plans[chosen_name].paint)


def _plot_power(plan: RunPlan, name: str | None) -> Figure:
    from reports.figures.commands import power_figure

    if name not in (None, "power"):
        raise ConfigError(f"a plan has no figure {name!r}; it has: power")
    if not plan.power:
        raise ConfigError("the plan has no power to draw: give violation, or no estimator of it is quick enough to simulate")
    return power_figure(plan.power)


def probe() -> bytes:
    """A one-word PDF: whether documents can be typeset here; `OutputError` if typst does not work."""
    try:
        typst = import_module("typst")
        page: bytes = typst.compile(b"ready", format="pdf", ignore_system_fonts=True)
    except (ImportError, RuntimeError) as error:
        raise OutputError(f"typst cannot typeset a page: {error}; reinstall it with pip install typst") from error
    return page
