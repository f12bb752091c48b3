"""The outbox on a disk that is full, broken, read-only or somebody else's."""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import SpoolError
from support.spools import ids, report_body, spooled

Step = Callable[..., Any]


class FailingSteps:
    """Lets one of the steps that change a disk fail, counted from 1."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
        self.count = 0
        self._number = number
        self._code = code
        for owner, name in ((Path, "mkdir"), (os, "open"), (os, "fdopen"), (os, "fsync"), (Path, "replace")):
            monkeypatch.setattr(owner, name, self._watched(getattr(owner, name)))

    def _watched(self, step: Step) -> Step:
        def watched(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self._number:
                raise OSError(self._code, os.strerror(self._code))
            return step(*arguments, **options)

        return watched


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
def test_whatever_step_fails_a_report_is_either_whole_on_disk_or_said_not_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for number in range(1, 100):
        waiting = ids(spooled(Spool(tmp_path / str(number)), 2))
        spool = Spool(tmp_path / str(number), max_reports=2)
        with monkeypatch.context() as patched:
            steps = FailingSteps(patched, number, code)
            added = ids(spooled_or_said(spool))

        assert ids(spool.pending()) == ([waiting[1], *added] if added else waiting)
        assert all(path.suffix == ".json" for path in spool.folder.iterdir())
        if steps.count < number:
            break

    assert added, "a disk without a fault takes the report"
    assert number > 6, "mkdir, open, fdopen, fsync, rename, open, fsync"


def spooled_or_said(spool: Spool) -> list[Outgoing]:
    """One more report, or none where that is said with a remedy."""
    try:
        return spooled(spool)
    except SpoolError as error:
        if "--state-dir" not in str(error):
            raise
        return []


def test_a_disk_that_fills_up_within_a_report_leaves_no_half_of_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (waiting,) = spooled(spool)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        with pytest.raises(SpoolError, match="--state-dir"):
            spooled(spool, padding=100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert [path.name for path in spool.folder.iterdir()] == [f"000000000001-{waiting.report_id}.json"]


def test_a_full_disk_drops_nothing_to_make_room_for_what_it_cannot_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, max_reports=2)
    waiting = spooled(spool, 2)
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(SpoolError):
        spooled(spool)

    assert ids(spool.pending()) == ids(waiting)


def test_a_report_whose_name_may_not_outlive_a_power_cut_waits_all_the_same_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    spool.folder.mkdir()
    fsync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)

    assert ids(spooled(spool)) == ids(spool.pending())
    assert "power cut" in caplog.text


def test_a_new_state_directory_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    spooled(Spool(tmp_path / "a" / "b"))

    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "spool"} <= set(synced)


def test_a_spool_that_cannot_be_trimmed_still_takes_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path, max_reports=1)
    waiting = spooled(spool)
    monkeypatch.setattr(Path, "unlink", _denied)
    fresh = spooled(spool)

    assert ids(spool.pending()) == ids([*waiting, *fresh])
    assert "cannot be dropped" in caplog.text


def test_dead_letters_that_cannot_be_trimmed_are_no_reason_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path, max_set_aside=1)
    reports = spooled(spool, 2)
    spool.move_to_dead_letters(reports[0], "conflict")
    monkeypatch.setattr(Path, "unlink", _denied)
    spool.move_to_dead_letters(reports[1], "conflict")

    assert len(list(spool.dead_letters.glob("*.json"))) == 2


def test_a_state_directory_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    with pytest.raises(SpoolError, match="--state-dir"):
        spooled(Spool(tmp_path / "state"))


def test_a_file_system_that_cannot_sync_folders_is_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    spool = Spool(tmp_path)

    assert ids(spooled(spool)) == ids(spool.pending())


def test_a_folder_that_cannot_be_listed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    spooled(spool)
    monkeypatch.setattr(os, "scandir", _denied)

    with pytest.raises(SpoolError, match="Permission denied"):
        list(spool.pending())
    assert spool.count() == 0


def test_a_delivered_report_that_cannot_be_removed_is_sent_again_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    monkeypatch.setattr(Path, "unlink", _denied)
    spool.remove(report)

    assert ids(spool.pending()) == [report.report_id]
    assert "sent again" in caplog.text


def test_a_refused_report_stays_where_it_is_when_dead_letters_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    spool.dead_letters.write_text("in the way")
    spool.move_to_dead_letters(report, "conflict")

    assert ids(spool.pending()) == [report.report_id]
    assert "stays in the spool" in caplog.text


def test_a_refused_report_in_memory_that_cannot_become_a_dead_letter_is_said_to_be_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    spool.dead_letters.write_text("in the way")
    spool.move_to_dead_letters(Outgoing("an-id", report_body("an-id")), "conflict")

    assert "an-id is lost" in caplog.text


def test_a_broken_file_that_cannot_be_moved_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    first, second = spooled(spool, 2)
    assert first.path is not None
    first.path.write_bytes(b"broken")
    monkeypatch.setattr(Path, "replace", _denied)

    assert ids(spool.pending()) == [second.report_id]
    assert "cannot be moved away either" in caplog.text


def test_a_file_that_cannot_be_read_may_be_whole_and_stays_and_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    first, second = spooled(spool, 2)
    read_bytes = Path.read_bytes

    def fails_for_first(path: Path) -> bytes:
        if path == first.path:
            raise OSError(errno.ESTALE, "Stale file handle")
        return read_bytes(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", fails_for_first)

        assert ids(spool.pending()) == [second.report_id]
    assert ids(spool.pending()) == ids([first, second])
    assert "Stale file handle" in caplog.text


def _denied(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _full(_: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
