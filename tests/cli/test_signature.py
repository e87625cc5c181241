"""A folder signed with an SSH key: the same bytes every time; no changed byte, other key or other signature is taken for it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from audit.cli import report as commands
from audit.cli import verify as verification
from audit.core.errors import ConfigError, DataError, OutputError
from audit.execution import run_folder, signature
from reports.formats.json import to_json
from tests.reports import sample

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="signatures need ssh-keygen of OpenSSH")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys `own`, `other`, `locked`."""
    folder = tmp_path_factory.mktemp("keys")
    for name, phrase in (("own", ""), ("other", ""), ("locked", "a long phrase")):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", phrase, "-C", "", "-f", str(folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    return folder


@pytest.fixture
def folder(tmp_path: Path, keys: Path) -> Path:
    """A signed folder with the JSON of a report."""
    (tmp_path / "report.json").write_bytes(to_json(sample.scores()))
    assert commands.report(tmp_path, formats=["json", "junit"], key=keys / "own") == 0
    return tmp_path


def test_a_signed_folder_is_verified_and_signed_again_the_same(folder: Path, keys: Path) -> None:
    first = (folder / run_folder.SIGNATURE).read_bytes()
    assert first.startswith(b"-----BEGIN SSH SIGNATURE-----") and run_folder.verify_folder(folder) == []
    assert verification.verify(folder / "report.json", key=keys / "own.pub") == 0
    assert commands.report(folder, formats=["json", "junit"], key=keys / "own") == 0
    assert (folder / run_folder.SIGNATURE).read_bytes() == first
    assert run_folder.SIGNATURE not in run_folder.read_sums(folder)


@pytest.mark.parametrize("name", ["report.json", "SHA256SUMS", "SHA256SUMS.sig"])
def test_one_changed_byte_is_found(folder: Path, keys: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    content = bytearray((folder / name).read_bytes())
    place = content.rindex(b"o") if name == "report.json" else len(content) // 2
    content[place] = content[place] ^ 1
    (folder / name).write_bytes(content)
    try:
        code = verification.verify(folder / "report.json", key=keys / "own.pub")
    except DataError:
        code = verification.VERIFICATION_FAILURE
    assert code == verification.VERIFICATION_FAILURE


def test_another_key_another_namespace_and_no_signature_are_refused(
    folder: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        verification.verify(folder / "report.json", key=keys / "other.pub", as_json=True) == verification.VERIFICATION_FAILURE
    )
    assert "not by this key" in json.loads(capsys.readouterr().out)["problems"][0]
    sums = folder / run_folder.SUMS
    (folder / run_folder.SIGNATURE).unlink()
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(keys / "own"), "-n", "file", str(sums)], check=True)
    assert "not by this key" in signature.problem(folder, keys / "own.pub")
    (folder / run_folder.SIGNATURE).unlink()
    assert signature.problem(folder, keys / "own.pub") == "SHA256SUMS.sig: missing"


def test_a_file_that_the_signed_checksums_do_not_name_is_refused(folder: Path, keys: Path) -> None:
    (folder / "copy.json").write_bytes((folder / "report.json").read_bytes())
    assert verification.verify(folder / "copy.json", key=keys / "own.pub") == verification.VERIFICATION_FAILURE


def test_a_link_in_the_place_of_the_signature_is_not_followed(folder: Path, keys: Path) -> None:
    elsewhere = folder.parent / f"{folder.name}-elsewhere"
    elsewhere.write_text("of somebody else")
    place = folder / run_folder.SIGNATURE
    first = place.read_bytes()
    place.unlink()
    place.symlink_to(elsewhere)
    signature.sign(folder, keys / "own")
    assert elsewhere.read_text() == "of somebody else"
    assert not place.is_symlink() and place.read_bytes() == first


def test_rendering_again_without_the_key_says_that_the_signature_is_old(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands.report(folder, formats=["json"])
    assert "sign again" in capsys.readouterr().err


def test_keys_that_cannot_sign_or_check_are_named(folder: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="there is no key"):
        signature.sign(folder, keys / "absent")
    with pytest.raises(ConfigError, match="cannot sign with"):
        signature.sign(folder, folder / "report.json")
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(ConfigError, match="cannot sign with"):
        signature.sign(folder, keys / "locked")
    with pytest.raises(DataError, match="is not a public key"):
        signature.problem(folder, keys / "own")
    with pytest.raises(DataError, match="cannot read the public key"):
        signature.problem(folder, keys / "absent.pub")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OutputError, match="ssh-keygen is not installed"):
        signature.sign(folder, keys / "own")
