"""The changelog names the version of the package, and its upgrade table leads from paths that are gone to paths that exist."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import audit
from audit.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \|$", TEXT.split("### Upgrade")[1].split("\n###")[0], re.MULTILINE)[1:]
OLD = sorted(
    {name for before, _ in ROWS for name in re.findall(r"`((?:audit|reports)\.[a-z_.]+)`", before)} - {"audit.api.lower_bound"}
)
NEW = sorted({name for _, now in ROWS for name in re.findall(r"`((?:audit|reports)[.:][\w.:]+)", now)})


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of the module before its last dot or colon."""
    name = name.replace(":", ".")
    module, _, attribute = name.rpartition(".")
    return _is_module(name) or (_is_module(module) and hasattr(import_module(module), attribute))


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_the_newest_release_is_this_version_and_unreleased_stands_above_it() -> None:
    assert re.findall(r"^## (\S+)", TEXT, re.MULTILINE)[:2] == ["Unreleased", audit.__version__]
    assert re.search(rf"^## {re.escape(audit.__version__)} - \d{{4}}-\d\d-\d\d$", TEXT, re.MULTILINE)


def test_a_release_takes_at_most_sixty_lines() -> None:
    releases = TEXT.split("\n## ")[1:]
    assert {release.splitlines()[0]: len(release.splitlines()) for release in releases if len(release.splitlines()) > 60} == {}


@pytest.mark.parametrize("name", NEW)
def test_a_new_path_exists(name: str) -> None:
    assert exists(name)


@pytest.mark.parametrize("name", OLD)
def test_an_old_path_is_gone(name: str) -> None:
    assert not exists(name)


def test_commands_of_the_table_exist() -> None:
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    named = {name for _, now in ROWS for name in re.findall(r"`audit ([a-z]+)", now)}
    assert named
    assert named <= known


def test_the_list_of_moved_modules_leads_from_paths_that_are_gone_to_paths_that_exist() -> None:
    lines = (ROOT / "docs" / "develop" / "moved-modules.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert lines[0] == "0.1.0,now" and len(rows) > 150
    assert [before for before, _ in rows if _is_module(before)] == []
    assert [now for _, now in rows if not _is_module(now)] == []
