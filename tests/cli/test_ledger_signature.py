"""A ledger's history signed by an SSH key: whatever happens to an entry that was signed is noticed, by the public key alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from audit.accounting import ledger_database
from audit.accounting.ledger import Ledger, Release
from audit.cli.app import answer
from audit.core.adjacency import Adjacency
from audit.core.events import ApproximateDp

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signatures need ssh-keygen of OpenSSH")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys `own` and `other`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("own", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder


def written(file: Path, names: str) -> Path:
    """A ledger with a release of each name."""
    releases = (Release(name=name, event=ApproximateDp(epsilon=0.1, delta=0.0), spent=0.1, source="s") for name in names)
    empty = Ledger(budget_epsilon=9.0, delta=1e-5, adjacency=Adjacency.ADD_REMOVE, releases=tuple(releases))
    ledger_database.create(file, empty)
    return file


@pytest.fixture
def book(tmp_path: Path, keys: Path) -> Path:
    """A signed ledger of the releases a and b."""
    file = written(tmp_path / "book.ledger", "ab")
    assert answer(["ledger", "sign", str(file), "--key", str(keys / "own")]) == 0
    return file


def verify(file: Path, key: Path, *more: str) -> int:
    return answer(["ledger", "verify", str(file), "--key", str(key), *more])


def test_a_signed_history_may_grow(book: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(book, keys / "own.pub") == 0
    assert "the first 3 are signed by this key, 0 were added since" in capsys.readouterr().out.splitlines()
    assert answer(["ledger", "record", str(book), "c", "--event", "ApproximateDp(0.1, 0.0)"]) == 0
    capsys.readouterr()
    assert verify(book, keys / "own.pub", "--json") == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["entries"], row["signed_entries"], row["signature_problem"]) == (4, 3, "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("names", ["aB", "a", "ba", ""])
def test_a_history_that_was_written_anew_is_refused(
    tmp_path: Path, keys: Path, book: Path, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of these ledgers is in order by its own hashes."""
    forged = written(tmp_path / "forged.ledger", names)
    assert verify(forged, keys / "own.pub", "--signature", f"{book}.sig") == 1
    assert "changed or removed" in capsys.readouterr().out


def test_another_key_and_another_statement_are_refused(
    tmp_path: Path, keys: Path, book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(book, keys / "other.pub") == 1 and "not signed by this key" in capsys.readouterr().out
    signed = Path(f"{book}.sig")
    forged = written(tmp_path / "forged.ledger", "aB")
    seal = ledger_database.read(forged).seal
    _, end, remainder = signed.read_bytes().partition(b"\n")
    signed.write_bytes(f"ledger of 3 entries, seal {seal}".encode() + end + remainder)
    assert ledger_database.check(ledger_database.read(forged), signed, keys / "own.pub").problem.startswith("not signed")


def test_what_is_no_signature_is_said(book: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signed = Path(f"{book}.sig")
    for content in (b"", b"ledger of 3 entries\n", signed.read_bytes().partition(b"\n")[2], b"\xff\xfe\n"):
        signed.write_bytes(content)
        assert verify(book, keys / "own.pub") == 2
        assert "not a signature of a ledger" in capsys.readouterr().err
    signed.unlink()
    assert verify(book, keys / "own.pub") == 2 and "audit ledger sign" in capsys.readouterr().err
    assert answer(["ledger", "verify", str(book), "--signature", str(signed)]) == 2
    assert "--key" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["book.ledger", "link", "own", "own.pub", "letter"])
def test_a_signature_replaces_no_other_file(
    tmp_path: Path, keys: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither the ledger, by any of its names, nor the key, nor what a user wrote."""
    file = written(tmp_path / "book.ledger", "ab")
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "letter").write_text("a letter")
    for name in ("own", "own.pub"):
        shutil.copy(keys / name, tmp_path / name)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    options = ["--key", str(tmp_path / "own"), "--out", str(tmp_path / target)]
    assert answer(["ledger", "sign", str(file), *options]) == 2
    assert target in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_signature_is_renewed_and_follows_no_link(tmp_path: Path, keys: Path, book: Path) -> None:
    peer = tmp_path / "letter"
    peer.write_text("a letter")
    Path(f"{book}.sig.tmp").symlink_to(peer)
    assert answer(["ledger", "sign", str(book), "--key", str(keys / "own")]) == 0
    assert peer.read_text() == "a letter" and verify(book, keys / "own.pub") == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", ["9" * 5000, "03", "\u0663", "0", "-3"])
def test_a_number_of_entries_that_signing_never_writes_is_refused(
    book: Path, keys: Path, count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    signed = Path(f"{book}.sig")
    signed.write_bytes(signed.read_bytes().replace(b"of 3 ", f"of {count} ".encode(), 1))
    assert verify(book, keys / "own.pub") == 2
    assert "not a signature of a ledger" in capsys.readouterr().err


def test_a_pipe_is_refused_before_it_is_read(
    tmp_path: Path, keys: Path, book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert verify(book, pipe) == 2 and "pipe" in capsys.readouterr().err
    assert verify(book, keys / "own.pub", "--signature", str(pipe)) == 2 and "pipe" in capsys.readouterr().err
    assert answer(["ledger", "sign", str(book), "--key", str(keys / "own"), "--out", str(pipe)]) == 2
