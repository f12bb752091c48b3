"""The outbox on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

import pytest

from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import SpoolError
from support.spools import ids, report_body, spooled


def test_reports_wait_in_the_order_in_which_they_were_put_there(tmp_path: Path) -> None:
    added = spooled(Spool(tmp_path), 12)

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
    first, second = spooled(spool, 2)
    spool.remove(first)

    assert ids(spool.pending()) == [second.report_id]


def test_removing_twice_does_no_harm(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    spool.remove(report)
    spool.remove(report)

    assert not list(spool.pending())


def test_new_reports_go_behind_the_waiting_ones_after_some_were_delivered(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    first, second = spooled(spool, 2)
    spool.remove(first)
    (third,) = spooled(spool)

    assert ids(spool.pending()) == [second.report_id, third.report_id]


def test_beyond_its_number_the_oldest_go_and_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path, max_reports=3)
    added = spooled(spool, 5)

    assert ids(spool.pending()) == ids(added[2:])
    assert "dropped" in caplog.text
    assert {record.levelname for record in caplog.records} == {"ERROR"}


def test_beyond_its_bytes_the_oldest_go(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_bytes=2500)
    added = spooled(spool, 4, padding=1000)

    assert ids(spool.pending()) == ids(added[2:])


def test_a_dead_letter_keeps_the_report_and_the_reason(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    spool.move_to_dead_letters(report, "rejected: points[3].ms: must be above 0")
    letters = {path.suffix: path for path in spool.dead_letters.iterdir()}

    assert not list(spool.pending())
    assert letters[".json"].read_bytes() == report.body
    assert letters[".txt"].read_text() == "rejected: points[3].ms: must be above 0\n"


def test_dead_letters_do_not_pile_up_without_end(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_set_aside=2)
    reports = spooled(spool, 5)
    for report in reports:
        spool.move_to_dead_letters(report, "conflict")

    kept = sorted(json.loads(path.read_bytes())["report_id"] for path in spool.dead_letters.glob("*.json"))

    assert kept == sorted(ids(reports[3:]))
    assert len(list(spool.dead_letters.glob("*.txt"))) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 4096, b'{"report_id": "', b"[]", b"{}", b'{"report_id": 7}', b'{"report_id": "x"}', b'{"a": NaN}'],
)
def test_a_broken_file_goes_to_quarantine_and_blocks_nobody(tmp_path: Path, content: bytes) -> None:
    spool = Spool(tmp_path)
    first, second, third = spooled(spool, 3)
    assert second.path is not None
    second.path.write_bytes(content)

    assert ids(spool.pending()) == [first.report_id, third.report_id]
    assert [path.name for path in spool.quarantine.iterdir()] == [f"000000000001-{second.path.name}"]


def test_a_report_with_a_bare_nan_would_spoil_its_call_and_goes_to_quarantine(tmp_path: Path) -> None:
    spool, report_id = Spool(tmp_path), str(uuid4())
    spool.add(report_id, b'{"report_id": "%s", "value": NaN}' % report_id.encode())

    assert not list(spool.pending())


def test_links_pipes_and_strangers_are_never_followed_or_waited_for(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
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


def test_a_half_written_file_of_a_crash_is_not_taken_for_a_report(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    (spool.folder / ".000000000002-x.json.77.tmp").write_bytes(b'{"report_id"')

    assert ids(spool.pending()) == [report.report_id]


def test_reports_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    (report,) = spooled(Spool(tmp_path))

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

    (tmp_path / "spool").mkdir()
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    spooled(Spool(tmp_path))

    assert events == ["sync", "rename", "sync"]


def test_a_refused_report_that_lives_in_memory_becomes_a_dead_letter_all_the_same(tmp_path: Path) -> None:
    spool, report_id = Spool(tmp_path), str(uuid4())
    spool.move_to_dead_letters(Outgoing(report_id, report_body(report_id)), "conflict")
    spool.remove(Outgoing(report_id, report_body(report_id)))

    assert [path.name for path in spool.dead_letters.glob("*.json")] == [f"000000000001-{report_id}.json"]


def test_files_of_one_name_do_not_take_each_others_place_in_quarantine(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for content in (b"one", b"two"):
        (tmp_path / "spool").mkdir(exist_ok=True)
        (spool.folder / "strange.json").write_bytes(content)
        assert not list(spool.pending())

    assert [path.read_bytes() for path in sorted(spool.quarantine.iterdir())] == [b"one", b"two"]


def test_the_newest_dead_letters_stay_also_after_the_spool_began_anew(tmp_path: Path) -> None:
    spool = Spool(tmp_path, max_set_aside=2)
    for report in spooled(spool, 3):
        spool.move_to_dead_letters(report, "conflict")
    (latest,) = spooled(spool)
    spool.move_to_dead_letters(latest, "conflict")

    assert latest.report_id in {
        json.loads(path.read_bytes())["report_id"] for path in spool.dead_letters.glob("*.json")
    }


def test_a_report_that_is_refused_again_after_a_kill_has_one_dead_letter(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (report,) = spooled(spool)
    spool.move_to_dead_letters(report, "conflict")
    assert report.path is not None
    report.path.write_bytes(report.body)  # as if we had been killed before it was removed
    spool.move_to_dead_letters(report, "conflict")

    assert len(list(spool.dead_letters.glob("*.json"))) == 1
    assert not list(spool.pending())


def test_a_number_of_our_own_is_not_taken_from_a_strangers_name(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spool.folder.mkdir()
    stranger = str(uuid4())
    (spool.folder / f"20261129235959-{stranger}.json").write_bytes(report_body(stranger))
    (report,) = spooled(spool)

    assert report.path is not None
    assert report.path.name.startswith("000000000001-")


def test_a_report_that_another_process_delivers_meanwhile_is_not_missed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    first, second, third = spooled(spool, 3)
    waiting = spool.pending()
    seen = [next(waiting).report_id]
    Spool(tmp_path).remove(second)
    seen += ids(waiting)

    assert seen == [first.report_id, third.report_id]
    assert not caplog.records


def test_what_a_killed_process_left_half_written_is_removed(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (waiting,) = spooled(spool)
    old, fresh = (spool.folder / f".000000000009-{name}.json.{name}.tmp" for name in ("1", "2"))
    for path in (old, fresh):
        path.write_bytes(b'{"report_id":')
    os.utime(old, (1, 1))

    assert spool.count() == 1
    assert ids(spool.pending()) == [waiting.report_id]
    assert not old.exists()
    assert fresh.exists(), "another process may be writing it"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(PermissionError(13, "Permission denied"), "chown"), (OSError(28, "No space left"), "free some space")],
)
def test_a_spool_that_cannot_be_used_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, remedy: str
) -> None:
    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(os, "scandir", refuse)

    with pytest.raises(SpoolError, match=remedy):
        list(Spool(tmp_path).pending())
