"""What was found in libraries of differential privacy: each reproduction run again, in an environment that this command makes.

    python benchmarks/findings.py                               # what has no answer yet, one library after the other
    python benchmarks/findings.py --libraries diffprivlib dpmm --fresh
    python benchmarks/findings.py --libraries diffprivlib --release 0.6.5 0.6.4   # others: what was mended
    python benchmarks/findings.py --write                       # docs/evidence/findings.md and the rows beside it
    python benchmarks/findings.py --reports FOLDER              # a draft to each maintainer, and a witness of each finding

A library is a page in docs/evidence/findings (or in a folder of yours: --pages), named by library and version. Under its
title: `Install:` (what pip is given), perhaps `Alone:` (what is installed without its requirements), `Earlier:` (what other
releases need besides) and `Python:`, and `Promise:`. A section `## N. title` is a finding: a table of what asked, class and
source (file and a fragment of it), `Mend:`, a block of Python and what it prints. A page also counts the line of a fragment in
the installed file, so that a finding is read in the source and not believed for its output alone. Sections under
`## What holds` begin with `### `, name their `Instrument:` and are run the same way; an answer is kept until what is run, or
the source, changes.

readings.csv lists the findings with a source that was read a second time; if class or source change, it is to be read again.
published.csv lists the violations that others published, each with the findings that are the same, or why there is none.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import json
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "evidence" / "findings"
ANSWERS = PAGES / "answers.json"
INSTRUMENTS = ("replay", "step", "mechanism", "accountant", "auditor")
CLASSES = ("violated promise", "promise unclear", "crash on legal input", "weakness outside of the promise")
FACTS = re.compile(
    r"^\| asked by \| class \| source \|\n\|-.*\n\| (.+?) \| (.+?) \| `([^`]+)`, `+ ?(.+?) ?`+ \|\n", re.MULTILINE
)
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
SECONDS = 600  # for all reproductions of a library, on a machine that does other things
CPU_SECONDS = 60  # of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A finding of a page, or something that holds (`number` 0)."""

    number: int
    title: str
    instrument: str
    kind: str
    file: str
    fragment: str
    text: str
    mend: str
    blocks: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The page of a library, read."""

    library: str
    version: str
    install: tuple[str, ...]
    alone: tuple[str, ...]
    earlier: tuple[str, ...]
    python: str
    promise: str
    preamble: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    digest: str


def read_page(path: Path) -> Page:
    """Return a page of findings.

    Raises:
        ValueError: a section lacks its instrument, class or source, or one that is not known.
    """
    text = path.read_text(encoding="utf-8")
    library, _, version = path.stem.rpartition("-")
    head, *parts = re.split(r"^(?=###? )", text, flags=re.MULTILINE)
    sections = [_read_section(path.name, part) for part in parts if re.match(r"## \d|### ", part)]
    fields = ("Install", "Alone", "Python", "Earlier")
    install, alone, python, earlier = (_optional(head, name, path.name).strip("`") for name in fields)
    asked = [(item.number, item.title, item.instrument, item.file, item.fragment, item.blocks) for item in sections]
    run = json.dumps([install, alone, python, BLOCK.findall(head), asked, *([earlier] if earlier else [])])
    return Page(
        library=library,
        version=version,
        install=tuple(install.split()),
        alone=tuple(alone.split()),
        earlier=tuple(earlier.split()),
        python=python,
        promise=_field(head, "Promise", path.name),
        preamble=tuple(BLOCK.findall(head)),
        sections=tuple(sections),
        digest=hashlib.sha256(run.encode()).hexdigest()[:16],
    )


def _field(text: str, name: str, where: str) -> str:
    found = re.search(rf"^{name}: (.+?)(?=\n\n|\n[A-Z][a-z]+: |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"{where}: no line '{name}: ...' in '{text.splitlines()[0] if text else ''}'")
    return " ".join(found[1].split())


def _optional(text: str, name: str, where: str) -> str:
    return _field(text, name, where) if f"\n{name}: " in text else ""


def _read_section(where: str, text: str) -> Section:
    title = text.splitlines()[0].lstrip("# ")
    number = int(title.split(".")[0]) if text.startswith("## ") else 0
    facts = FACTS.search(text)
    if number and facts is None:
        raise ValueError(f"{where}: '{title}' needs a table with a row of what asked it, a class, and a source `file`, `text`")
    instrument, kind, file, fragment = (
        facts.groups() if number and facts else (_field(text, "Instrument", where), "holds", "", "")
    )
    if instrument not in INSTRUMENTS or (number and kind not in CLASSES):
        raise ValueError(f"{where}: '{title}' needs an instrument of {INSTRUMENTS} and a class of {CLASSES}")
    return Section(
        number=number,
        title=title.partition(". ")[2] if number else title,
        instrument=instrument,
        kind=kind,
        file=file,
        fragment=fragment,
        text=text,
        mend=_optional(text, "Mend", where),
        blocks=tuple(BLOCK.findall(text)),
    )


def run_sections(page: Page) -> list[dict[str, Any]]:
    """Run each section in this interpreter; return one row each: "shown", or what came instead, and the line of its source."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            return _run_sections(page)
        finally:
            logging.disable(logging.NOTSET)


