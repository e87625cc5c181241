"""Message tables of the languages: `LANGUAGE.json` beside the file of its language."""

import importlib.resources
import json


def read_table(language: str) -> dict[str, dict[str, str]]:
    """Return the tables of a language by name: `sentences`; if it translates what reports record, `recorded` and `older`."""
    text = (importlib.resources.files(__package__) / f"{language}.json").read_text("utf-8")
    tables: dict[str, dict[str, str]] = json.loads(text)
    return tables
