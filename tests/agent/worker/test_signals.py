"""`fleetridge-agent run` as a process with workers that are processes: how signals end it, and what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from support.scripted_node import SCRIPTED_NODE
from support.small_server import SmallServer, small_server

# What is waited for comes within a second or two; a machine under load must not fail the test.
_PATIENCE_S = 120

Node = Callable[..., AbstractContextManager[subprocess.Popen[str]]]


@pytest.fixture
def server() -> Iterator[SmallServer]:
    """Takes every report."""
    with small_server() as server:
        yield server


@pytest.fixture
def node(server: SmallServer, tmp_path: Path) -> Node:
    """Starts `run` on a node with two gpus whose workers get into some trouble."""
    environ = {**os.environ, "FLEETRIDGE_STATE_DIR": str(tmp_path / "state"), "NODE_NAME": "n1"}
    options = ("run", "--server", server.address, "--profile", "quick", "--square", "512", "--m-sweep", "1")

    @contextmanager
    def started(trouble: str) -> Iterator[subprocess.Popen[str]]:
        troubles = f"{trouble},--mark,{tmp_path}"
        command = [sys.executable, str(SCRIPTED_NODE), "GPU-a,GPU-b", troubles, *options]
        with subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return started


def worker_that_has(what: str, folder: Path) -> int:
    """Process of the worker that leaves a mark, once it is there."""
    return until(lambda: next((int(mark.suffix[1:]) for mark in folder.glob(f"{what}.*")), None))


def until(look: Callable[[], int | None]) -> int:
    latest = time.monotonic() + _PATIENCE_S
    while (seen := look()) is None:
        assert time.monotonic() < latest, "what the test waits for does not come"
        time.sleep(0.02)
    return seen


def is_gone(pid: int) -> int | None:
    """1 once there is no such process, or only what waits for its parent's look."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return 1
    return 1 if state == "Z" else None


def test_the_process_that_keeps_the_run_never_imports_torch(node: Node, server: SmallServer) -> None:
    """It costs seconds and hundreds of MB, and a context of its own would disturb what is measured."""
    with node("*=none") as process:
        _, stderr = process.communicate(timeout=_PATIENCE_S)

    assert process.returncode == 0
    assert "torch imported: False" in stderr
    assert [report["gpu"]["uuid"] for report in server.reports] == ["GPU-a", "GPU-b"]
    assert [report["outcome"] for report in server.reports] == ["measured", "measured"]


def test_a_crash_on_one_gpu_costs_no_other_its_report(node: Node, server: SmallServer) -> None:
    with node("GPU-a=segfault") as process:
        process.communicate(timeout=_PATIENCE_S)

    assert process.returncode == 1
    assert [(report["gpu"]["uuid"], report["outcome"]) for report in server.reports] == [
        ("GPU-a", "failed"),
        ("GPU-b", "measured"),
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_sweep_frees_the_memory_and_delivers_what_was_measured(
    node: Node, server: SmallServer, tmp_path: Path, number: signal.Signals
) -> None:
    with node("GPU-a=slow") as process:
        worker = worker_that_has("slow", tmp_path)
        process.send_signal(number)
        process.communicate(timeout=_PATIENCE_S)

    assert process.returncode == 1
    assert is_gone(worker)
    assert (tmp_path / f"released.{worker}").exists()
    (report,) = server.reports
    assert (report["gpu"]["uuid"], report["outcome"]) == ("GPU-a", "measured")
    assert "given up: ended by" in report["detail"]
    assert report["points"]
    assert len(list(tmp_path.glob("opened.*"))) == 1


def test_a_second_signal_kills_at_once(node: Node, tmp_path: Path) -> None:
    with node("*=hang_deaf") as process:
        worker = worker_that_has("opened", tmp_path)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=_PATIENCE_S)

    assert process.returncode == 1
    assert "interrupted" in stderr
    assert is_gone(worker)


def test_a_worker_that_does_not_heed_the_signal_is_killed_and_reported(
    node: Node, server: SmallServer, tmp_path: Path
) -> None:
    with node("*=hang_deaf") as process:
        worker = worker_that_has("opened", tmp_path)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_PATIENCE_S)

    assert is_gone(worker)
    (report,) = server.reports
    assert (report["gpu"]["uuid"], report["outcome"], report["reason"]) == ("GPU-a", "skipped", "preempted")


@pytest.mark.parametrize("trouble", ["*=hang_deaf", "*=slow"])
def test_a_worker_dies_with_its_parent_however_that_is_killed(node: Node, tmp_path: Path, trouble: str) -> None:
    """Nobody would be left who could end it, and the gpu would be held until somebody reboots the node."""
    with node(trouble) as process:
        worker = worker_that_has("opened", tmp_path)
        process.kill()

        assert until(lambda: is_gone(worker))


def test_a_second_run_on_the_node_ends_as_already_running(node: Node, server: SmallServer, tmp_path: Path) -> None:
    with node("*=hang_deaf"):
        worker_that_has("opened", tmp_path)
        with node("*=none") as second:
            second.communicate(timeout=_PATIENCE_S)

    assert second.returncode == 4
    assert [(report["outcome"], report["reason"]) for report in server.reports] == [("skipped", "already_running")]