def _run_sections(page: Page) -> list[dict[str, Any]]:
    names: dict[str, Any] = {}
    for code, _ in page.preamble:
        exec(compile(code, page.library, "exec"), names)
    rows = []
    for section in page.sections:
        state = "shown" if section.number else "holds"
        for code, expected in section.blocks:
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, section.title, "exec"), names)
            except Exception as error:  # noqa: BLE001 (another release may raise anything: the row says what)
                state = f"raised {type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
                break
            if printed.getvalue() != expected:
                state = f"prints {printed.getvalue().strip()[:120]!r}"
        line = 0
        if section.file:
            package = importlib.util.find_spec(section.file.split("/")[0].removesuffix(".py"))
            places = package and (package.submodule_search_locations or [package.origin or ""])
            folders = [Path(place).parent for place in places or []]
            files = [folder / section.file for folder in folders if (folder / section.file).is_file()]
            lines = files[0].read_text(encoding="utf-8").splitlines() if files else []
            line = next((place for place, text in enumerate(lines, 1) if section.fragment in text), 0)
        rows.append({"number": section.number, "title": section.title, "state": state, "line": line})
    return rows


def make_environment(page: Page, folder: Path, release: str | None) -> Path:
    """Return the interpreter of the library's own environment; it is made if it is not there, or was made of other packages.

    Raises:
        FileNotFoundError: the page needs another Python, which is not on the path.
    """
    place = folder / f"{page.library}-{release or page.version}"
    python = place / "bin" / "python"
    install = [
        f"{page.library}=={release}" if release and part.startswith(f"{page.library}==") else part for part in page.install
    ]
    install += page.earlier if release else ()
    ready, packages = place / "ready", " ".join([*install, *page.alone])
    if not ready.exists() or ready.read_text(encoding="utf-8") != packages:
        maker = shutil.which(f"python{page.python}") if page.python else sys.executable
        if maker is None:
            raise FileNotFoundError(f"{page.library} needs python{page.python}, which is not on the path")
        subprocess.run([maker, "-m", "venv", "--clear", str(place)], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *install], check=True)
        if page.alone:
            subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *page.alone], check=True)
        ready.write_text(packages, encoding="utf-8")
    return python


def ask(path: Path, folder: Path | None, release: str | None) -> dict[str, Any]:
    """Run a page in its environment (in this one if there is no folder) and return the answer that is kept."""
    page = read_page(path)
    python = Path(sys.executable) if folder is None else make_environment(page, folder, release)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as place:  # some libraries write files into the folder that they run in
        run = subprocess.run(
            [python.absolute(), Path(__file__).resolve(), "--page", path.resolve()],
            env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            cwd=place,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1)),
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if run.returncode:
        message = run.stderr.strip().splitlines()
        raise subprocess.SubprocessError(message[-1] if message else f"it ended with {run.returncode} after {spent:.0f} CPU s")
    rows = json.loads(run.stdout.splitlines()[-1])
    return {"page": page.digest, "seconds": round(spent, 1), "rows": rows}


def main() -> None:
    """Ask what has no answer yet, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", default=[], help="these alone")
    parser.add_argument("--release", nargs="+", help="other releases of the libraries than their pages are about")
    parser.add_argument("--pages", type=Path, default=PAGES, help="a folder of other pages; their answers stand beside them")
    parser.add_argument("--fresh", action="store_true", help="ask again what has an answer")
    parser.add_argument("--here", action="store_true", help="in this environment, without making one")
    parser.add_argument("--environments", type=Path, default=Path.home() / ".cache" / "epsilon-audit" / "findings")
    parser.add_argument("--write", action="store_true", help="write the table and the rows of all pages; nothing is run")
    parser.add_argument("--reports", type=Path, help="write drafts to maintainers and witnesses here; nothing is run")
    parser.add_argument("--page", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.page:
        print(json.dumps(run_sections(read_page(options.page))))
        return
    paths = sorted(options.pages.glob("*-*.md"))
    chosen = [path for path in paths if not options.libraries or path.stem.rpartition("-")[0] in options.libraries]
    if unknown := set(options.libraries) - {path.stem.rpartition("-")[0] for path in chosen}:
        sys.exit(f"no page of {', '.join(sorted(unknown))}; there are {', '.join(path.stem for path in paths)}")
    if options.write or options.reports:
        import findings_tables

        answers = _read_answers(options.pages / "answers.json")
        if options.write:
            findings_tables.write_tables([read_page(path) for path in paths], answers, options.pages)
        if options.reports:
            records = findings_tables.read_records(options.pages)
            findings_tables.write_reports([read_page(path) for path in chosen], answers, records, options.reports)
        return
    for path in chosen:
        for release in options.release or [None]:
            ask_again(path, release, None if options.here else options.environments, options.fresh)


def ask_again(path: Path, release: str | None, folder: Path | None, is_fresh: bool) -> None:
    """Ask a page about a release if it has no answer yet, or anyway; keep the answer, and print what came otherwise."""
    name = f"{path.stem.rpartition('-')[0]}@{release}" if release else path.stem
    kept = path.with_name("answers.json")
    if not is_fresh and _read_answers(kept).get(name, {}).get("page") == read_page(path).digest:
        return
    try:
        answer = ask(path, folder, release)
    except (FileNotFoundError, subprocess.SubprocessError) as error:
        print(f"{name}: not run: {error}", flush=True)
        return
    # read again: another run may have kept its own answers meanwhile
    kept.write_text(json.dumps(_read_answers(kept) | {name: answer}, indent=1) + "\n", encoding="utf-8")
    bad = [f"{row['number']} {row['state']}" for row in answer["rows"] if row["state"] not in ("shown", "holds")]
    print(f"{name}: {len(answer['rows']) - len(bad)} of {len(answer['rows'])} again", *bad, sep="\n  ", flush=True)


def _read_answers(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


if __name__ == "__main__":
    main()
