"""`fleetridge-agent daemon`, as a process that an init system starts and ends."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fleetridge_agent import cli
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.lock import daemon_lock, node_lock
from support.daemon_process import daemon_process

NOW = ("--every", "24h", "--jitter", "0s", "--node", "n1")
LATER = ("--every", "24h", "--jitter", "23h", "--node", "n1")

# Nothing is sent there in the tests that name it; port 9 (RFC 863) has no service on machines of today.
NOBODY = "http://127.0.0.1:9"

PATIENCE_S = 60


class NoFleetridge(BaseHTTPRequestHandler):
    """Something else lives at this address, so that reports stay where they are and nobody tries twice."""

    def do_POST(self) -> None:
        """Take nothing."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    """Address of a server that takes no reports."""
    with ThreadingHTTPServer(("127.0.0.1", 0), NoFleetridge) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """A server that takes calls and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(PATIENCE_S)
        yield server


def until(is_so: Callable[[], object]) -> None:
    """Wait for something that comes soon, or never."""
    patience = PATIENCE_S * 100
    while not is_so() and patience > 0:
        time.sleep(0.01)
        patience -= 1


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_signal_ends_a_daemon_that_waits_for_its_round(tmp_path: Path) -> None:
    with daemon_process(tmp_path, *LATER, trouble="none", server=NOBODY) as daemon:
        daemon.says("the next round begins in")
        code = daemon.end()

    assert code == ExitCode.DONE
    assert not daemon.reports


def test_a_signal_ends_a_daemon_that_measures_and_what_was_measured_is_kept(tmp_path: Path, stranger: str) -> None:
    with daemon_process(tmp_path, *NOW, trouble="slow", server=stranger) as daemon:
        until(lambda: daemon.marks("slow"))
        code = daemon.end()
        (worker,) = daemon.marks("measuring")

    (report,) = daemon.reports
    assert code == ExitCode.DONE
    assert (report["outcome"], report["run"]["kind"]) == ("measured", "daemon")
    assert "given up: ended by SIGTERM" in report["detail"]
    assert daemon.marks("released") == [worker]
    assert not is_alive(worker)


def test_a_signal_ends_a_daemon_whose_server_never_answers_and_the_report_is_kept(
    tmp_path: Path, silent_server: socket.socket
) -> None:
    address = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
    with daemon_process(tmp_path, *NOW, trouble="none", server=address) as daemon:
        call, _ = silent_server.accept()
        with call:
            assert call.recv(1) == b"P"
            code = daemon.end()

    (report,) = daemon.reports
    assert code == ExitCode.DONE
    assert report["outcome"] == "measured"


def test_a_daemon_that_is_killed_leaves_nobody_behind_who_measures_on(tmp_path: Path, stranger: str) -> None:
    with daemon_process(tmp_path, *NOW, trouble="slow", server=stranger) as daemon:
        until(lambda: daemon.marks("slow"))
        (a_round,) = daemon.children
        (worker,) = daemon.marks("measuring")
        daemon.process.kill()
        until(lambda: not is_alive(worker) and not is_alive(a_round))

    (report,) = daemon.reports
    assert "given up: ended by SIGTERM" in report["detail"]


def test_between_rounds_a_daemon_has_no_child_and_has_never_imported_what_rounds_need(
    tmp_path: Path, stranger: str
) -> None:
    """Neither torch nor the driver's library: what a round holds ends with its process."""
    with daemon_process(tmp_path, *NOW, trouble="none", server=stranger) as daemon:
        daemon.says("gpus measured: 1")
        daemon.says("the next round begins in")
        children = daemon.children
        daemon.end()
        assert daemon.process.stdout is not None
        printed = daemon.process.stdout.read()

    assert not children
    assert printed == "imported: []\n"


def test_a_restart_between_rounds_measures_nothing(tmp_path: Path, stranger: str) -> None:
    with daemon_process(tmp_path, *NOW, trouble="none", server=stranger) as daemon:
        daemon.says("gpus measured: 1")
        daemon.end()
    with daemon_process(tmp_path, *NOW, trouble="none", server=stranger) as daemon:
        (said,) = daemon.says("the next round begins in")
        daemon.end()

    assert said["message"] == "the next round begins in 24.0 h"
    assert len(daemon.reports) == 1


def test_what_libraries_print_in_a_round_breaks_no_line_of_the_log(tmp_path: Path, stranger: str) -> None:
    with daemon_process(tmp_path, *NOW, trouble="chatty", server=stranger) as daemon:
        said = daemon.says("gpus measured: 1")
        daemon.end()

    assert all({"time", "level", "message"} <= entry.keys() for entry in said)


def test_a_run_under_way_is_waited_for_and_reported(tmp_path: Path, stranger: str) -> None:
    """The heavy check and the timer beside it never measure at once."""
    with (
        node_lock(tmp_path / "state", "n1"),
        daemon_process(tmp_path, *NOW, trouble="none", server=stranger) as daemon,
    ):
        said = daemon.says("not measured yet: this node (already_running); trying again in 1.0 h")
        daemon.end()

    (report,) = daemon.reports
    assert (report["outcome"], report["reason"]) == ("skipped", "already_running")
    assert not daemon.marks("opened")
    assert said


def test_a_daemon_that_has_lost_its_gpus_reports_it_and_ends_so_that_its_pod_is_started_anew(
    tmp_path: Path, stranger: str
) -> None:
    """As after a reload of the node's services, which takes the devices away from containers that run."""
    with daemon_process(tmp_path, *NOW, trouble="none", server=stranger, gpus="nvml_unknown_error") as daemon:
        said = daemon.says("and ends, so that it is started anew")
        code = daemon.process.wait(PATIENCE_S)

    (report,) = daemon.reports
    assert code == ExitCode.NO_DEVICE
    assert (report["outcome"], report["reason"], report["points"]) == ("failed", "nvml_unknown_error", [])
    assert said[-1]["level"] == "error"


def test_a_node_has_one_daemon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with daemon_lock(tmp_path, "n1"):
        code = cli.main(("daemon", *NOW, "--server", NOBODY, "--state-dir", str(tmp_path)))

    assert code == ExitCode.SKIPPED
    assert "another fleetridge-agent holds the place of the daemon on node n1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--server", "ftp://x"), "--server: "),
        ((), "--server is needed"),
        (("--server", NOBODY, "--every", "10s"), "--every: 10s is too short for a round"),
        (("--server", NOBODY, "--jitter", "soon"), "--jitter: 'soon' is no length of time"),
        (("--server", NOBODY, "--device", "cpu", "--gpus", "0"), "--gpus chooses among gpus"),
        (("--server", NOBODY, "--model", "nobody/knows"), "--model"),
        (("--server", NOBODY, "--label", "rack"), "--label: "),
        (("--server", NOBODY, "--limit", "soon"), "--limit: 'soon' is no length of time"),
        (("--server", NOBODY, "--ca-file", "/no/such/file"), "certificates cannot be read"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said_before_the_first_night(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], complaint: str
) -> None:
    code = cli.main(("daemon", *options, "--state-dir", str(tmp_path)))

    assert code == ExitCode.USAGE
    assert f"error: {complaint}" in capsys.readouterr().err
