"""--help of every command reads as sentences: a verb first, options that are on their own, a full stop at the end."""

from __future__ import annotations

import gc
import re
from typing import Any

import pytest
import typer

from audit import config
from audit.cli.app import answer, app
from audit.core.errors import ConfigError
from audit.core.version import __version__

VERBS = {
    "Attack",
    "Audit",
    "Check",
    "Compare",
    "Compute",
    "Find",
    "Keep",
    "List",
    "Print",
    "Recompute",
    "Record",
    "Render",
    "Run",
    "Search",
}
VERBS |= {"Change", "Import", "Start", "Test", "Write"}
FRAGMENT = re.compile(r"^(Of|With|That|Which|Whether|After|Who|Where|How|The same|Ask|Most|Fewest)\b")


def commands(group: Any, name: str = "audit") -> list[tuple[str, Any]]:
    """Every command with its full name; groups first."""
    below = [pair for key, command in getattr(group, "commands", {}).items() for pair in commands(command, f"{name} {key}")]
    return [(name, group), *below]


ALL = dict(commands(typer.main.get_command(app)))


def test_there_are_commands() -> None:
    assert {"audit run", "audit accountant check", "audit ledger plan"} <= set(ALL)


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_command_begins_with_a_verb_and_ends_with_a_stop(name: str) -> None:
    text = ALL[name].help.strip()
    assert text.split()[0] in VERBS, text
    assert text.endswith("."), text


@pytest.mark.parametrize("name", sorted(ALL))
def test_options_stand_on_their_own(name: str) -> None:
    for parameter in ALL[name].params:
        text = getattr(parameter, "help", None)
        assert text, parameter.name
        assert text.endswith("."), text
        assert not FRAGMENT.match(text), text


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(["--version"]) == 0
    assert capsys.readouterr().out == f"epsilon-audit {__version__}\n"


def test_the_collector_of_garbage_rests_while_a_run_imports_and_works_again_after(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def load(*given: Any) -> None:
        seen.append(gc.isenabled())
        raise ConfigError("no config")

    monkeypatch.setattr(config, "load", load)
    monkeypatch.setattr(gc, "freeze", lambda: seen.append(gc.isenabled()))  # what other tests leave would stay for good
    assert answer(["run", "quickstart"]) == ConfigError.exit_code
    assert seen == [False, False]
    assert gc.isenabled()
