"""The program as a whole: streams, logs and homes that are not as one would wish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetridge_agent import cli
from fleetridge_agent.errors import ExitCode

PROGRAM = f"{sys.executable} -m fleetridge_agent.cli"


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&- >&- 2>&-"])
def test_a_check_whose_streams_are_closed_accuses_nobody(tmp_path: Path, closed: str) -> None:
    command = f"{PROGRAM} check --max-age 1h --state-dir {tmp_path} {closed}"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(("option", "variable"), [(("--log-format=json",), ""), ((), "json")])
def test_a_command_line_that_cannot_be_read_is_answered_in_the_format_of_the_log(
    option: tuple[str, ...], variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLEETRIDGE_LOG_FORMAT", variable)

    assert cli.main(["run", *option, "--bogus"]) == ExitCode.USAGE
    assert "--bogus" in json.loads(capsys.readouterr().err)["message"]


def test_a_user_without_a_home_is_asked_for_a_state_directory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("FLEETRIDGE_STATE_DIR", raising=False)

    assert cli.main(["flush", "--server", "http://127.0.0.1:9"]) == ExitCode.USAGE
    assert "--state-dir" in capsys.readouterr().err
    assert cli.main(["flush", "--server", "http://127.0.0.1:9", "--state-dir", str(tmp_path)]) == ExitCode.DONE


def test_a_path_in_the_home_of_nobody_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["flush", "--state-dir", "~no-such-user-here/x"]) == ExitCode.USAGE
    assert "--state-dir: ~no-such-user-here/x" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "--csv", "~nobody-here/points.csv"),
        ("sweep", "--json", "~nobody-here/report.json"),
        ("flush", "--state-dir", "~nobody-here/state"),
        ("check", "--baseline", "~nobody-here/baseline.json"),
    ],
)
def test_a_path_in_the_home_of_nobody_is_refused_before_anything_is_done(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(command) == ExitCode.USAGE
    assert "home directory of nobody here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "left_out"),
    [
        (("--help",), {"pydantic"}),
        (("sweep", "--help"), {"pydantic"}),
        (("check", "--max-age", "24h"), set()),
    ],
)
def test_what_answers_from_itself_or_a_file_loads_nothing_that_measures_or_sends(
    arguments: tuple[str, ...], left_out: set[str], tmp_path: Path
) -> None:
    """A health check starts the program on every node, every minute."""
    program = f"""
import sys
from fleetridge_agent import cli
try:
    cli.main({arguments!r})
except SystemExit:
    pass
print(*sys.modules, file=sys.stderr)
"""
    environ = {**os.environ, "FLEETRIDGE_STATE_DIR": str(tmp_path), "FLEETRIDGE_NODE": "n01"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environ, check=True, capture_output=True, text=True, timeout=120
    )

    loaded = set(done.stderr.splitlines()[-1].split())
    assert "fleetridge_agent.cli" in loaded
    assert (
        loaded & {"httpx", "torch", "pynvml", "fleetridge.report", "fleetridge_agent.sweep.device_sweep", *left_out}
        == set()
    )
