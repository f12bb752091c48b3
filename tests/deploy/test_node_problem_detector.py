"""The plugin of node-problem-detector, with the real agent."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fleetridge_agent.check.last_verdict import keep_last
from fleetridge_agent.check.verdict import GpuVerdict, State
from support.deployment import DEPLOY

FOLDER = DEPLOY / "node-problem-detector"
SCRIPT = FOLDER / "fleetridge-check.sh"
NODE = "n017"


def configuration() -> Any:
    return json.loads((FOLDER / "fleetridge.json").read_text(encoding="utf-8"))


def run(tmp_path: Path, *, agent: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "fleetridge-agent"
    program.write_text(f"#!/bin/sh\n{agent}\n", encoding="utf-8")
    program.chmod(0o755)
    # A busy machine may take longer than a node should.
    patient = tmp_path / "timeout"
    patient.write_text('#!/bin/sh\nshift 2\nexec "$@"\n', encoding="utf-8")
    patient.chmod(0o755)
    return subprocess.run(
        [SCRIPT, "--max-age", "50h", "--state-dir", str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "NODE_NAME": NODE},
    )


@pytest.mark.parametrize(
    ("state", "age_h", "code"),
    [("ok", 1, 0), ("degraded", 1, 1), ("unknown", 1, 2), ("degraded", 60, 2)],
    ids=["ok", "degraded", "unknown", "stale"],
)
def test_the_exit_code_says_what_the_last_verdict_was(tmp_path: Path, state: State, age_h: int, code: int) -> None:
    judged_at = datetime.now(timezone.utc) - timedelta(hours=age_h)
    keep_last(tmp_path, NODE, [GpuVerdict(uuid="GPU-1", index=0, state=state, judged_at=judged_at)], all_gpus=True)
    done = run(tmp_path, agent=f'exec {sys.executable} -m fleetridge_agent.cli "$@"')
    assert done.returncode == code
    assert done.stdout.count("\n") == 1
    assert len(done.stdout.encode()) <= configuration()["pluginConfig"]["max_output_length"]


def test_an_agent_that_does_not_work_accuses_nobody(tmp_path: Path) -> None:
    """A Python without its modules also ends with 1."""
    done = run(tmp_path, agent=f"exec {sys.executable} -c 'import no_such_module'")
    assert (done.returncode, done.stdout) == (2, "unknown: the check said nothing and ended with 1\n")


@pytest.mark.parametrize(
    "agent",
    [
        "exit 0",
        "echo ok; exit 1",
        "echo degraded: gpu 0; exit 0",
        "echo nonsense; exit 1",
        "head -c 5000 /dev/zero | tr '\\0' x; exit 1",
        "echo; echo degraded; exit 1",
        "kill -9 $$",
        "yes ok",
    ],
)
def test_an_answer_that_fits_no_verdict_accuses_nobody_and_is_one_short_line(tmp_path: Path, agent: str) -> None:
    done = run(tmp_path, agent=agent)
    assert done.returncode == 2
    assert done.stdout.count("\n") == 1
    assert len(done.stdout.encode()) <= configuration()["pluginConfig"]["max_output_length"]


def test_a_rule_has_time_for_what_it_starts_and_speaks_of_a_condition_that_there_is() -> None:
    plugin = configuration()
    [rule] = plugin["rules"]
    assert rule["path"].endswith(f"/{SCRIPT.name}")
    assert rule["condition"] in {condition["type"] for condition in plugin["conditions"]}
    # 15 s, one more to be killed in and two until the script gives up, inside the rule's time, inside the plugin's.
    assert 18 < int(rule["timeout"].removesuffix("s")) <= int(plugin["pluginConfig"]["timeout"].removesuffix("s"))
