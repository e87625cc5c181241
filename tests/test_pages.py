"""Every page of docs/ is in the table of contents; links between pages and to files lead somewhere."""

from __future__ import annotations

import fnmatch
import importlib
import re
from pathlib import Path

import pytest

from audit.cli.app import app

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INCLUDED = {"develop/contributing", "develop/changelog"}  # pages that hold a file of the root
PAGES = sorted(path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md") if path.stem != "index")


def test_every_page_is_in_the_table_of_contents_once() -> None:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    entries = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    names = [page for entry in entries for page in (fnmatch.filter(PAGES, entry) or [entry])]
    assert sorted(names) == PAGES


TASKS = {  # what a reader looks for, and the page that answers it
    "audit my model": "start/audit-a-model.md",
    "audit my DP-SGD code": "start/check-dp-sgd.md",
    "gate a release": "start/gate-a-release.md",
    "test an accountant": "start/test-an-accountant.md",
    "read a report": "start/read-a-report.md",
    "know what a bound means": "theory/setting.md",
    "know how sure it is": "evidence/calibration.md",
}


@pytest.mark.parametrize("task", TASKS)
def test_the_index_answers_each_task_by_a_link(task: str) -> None:
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"]({TASKS[task]}" in dict(rows)[task]


def test_the_readme_leads_to_the_index_and_to_every_start_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = ["index", *(page for page in PAGES if page.startswith("start/"))]
    assert [page for page in pages if f"](docs/{page}.md)" not in text] == []


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", *(f"docs/{page}.md" for page in PAGES)])
def test_links_lead_somewhere(path: str) -> None:
    page = ROOT / path
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")) if "://" not in target]
    for target in targets:
        assert (page.parent / target.split("#")[0]).exists() or target.startswith("#"), target


def _mentions() -> list[tuple[str, str, str]]:
    """File, page and quoted section (empty if none) of every place that names a page of docs/."""
    result = []
    for folder in ("audit", "attacks", "reports", "benchmarks", "tests", "configs", "examples"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in {".py", ".yaml", ".json", ".md", ".c"}:
                text = path.read_text(encoding="utf-8")
                pages = re.finditer(r"(docs/[\w./-]+\.(?:md|json))(?:,\s+(?:section\s+)?[\"']([A-Z][^\"']+)[\"'])?", text)
                result += [(path.relative_to(ROOT).as_posix(), item[1], item[2] or "") for item in pages]
    return result


def test_pages_and_sections_named_in_code_exist() -> None:
    named = _mentions()
    assert len(named) > 100
    assert [entry for entry in named if not (ROOT / entry[1]).exists()] == []
    quoted = [(file, page, " ".join(section.split())) for file, page, section in named if section]
    assert len(quoted) > 30
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for _, page, _ in quoted}
    heads = {
        page: set(re.findall(r"(?:^#+ (?:\d+\. )?|^\*\*)(.+?)(?:\*\*|$)", text, re.MULTILINE)) for page, text in texts.items()
    }
    assert [entry for entry in quoted if entry[2] not in heads[entry[1]]] == []


def test_the_design_page_lists_every_folder_and_every_step_of_the_line() -> None:
    listing = re.search(
        r"### Files\n(.*?)\nHouse measure", (DOCS / "develop" / "design.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert listing
    words = set(re.findall(r"\w+", listing[1].replace("leave_one_out(_summary)", "leave_one_out leave_one_out_summary")))
    folders = {path.parent.name for path in (ROOT / "audit").glob("*/__init__.py")}
    steps = {
        path.stem
        for path in (ROOT / "audit" / "experiment").rglob("*.py")
        if path.parent.name not in {"coverage", "gates"} and path.stem != "__init__"
    }
    assert sorted((folders | steps) - words) == []


def _files() -> list[Path]:
    folders = ("audit", "attacks", "reports", "tests", "configs", "docs")
    return [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".yaml", ".c", ".md")]


def _is_present(dotted: str) -> bool:
    """True if a dotted name is a module, or something that the longest module in it names."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            return length == len(parts) or re.search(rf"\b{parts[length]}\b", file.read_text(encoding="utf-8")) is not None
    return False


@pytest.mark.slow
def test_code_of_pages_imports_what_exists() -> None:
    """Names that blocks of Python import from this project or ask `audit` for."""
    names, missing = 0, []
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("[!e]*/*.md")):  # evidence runs its own
        for code in re.findall(r"^ *```python\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            imported = re.findall(r"^ *from ((?:audit|attacks|reports)[\w.]*) import ([\w, ]+)", code, re.MULTILINE)
            wanted = [(module, name.split()[0]) for module, listed in imported for name in listed.split(",")]
            for module, name in (*wanted, *(("audit", name) for name in re.findall(r"\baudit\.(\w+)\(", code))):
                names += 1
                if not hasattr(importlib.import_module(module), name) and not _is_present(f"{module}.{name}"):
                    missing.append((page.name, module, name))
    assert names > 40
    assert missing == []


@pytest.mark.slow
def test_the_design_page_names_what_exists() -> None:
    """Paths, dotted names and `module.name` in backticks; any other name is somewhere in the code."""
    page = (DOCS / "develop" / "design.md").read_text(encoding="utf-8")
    banned = set(re.findall(r"No (`utils`.*?)\.", page)[0].replace("`", "").split(", "))  # names that the page forbids
    files = _files()
    sources = [path for path in files if path.suffix == ".py" and path != Path(__file__)]
    words = {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    words |= {part for path in files for part in path.relative_to(ROOT).with_suffix("").parts} | banned
    missing = []
    for name in sorted(set(re.findall(r"`([^`\n]+)`", page))):
        if re.fullmatch(r"[\w.-]+(/[\w.-]+)+", name):
            missing += [] if (ROOT / name).exists() else [name]
        elif re.fullmatch(r"(audit|attacks|reports)(\.\w+)+", name):
            missing += [] if _is_present(name) else [name]
        else:
            missing += [name] if set(re.findall(r"[A-Za-z_]\w*", name)) - words else []
    assert not missing


def test_the_design_names_every_command() -> None:
    section = (DOCS / "develop" / "design.md").read_text(encoding="utf-8").split("## 7. The command")[1].split("\n## ")[0]
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert set(re.findall(r"audit ([a-z]+)", section)) & known == known
