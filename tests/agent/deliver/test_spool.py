"""The outbox on disk."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import SpoolError
from fleetridge_agent.log import LOGGER


@pytest.fixture(autouse=True)
def _logs_propagate() -> Iterator[None]:
    logger = logging.getLogger(LOGGER)
    before = logger.propagate
    logger.propagate = True
    yield
    logger.propagate = before


def body(report_id: str, *, padding: int = 0) -> bytes:
    return json.dumps({"report_id": report_id, "padding": "x" * padding}).encode()


def add(spool: Spool, count: int = 1, *, padding: int = 0) -> list[Outgoing]:
    ids = [str(uuid4()) for _ in range(count)]
    return [spool.add(report_id, body(report_id, padding=padding)) for report_id in ids]


def ids(reports: Iterator[Outgoing] | list[Outgoing]) -> list[str]:
    return [report.report_id for report in reports]


def test_reports_wait_in_the_order_in_which_they_were_put_there(tmp_path: Path) -> None:
    added = add(Spool(tmp_path), 12)

    assert ids(Spool(tmp_path).pending()) == ids(added)


def test_a_report_comes_back_as_the_same_bytes(tmp_path: Path) -> None:
    report_id = str(uuid4())
    content = b'{"report_id" : "%s",  "b":1, "a": 1.50}' % report_id.encode()
    Spool(tmp_path).add(report_id, content)

    assert [report.body for report in Spool(tmp_path).pending()] == [content]


def test_an_empty_or_absent_state_directory_holds_nothing(tmp_path: Path) -> None:
    assert not list(Spool(tmp_path / "absent").pending())


def test_a_delivered_report_is_gone(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first, second = add(spool, 2)
    spool.remove(first)

    assert ids(spool.pending()) == [second.report_id]


def test_removing_twice_does_no_harm(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    spool.remove(report)
    spool.remove(report)

    assert not list(spool.pending())


def test_new_reports_go_behind_the_waiting_ones_after_some_were_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first, second = add(spool, 2)
    spool.remove(first)
    (third,) = add(spool)

    assert ids(spool.pending()) == [second.report_id, third.report_id]


def test_beyond_its_number_the_oldest_go_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path, max_reports=3)
    added = add(spool, 5)

    assert ids(spool.pending()) == ids(added[2:])
    assert "dropped" in caplog.text
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_beyond_its_bytes_the_oldest_go(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=2500)
    added = add(spool, 4, padding=1000)

    assert ids(spool.pending()) == ids(added[2:])


def test_a_dead_letter_keeps_the_report_and_the_reason(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    spool.bury(report, "rejected: points[3].ms: must be above 0")
    letters = {path.suffix: path for path in spool.dead_letters.iterdir()}

    assert not list(spool.pending())
    assert letters[".json"].read_bytes() == report.body
    assert letters[".txt"].read_text() == "rejected: points[3].ms: must be above 0\n"


def test_dead_letters_do_not_pile_up_without_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_set_aside=2)
    reports = add(spool, 5)
    for report in reports:
        spool.bury(report, "conflict")

    kept = sorted(json.loads(path.read_bytes())["report_id"] for path in spool.dead_letters.glob("*.json"))

    assert kept == sorted(ids(reports[3:]))
    assert len(list(spool.dead_letters.glob("*.txt"))) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b'{"report_id": "', b"[]", b"{}", b'{"report_id": 7}', b'{"report_id": "x"}', b'{"a": NaN}'],
)
def test_a_broken_file_goes_to_quarantine_and_blocks_nobody(tmp_path: Path, content: bytes) -> None:
    spool = Spool(tmp_path)
    first, second, third = add(spool, 3)
    assert second.path is not None
    second.path.write_bytes(content)

    assert ids(spool.pending()) == [first.report_id, third.report_id]
    assert [path.name for path in spool.quarantine.iterdir()] == [second.path.name]


def test_a_report_with_a_bare_nan_would_spoil_its_call_and_goes_to_quarantine(tmp_path: Path) -> None:
    spool, report_id = Spool(tmp_path), str(uuid4())
    spool.add(report_id, b'{"report_id": "%s", "value": NaN}' % report_id.encode())

    assert not list(spool.pending())


def test_an_unreadable_file_goes_to_quarantine_and_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path)
    first, second = add(spool, 2)
    read_bytes = Path.read_bytes

    def fails_for_first(path: Path) -> bytes:
        if path == first.path:
            raise OSError(errno.EIO, "Input/output error")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", fails_for_first)

    assert ids(spool.pending()) == [second.report_id]
    assert first.path is not None
    assert [path.name for path in spool.quarantine.iterdir()] == [first.path.name]


def test_links_pipes_and_strangers_are_never_followed_or_waited_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    os.mkfifo(spool.folder / "000000000000-pipe.json")
    (spool.folder / "000000000000-link.json").symlink_to("/etc/passwd")
    (spool.folder / "000000000000-folder.json").mkdir()
    (spool.folder / "note.txt").write_text("not ours")

    assert ids(spool.pending()) == [report.report_id]


def test_a_file_far_larger_than_a_report_is_not_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.folder.mkdir()
    with (spool.folder / "000000000001-huge.json").open("wb") as file:
        file.truncate(40 * 1024**2)

    assert not list(spool.pending())


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    spool = Spool(tmp_path)
    with pytest.raises(SpoolError, match=r"No space left on device.*--state-dir"):
        add(spool)

    assert not list(spool.folder.iterdir())


def test_a_state_directory_that_is_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    with pytest.raises(SpoolError, match="--state-dir"):
        add(Spool(tmp_path / "state"))


def test_a_half_written_file_of_a_crash_is_not_taken_for_a_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    (spool.folder / ".000000000002-x.json.77.tmp").write_bytes(b'{"report_id"')

    assert ids(spool.pending()) == [report.report_id]


def test_reports_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    (report,) = add(Spool(tmp_path))

    assert report.path is not None
    assert report.path.stat().st_mode & 0o077 == 0


def test_a_report_is_on_the_disk_before_its_name_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        events.append("sync")
        fsync(descriptor)

    def noted_replace(path: Path, target: Path) -> Path:
        events.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    add(Spool(tmp_path))

    assert events == ["sync", "rename", "sync"]


def test_a_file_system_that_cannot_sync_folders_is_good_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", files_only)
    spool = Spool(tmp_path)

    assert ids(add(spool)) == ids(spool.pending())


def test_a_folder_that_cannot_be_listed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path)
    add(spool)
    monkeypatch.setattr(Path, "iterdir", _denied)

    with pytest.raises(SpoolError, match="Permission denied"):
        list(spool.pending())
    assert spool.count() == 0


def test_a_delivered_report_that_cannot_be_removed_is_sent_again_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    monkeypatch.setattr(Path, "unlink", _denied)
    spool.remove(report)

    assert ids(spool.pending()) == [report.report_id]
    assert "sent again" in caplog.text


def test_a_refused_report_stays_where_it_is_when_dead_letters_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    (report,) = add(spool)
    spool.dead_letters.write_text("in the way")
    spool.bury(report, "conflict")

    assert ids(spool.pending()) == [report.report_id]
    assert "stays where it is" in caplog.text


def test_a_refused_report_that_lives_in_memory_becomes_a_dead_letter_all_the_same(tmp_path: Path) -> None:
    spool, report_id = Spool(tmp_path), str(uuid4())
    spool.bury(Outgoing(report_id, body(report_id)), "conflict")
    spool.remove(Outgoing(report_id, body(report_id)))

    assert [path.name for path in spool.dead_letters.glob("*.json")] == [f"{report_id}.json"]


def test_a_broken_file_that_cannot_be_moved_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    first, second = add(spool, 2)
    assert first.path is not None
    first.path.write_bytes(b"broken")
    monkeypatch.setattr(Path, "replace", _denied)

    assert ids(spool.pending()) == [second.report_id]
    assert "cannot be moved away either" in caplog.text


def test_a_report_that_another_process_delivers_meanwhile_is_not_missed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first, second, third = add(spool, 3)
    waiting = spool.pending()
    seen = [next(waiting).report_id]
    Spool(tmp_path).remove(second)
    seen += ids(waiting)

    assert seen == [first.report_id, third.report_id]


def _denied(*_: object, **__: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (waiting,) = add(spool)
    old, fresh = (spool.folder / f".000000000009-{name}.json.{name}.tmp" for name in ("1", "2"))
    for path in (old, fresh):
        path.write_bytes(b'{"report_id":')
    os.utime(old, (1, 1))

    assert spool.count() == 1
    assert ids(spool.pending()) == [waiting.report_id]
    assert not old.exists()
    assert fresh.exists(), "another process may be writing it"
