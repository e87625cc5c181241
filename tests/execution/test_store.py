"""A run folder is whole or visibly unfinished, and nothing finished is computed twice."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from pathlib import Path

import numpy as np
import pytest

from audit.core.errors import ConfigError, OutputError
from audit.core.version import __version__
from audit.execution import manifest
from audit.execution.manifest import find_unfinished
from audit.execution.run_folder import SUMS, verify_folder
from audit.execution.store import Store, write_outputs


def test_arrays_come_back_bit_for_bit(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    value = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([True, False]), "n": np.asarray(7)}
    store.put("key", value)
    again = store.get("key")
    assert set(again) == set(value)
    for name, array in value.items():
        assert again[name].dtype == array.dtype
        assert again[name].shape == array.shape
        np.testing.assert_array_equal(again[name], array)


def test_only_what_is_wanted_is_read_and_each_array_is_checked(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    store.put("key", {"weights/a": np.ones(1000), "logits": np.arange(3.0)})
    path = store.folder / "models" / "key.safetensors"
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(np.ones(1).tobytes())] ^= 1
    path.write_bytes(raw)
    assert list(store.get("key", "logits".__eq__)) == ["logits"]
    with pytest.raises(OutputError, match=r"'weights/a'.*damaged.*--resume"):
        store.get("key")
    assert not store.intact("key")
    assert not store.intact("another")


def test_scratch_arrays_have_their_room_where_the_system_cannot_reserve_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    array = Store.start(tmp_path / "run", "c").scratch("signal", (300, 1000), np.float64)
    path = tmp_path / "run.partial" / "scratch" / "signal.npy"
    assert path.stat().st_blocks * 512 >= array.nbytes and not array.any()
    assert np.load(path).shape == (300, 1000)


def test_scratch_arrays_that_a_disk_cannot_take_leave_it_their_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = Store.start(tmp_path / "run", "c")
    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    with pytest.raises(OutputError, match="No space left on device; free some space"):
        store.scratch("signal", (300, 1000), np.float64)
    assert not list((store.folder / "scratch").iterdir())


def test_scratch_arrays_of_a_run_that_was_killed_go_when_it_is_resumed(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    store.scratch("signal", (3, 2), np.float32)
    store.close()
    assert not (Store.start(tmp_path / "run", "c", resume=True).folder / "scratch").exists()


def test_scratch_arrays_lie_on_disk_and_go_with_the_run(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    array = store.scratch("signal", (3, 2), np.float32)
    array[:] = 7
    assert (np.load(store.folder / "scratch" / "signal.npy") == 7).all()
    final = store.finish()
    assert not (final / "scratch").exists()
    assert verify_folder(final) == []


@pytest.mark.parametrize("damage", [lambda raw: raw[: len(raw) // 2], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])])
def test_a_damaged_value_is_computed_again(tmp_path: Path, damage: object) -> None:
    store = Store.start(tmp_path / "run", "c")
    store.put("key", {"a": np.ones(9)})
    path = store.folder / "models" / "key.safetensors"
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert not store.intact("key")
    store.put("key", {"a": np.full(9, 2.0)})
    assert (store.get("key")["a"] == 2).all()


def test_a_value_has_the_same_bytes_whenever_it_is_stored(tmp_path: Path) -> None:
    contents = set()
    for number in range(20):
        store = Store.start(tmp_path / f"run{number}", "c")
        store.put("key", {"a": np.ones(3), "b": np.zeros(2)})
        contents.add((store.folder / "models" / "key.safetensors").read_bytes())
    assert len(contents) == 1


def test_values_that_changed_places_are_computed_again(tmp_path: Path) -> None:
    """Each is whole by its checksums, but it is not the value that its name says."""
    store, peer = Store.start(tmp_path / "run", "c"), Store.start(tmp_path / "other", "d")
    store.put("first", {"a": np.ones(3)})
    peer.put("second", {"a": np.full(3, 2.0)})
    (store.folder / "models" / "first.safetensors").write_bytes((peer.folder / "models" / "second.safetensors").read_bytes())
    with pytest.raises(OutputError, match="holds another value than its name says"):
        store.get("first")
    with pytest.raises(OutputError, match="holds another value than its name says"):
        store.names("first")
    assert not store.intact("first")
    store.put("first", {"a": np.ones(3)})
    assert (store.get("first")["a"] == 1).all()


def test_a_folder_has_its_name_only_when_finished(tmp_path: Path) -> None:
    final = tmp_path / "run"
    store = Store.start(final, "c")
    store.write("report.json", b"{}")
    assert not final.exists()
    assert store.finish() == final
    assert not list(tmp_path.glob("*.partial"))
    assert verify_folder(final) == []


def test_verification_names_what_changed(tmp_path: Path) -> None:
    folder = write_outputs(tmp_path / "run", {"report.json": b"{}", "figures/a.svg": b"<svg/>"})
    (folder / "report.json").write_bytes(b"{ }")
    (folder / "figures/a.svg").unlink()
    (folder / "more.txt").write_text("x")
    assert verify_folder(folder) == [
        "figures/a.svg: missing",
        "report.json: changed",
        f"more.txt: not part of the run (not in {SUMS}); keep files of your own elsewhere",
    ]
    assert "not a finished run" in verify_folder(tmp_path)[0]


def test_resume_needs_the_same_config(tmp_path: Path) -> None:
    first = Store.start(tmp_path / "run", "config-a")
    first._lock.close()
    with pytest.raises(ConfigError, match="--resume"):
        Store.start(tmp_path / "run", "config-a")
    with pytest.raises(ConfigError, match="another config"):
        Store.start(tmp_path / "run", "config-b", resume=True)
    assert Store.start(tmp_path / "run", "config-a", resume=True).created == first.created


def test_two_audits_cannot_share_a_folder(tmp_path: Path) -> None:
    holder = Store.start(tmp_path / "run", "c")
    with pytest.raises(ConfigError, match="in use"):
        Store.start(tmp_path / "run", "c", resume=True)
    holder.finish()
    with pytest.raises(ConfigError, match="exists already"):
        Store.start(tmp_path / "run", "c")


def test_unfinished_runs_are_found_by_config(tmp_path: Path) -> None:
    Store.start(tmp_path / "20260101T000000Z-tiny", "a")
    Store.start(tmp_path / "20260102T000000Z-tiny", "b")
    assert find_unfinished(tmp_path, "a") == tmp_path / "20260101T000000Z-tiny"
    assert find_unfinished(tmp_path, "z") is None


def test_unfinished_runs_of_another_version_are_named_where_a_config_has_none(tmp_path: Path) -> None:
    """Another version writes the same config down in other words, so the hash alone would find nothing and say nothing."""
    Store.start(tmp_path / "20260101T000000Z-tiny", "words of before").close()
    started = tmp_path / "20260101T000000Z-tiny.partial" / "started.json"
    started.write_text(json.dumps({**json.loads(started.read_text()), "version": "0.0.9"}))
    with pytest.raises(
        ConfigError, match=rf"this version \({__version__}\).*20260101.*by version 0.0.9.*trains all models again"
    ):
        find_unfinished(tmp_path, "words of now")


def test_jobs_of_nobody_knows_which_version_are_said_to_be_trained_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store.start(tmp_path / "run", "a")
    store.put("job", {"x": np.ones(2)})
    store.close()
    (tmp_path / "run.partial" / "started.json").unlink()
    with caplog.at_level(logging.WARNING, logger="audit"):
        Store.start(tmp_path / "run", "a", resume=True)
    assert (
        f"1 finished jobs and nothing that says which version wrote them; those of this version ({__version__})" in caplog.text
    )


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b"{}", b'{"created": 3, "config_sha256": "a"}', b"\xff\xfe"])
def test_a_damaged_start_is_refused_and_says_how_to_go_on(tmp_path: Path, damage: bytes) -> None:
    first = Store.start(tmp_path / "run", "a")
    first.close()
    started = tmp_path / "run.partial" / "started.json"
    started.write_bytes(damage)
    with pytest.raises(ConfigError, match=r"is damaged.*remove.*--resume"):
        Store.start(tmp_path / "run", "a", resume=True)
    with pytest.raises(ConfigError, match="is damaged"):
        find_unfinished(tmp_path, "a")
    Store.start(tmp_path / "20260101T000000Z-whole", "a")
    assert find_unfinished(tmp_path, "a") == tmp_path / "20260101T000000Z-whole"
    started.unlink()
    Store.start(tmp_path / "run", "a", resume=True)


def test_a_run_goes_on_with_the_code_it_was_started_with_alone(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "a")
    manifest.bind_code(store.folder, {"audit": "1", "mine": "2"})
    manifest.bind_code(store.folder, {"audit": "1", "mine": "2"})
    with pytest.raises(ConfigError, match=r"the source of mine has changed since .*start a new run"):
        manifest.bind_code(store.folder, {"audit": "1", "mine": "3"})
    with pytest.raises(ConfigError, match="the source of mine, other has changed"):
        manifest.bind_code(store.folder, {"audit": "1", "other": "2"})
    manifest.bind_code(store.folder, {"audit": "1", "mine": "2"})


@pytest.mark.parametrize("version", [None, "0.0.9", 3])
def test_a_run_of_another_version_is_refused(tmp_path: Path, version: object) -> None:
    Store.start(tmp_path / "run", "a").close()
    started = tmp_path / "run.partial" / "started.json"
    manifest = json.loads(started.read_text())
    assert manifest.pop("version") == __version__
    started.write_text(json.dumps(manifest if version is None else {**manifest, "version": version}))
    name = "a version before 0.1.0" if version is None else f"version {version}"
    with pytest.raises(ConfigError, match=rf"started by {name}.*this is {__version__}.*choose another --output"):
        Store.start(tmp_path / "run", "a", resume=True)


def test_an_unwritable_place_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="choose another --output"):
        Store.start(tmp_path / "file" / "run", "c")


def test_too_little_space_is_said_before_work(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    with pytest.raises(OutputError, match="MiB free"):
        store.ensure_space(2**60)
    store.ensure_space(0)


def test_a_run_folder_is_its_owners_alone_from_its_first_moment(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.start(tmp_path / "run", "c")
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        store.put("key", {"a": np.ones(2)})
        store.private.put("coins", {"included": np.ones(2)})
        store.write("figures/report.svg", b"x")
        (store.folder / "audit.log").write_text("written by another library")
        final = store.finish()
    finally:
        os.umask(before)
    for path in (final, *final.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_coins_lie_apart_from_what_attacks_are_served_from(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    store.put("key", {"a": np.ones(2)})
    store.private.put("coins", {"included": np.ones(2)})
    assert [path.name for path in (store.folder / "models").iterdir()] == ["key.safetensors"]
    assert not store.intact("coins")
    assert store.private.intact("coins")


def test_the_key_of_the_names_is_secret_stays_over_a_resume_and_may_be_taken_away(tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    key = store.record_key()
    assert len(bytes.fromhex(key.decode())) == 16
    store._lock.close()
    again = Store.start(tmp_path / "run", "c", resume=True)
    assert again.record_key() == key
    assert Store.start(tmp_path / "other", "c").record_key() != key
    again.write("report.json", b"{}")
    final = again.finish()
    assert key.decode() not in (final / SUMS).read_text()
    assert verify_folder(final) == []
    (final / "private" / "record-key").unlink()
    assert verify_folder(final) == []


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to nothing"])
def test_a_stored_key_that_is_no_file_is_told_and_not_waited_for(kind: str, tmp_path: Path) -> None:
    store = Store.start(tmp_path / "run", "c")
    (store.folder / "private").mkdir()
    path = store.folder / "private" / "record-key"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to nothing":
            path.symlink_to(tmp_path / "absent")
    for key in (None, b"ab" * 16):
        with pytest.raises(ConfigError, match=r"cannot read the record key .*continue with --resume"):
            store.record_key(key)


def test_the_lock_is_held_until_the_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.start(tmp_path / "run", "c")
    rename, refused = os.replace, []

    def replace(source: Path, target: Path) -> None:
        if target == store.final:
            with pytest.raises(ConfigError, match="in use"):
                Store.start(tmp_path / "run", "c", resume=True)
            refused.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    final = store.finish()
    assert refused == [final]
    assert {path.name for path in final.iterdir()} == {"models", SUMS}


def test_a_link_into_nowhere_is_in_the_way_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="exists already"):
        Store.start(tmp_path / "run", "c")


def test_a_name_that_no_file_can_have_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write to .*choose another --output"):
        Store.start(tmp_path / ("x" * 300), "c")


def test_no_link_in_an_unfinished_folder_leads_a_file_elsewhere(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Store.start(tmp_path / "run", "c").close()
    for name in ("probe", "probe.tmp", "started.json.tmp", "report.json.tmp"):
        (tmp_path / "run.partial" / name).symlink_to(victim)
    store = Store.start(tmp_path / "run", "c", resume=True)
    manifest.bind_code(store.folder, {"audit": "1"})
    store.write("report.json", b"{}")
    store.close()
    (store.folder / "lock").unlink()
    (store.folder / "lock").symlink_to(victim)
    with pytest.raises(OutputError, match="cannot write"):
        Store.start(tmp_path / "run", "c", resume=True)
    assert victim.read_text() == "precious"
