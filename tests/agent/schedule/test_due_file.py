"""What a daemon keeps on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetridge_agent.schedule.due import Timestamp, due_file_of

DUE = Timestamp(1.8e9, 5e6, "boot-1")


def test_what_was_kept_is_found_by_the_next_daemon(tmp_path: Path) -> None:
    due_file_of(tmp_path, "n1").keep(DUE)

    assert due_file_of(tmp_path, "n1").due() == DUE


def test_nodes_that_share_a_home_directory_have_ledgers_of_their_own(tmp_path: Path) -> None:
    due_file_of(tmp_path, "n1").keep(DUE)

    assert due_file_of(tmp_path, "n2").due() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"wall_s":"soon"}', b"\xff\x00", b'{"wall_s":1}'])
def test_a_broken_ledger_is_as_good_as_none(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    due_file = due_file_of(tmp_path, "n1")
    due_file.keep(DUE)
    due_file.path.write_bytes(content)

    assert due_file.due() is None
    assert "going on as at a first start" in caplog.text


def test_a_disk_that_cannot_be_written_ends_no_daemon(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rounds").write_text("")
    due_file = due_file_of(tmp_path, "n1")
    due_file.keep(DUE)

    assert due_file.due() is None
    assert "measures earlier than due" in caplog.text
