"""The demo as a newcomer meets it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "deploy" / "demo.py"


def command(folder: Path) -> list[str]:
    return [sys.executable, str(DEMO), "--once", "--folder", str(folder)]


def run_demo(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder), check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def server_of(demo: subprocess.Popen[str]) -> int:
    """Process id of a demo's server."""
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
    (server,) = (child for child in children if b"fleetridge-server" in Path(f"/proc/{child}/cmdline").read_bytes())
    return int(server)


def somebody_listens(line: str) -> bool:
    """Whether a server takes connections at the address that a line of the demo names."""
    found = re.search(r"http://([\d.]+):(\d+)", line)
    assert found is not None, line
    with socket.socket() as probe:
        return probe.connect_ex((found[1], int(found[2]))) == 0


def test_the_demo_measures_this_machine_and_ends_with_the_server_s_answer(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    before, _, answer = done.stdout.partition("/ridge\n")
    assert "$ curl -H 'Accept: text/plain' http://127.0.0.1:" in before
    assert re.search(r"^verdicts as of .*: 1 [a-z]", answer, re.MULTILINE), answer
    assert re.search(r"^float32 +1 +[\d.]+ ", answer, re.MULTILINE), answer
    assert "not judged yet" not in answer
    assert not somebody_listens(done.stdout)


def test_demos_that_start_together_each_ask_their_own_server(tmp_path: Path) -> None:
    demos = [
        subprocess.Popen(command(tmp_path / name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for name in ("one", "other")
    ]
    said = [demo.communicate()[0] for demo in demos]
    assert [demo.returncode for demo in demos] == [0, 0], said
    assert len({re.findall(r"Server running at (\S+)", text)[0] for text in said}) == 2, said


def test_a_server_that_ends_by_itself_is_said_with_the_end_of_its_log(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        os.kill(server_of(demo), signal.SIGKILL)
        said = demo.stdout.read()
    assert demo.returncode == 1, said
    assert f"the server ended by itself with code -9; the end of {tmp_path}" in said


def test_ctrl_c_ends_the_demo_and_its_server(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        started = demo.stdout.readline()
        assert somebody_listens(started)
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 0, rest
    assert not somebody_listens(started)


def test_a_second_demo_in_the_same_folder_leaves_the_first_alone(tmp_path: Path) -> None:
    with subprocess.Popen(command(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        started = demo.stdout.readline()
        second = run_demo(tmp_path)
        assert somebody_listens(started)
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
    assert second.returncode == 1
    assert "stop that one" in second.stderr


def test_a_server_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "fleet.db").mkdir()
    done = run_demo(tmp_path)
    assert done.returncode == 1
    assert f"the server did not start; the end of {tmp_path}" in done.stderr
    assert "cannot use the database" in done.stderr
