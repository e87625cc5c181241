"""The settings that a user gave, in a short table: one row for each part of the configuration."""

from audit.core.results import AuditReport
from reports.pages.blocks import Mono, Table, Text, layout, small_table
from reports.words.language import say


def settings(report: AuditReport) -> Table | None:
    """Return what differs from the defaults, or None if the report does not say."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for path, value in report.settings:
        part, key = _split(path)
        parts.setdefault(part, []).append((key, value))
    if not parts:
        return None
    rows: list[tuple[Text, ...]] = [(Mono(part or "config"), _setting_texts(entries)) for part, entries in parts.items()]
    return small_table(say("settings.the_settings_that_were_given"), layout("settings.part:0.2 settings.settings:0.8"), rows)


def _split(path: str) -> tuple[str, str]:
    """The part of the configuration that a path is in, and its key there.

    >>> _split("games.0.scorers.1.kind"), _split("data.kind"), _split("seed")
    (('games 1', 'scorers'), ('data', 'kind'), ('', 'seed'))
    """
    head, *remainder = path.split(".")
    if not remainder:
        return "", head
    if remainder[0].isdigit():
        part, remainder = f"{head} {int(remainder[0]) + 1}", remainder[1:]
    else:
        part = head
    words = [word for word in remainder if not word.isdigit()]
    words = words[:-1] if len(words) > 1 and words[-1] == "kind" else words
    return part, " ".join(words) or "value"


def _setting_texts(pairs: list[tuple[str, str]]) -> str:
    """Keys with their values; a list's values are behind its key once."""
    values_by_key: dict[str, list[str]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, []).append(value)
    return "; ".join(f"{key} {', '.join(values)}" for key, values in values_by_key.items())
