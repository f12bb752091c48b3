"""The two commands as they are installed, over a real socket: measure a CPU, deliver, ask for its ridge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from fleetridge_server import cli as server_cli
from support.databases import SqliteDatabases
from support.patience import patient_get

# What torch needs to start and a small sweep to run, many times over: a machine under load must not fail the test.
PATIENCE_S = 600

# The smallest sweep that still finds both roofs.
TINY = ("--profile", "quick", "--buffer-mib", "4", "--reps", "1", "--warmup", "0")


@contextmanager
def serving(database_url: str) -> Iterator[str]:
    """Address of a server in a process of its own."""
    command = [sys.executable, "-m", "fleetridge_server.cli", "serve", "--port", "0"]
    environ = {**os.environ, "DATABASE_URL": database_url}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().rpartition(" ")[2].strip()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE_S)


def agent(*arguments: str, state_dir: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleetridge_agent.cli", *arguments, "--state-dir", str(state_dir)]
    environ = {**os.environ, "NODE_NAME": "n1"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_a_measured_cpu_has_a_ridge_on_the_server(sqlite_databases: SqliteDatabases, tmp_path: Path) -> None:
    url = sqlite_databases.create(migrated=True)
    with serving(url) as address:
        ended = agent("run", "--device", "cpu", "--server", address, *TINY, state_dir=tmp_path)
        assert server_cli.main(["evaluate", "--database-url", url]) == 0
        (device,) = patient_get(f"{address}/devices").json()["devices"]
        answer = patient_get(f"{address}/devices/{quote(device['name'], safe='')}/ridge").json()

    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (0, "reports delivered: 1")
    (ridge,) = answer["ridges"]
    pi_tflops, beta_gbps = ridge["pi_tflops"]["median"], ridge["beta_gbps"]["median"]

    assert ridge["ridge_flop_per_byte"]["median"] == 1000 * pi_tflops / beta_gbps
    assert [gpu["node"] for gpu in answer["gpus"]] == ["n1"]
    assert not list((tmp_path / "spool").glob("*.json"))
