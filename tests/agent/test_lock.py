"""Locks on nodes and gpus."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetridge_agent.errors import AlreadyRunningError, ExitCode
from fleetridge_agent.lock import gpu_lock, node_lock, spool_lock


def test_a_second_agent_on_a_node_is_told_that_one_is_running(tmp_path: Path) -> None:
    with (
        node_lock(tmp_path, "n1"),
        pytest.raises(AlreadyRunningError, match="node n1") as refusal,
        node_lock(tmp_path, "n1"),
    ):
        pass

    assert refusal.value.exit_code == ExitCode.SKIPPED
    assert refusal.value.reason == "already_running"


def test_a_lock_is_free_once_its_holder_is_done(tmp_path: Path) -> None:
    with node_lock(tmp_path, "n1"):
        pass
    with node_lock(tmp_path, "n1") as is_held:
        assert is_held


def test_nodes_that_share_a_home_directory_do_not_block_each_other(tmp_path: Path) -> None:
    with node_lock(tmp_path, "n1"), node_lock(tmp_path, "n2") as is_held:
        assert is_held


def test_gpus_of_a_node_do_not_block_each_other(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, "GPU-1"), gpu_lock(tmp_path, "GPU-2") as is_held:
        assert is_held
        with pytest.raises(AlreadyRunningError, match="gpu GPU-1"), gpu_lock(tmp_path, "GPU-1"):
            pass


def test_a_name_with_slashes_stays_inside_the_state_directory(tmp_path: Path) -> None:
    with node_lock(tmp_path / "state", "../../n1"):
        assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_state_directory_that_cannot_be_written_is_no_reason_not_to_measure(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")

    with node_lock(tmp_path / "state", "n1") as is_held:
        assert not is_held


def test_a_killed_agent_leaves_no_lock_behind(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from fleetridge_agent.lock import node_lock\n"
        "with node_lock(pathlib.Path(sys.argv[1]), 'n1'):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(AlreadyRunningError), node_lock(tmp_path, "n1"):
            pass
        holder.kill()
        holder.wait()

        with node_lock(tmp_path, "n1") as is_held:
            assert is_held


def test_one_agent_at_a_time_delivers_what_waits_in_a_spool(tmp_path: Path) -> None:
    with (
        spool_lock(tmp_path),
        pytest.raises(AlreadyRunningError, match=r"delivery of .*spool"),
        spool_lock(tmp_path),
    ):
        pass


def test_a_file_system_without_locks_is_no_reason_not_to_measure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)

    with node_lock(tmp_path, "n1") as is_held:
        assert not is_held


def test_nodes_with_long_names_have_locks_of_their_own(tmp_path: Path) -> None:
    with node_lock(tmp_path, "n" * 256) as is_held, node_lock(tmp_path, "n" * 255 + "m") as is_other_held:
        assert is_held
        assert is_other_held
