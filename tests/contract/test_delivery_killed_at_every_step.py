"""An agent that is killed at any step of delivery: afterwards each report is on the server exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import support
from support.databases import Databases
from support.server_process import server_process
from support.soak import stored_ids

PATIENCE_S = 600

# The steps that delivery cannot do without; what else there is follows from the code.
STEPS = {
    *("os.mkdir", "os.scandir", "open", "fdopen", "fsync", "os.rename", "os.remove"),
    *("fcntl.flock", "socket.connect", "send", "recv", "close"),
}

# How an answer is cut into pieces varies from call to call, so that a piece may not come again.
VARYING = {"send", "recv"}

SENT, DEAD_LETTERED, KILLED = 0, 5, -9


def deaths(scenario: str, address: str, folder: Path) -> list[dict[str, Any]]:
    """What became of one agent after the other, each killed one step later."""
    command = [sys.executable, "-m", "support.killed_agent", scenario, address, str(folder)]
    done = subprocess.run(
        command,
        cwd=Path(support.__file__).parent.parent,  # from where Python finds it
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def said(death: dict[str, Any], word: str) -> list[str]:
    return [what for key, what in death["said"] if key == word]


def files(death: dict[str, Any], folder: str) -> list[Path]:
    return sorted((Path(death["state_dir"]) / folder).glob("*.json"))


@pytest.fixture
def served(databases: Databases) -> Iterator[tuple[str, str]]:
    """A database, and the address of a server on it."""
    url = databases.create(migrated=True)
    with server_process(url) as server:
        yield url, server.address()
    databases.drop(url)


@pytest.mark.parametrize("scenario", ["run", "flush"])
def test_an_agent_killed_at_any_step_loses_nothing_and_sends_nothing_twice(
    served: tuple[str, str], tmp_path: Path, scenario: str
) -> None:
    url, address = served
    agents = deaths(scenario, address, tmp_path)
    stored = stored_ids(url)
    certain = {report_id for agent in agents for report_id in (agent["waiting"], *said(agent, "on disk"))}
    made = {report_id for agent in agents for report_id in (agent["waiting"], *said(agent, "made"))}
    alive, *dead = agents

    assert set(said(alive, "step")) >= STEPS
    assert len(dead) == len(said(alive, "step"))
    assert {agent["kill_at"][0] for agent in dead if agent["code"] != KILLED} <= VARYING
    assert len(stored) == len(set(stored)), "none is there twice"
    assert certain <= set(stored) <= made
    for agent in agents:
        assert agent["flushed"] in {SENT, DEAD_LETTERED}
        assert not files(agent, "spool")
        assert len(files(agent, "dead-letter")) == 1, "the refused one, once, and never lost"
        assert len(files(agent, "quarantine")) == 1, "the broken one, likewise"
