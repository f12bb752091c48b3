"""
The same fleet logged in MLflow, for a ratio: one run per report, its 120 metrics, through the REST API.

MLflow runs from an environment of its own, as its documentation says to start a server, with as many workers as it
takes by itself; what its security layer, telemetry and job queue cost is left out where a switch allows it. Clients
are processes as many as post to fleetridge, with bodies made before.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from processes import cpu_s
from server_calls import calls_in

_START_S = 300
_END_S = 30
_TIMEOUT_S = 120
_POLL_S = 0.5
_API = "/api/2.0/mlflow"
_RUN_ID = "0" * 32

# Far more than it takes.
_MOST_RUNS_PER_S = 60

_SWITCHES = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


@dataclass(frozen=True)
class Logged:
    """
    What MLflow took.

    Attributes:
        runs_per_s: that were finished.
        cpu_ms_per_run: processor time of its server's processes.
    """

    version: str
    runs_per_s: float
    cpu_ms_per_run: float


def logged(environment: Path, store: str, calls: Sequence[Path], seconds: float) -> Logged:
    """
    Log reports in an MLflow server that is started for it.

    Args:
        environment: folder of a Python environment that has MLflow, and the driver of the database.
        store: URL of an empty database, as SQLAlchemy takes it.
        calls: files of calls as fleetridge takes them; one client for each.
        seconds: of logging.
    """
    with tempfile.TemporaryDirectory() as folder, _running(environment, store, Path(folder)) as (address, pid):
        experiment = _asked(address, "experiments/create", {"name": "fleet"})["experiment_id"]
        command = [sys.executable, __file__, address, experiment, str(seconds)]
        before_s = cpu_s(pid)
        clients = [
            subprocess.Popen([*command, str(own)], stdout=subprocess.PIPE, text=True)  # noqa: S603 # this file
            for own in calls
        ]
        told = [json.loads(client.communicate()[0]) for client in clients]
        spent_s = cpu_s(pid) - before_s
    runs = sum(own["taken"] for own in told)
    return Logged(
        version=_version(environment),
        runs_per_s=runs / max(own["seconds"] for own in told),
        cpu_ms_per_run=spent_s / max(1, runs) * 1e3,
    )


def main() -> None:
    """Log the reports of one client's calls, and print how many runs were finished."""
    parser = argparse.ArgumentParser(description="One client of bench/server.py --mlflow.")
    parser.add_argument("address")
    parser.add_argument("experiment")
    parser.add_argument("seconds", type=float)
    parser.add_argument("calls", type=Path)
    options = parser.parse_args()
    runs = _runs(options.calls, options.experiment, int(_MOST_RUNS_PER_S * options.seconds) + 1)
    connection = http.client.HTTPConnection(urlsplit(options.address).netloc, timeout=_TIMEOUT_S)
    taken, started = 0, time.monotonic()
    for create, log, finish in runs:
        if time.monotonic() - started >= options.seconds:
            break
        run_id = json.loads(_posted(connection, "runs/create", create))["run"]["info"]["run_id"].encode()
        _posted(connection, "runs/log-batch", log.replace(_RUN_ID.encode(), run_id))
        _posted(connection, "runs/update", finish.replace(_RUN_ID.encode(), run_id))
        taken += 1
    print(json.dumps({"taken": taken, "seconds": time.monotonic() - started}))
    connection.close()


@contextmanager
def _running(environment: Path, store: str, folder: Path) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [str(environment / "bin" / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", store, "--default-artifact-root", str(folder), "--no-serve-artifacts"]
    address = f"http://127.0.0.1:{port}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(  # noqa: S603 # what the caller names
            command, stdout=log, stderr=log, env={**os.environ, **_SWITCHES}, start_new_session=True
        )
        try:
            _wait(address, server, folder / "log")
            yield address, server.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)  # its own group: workers would stay otherwise
            server.wait(_END_S)


def _wait(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=_TIMEOUT_S):  # noqa: S310 # our own
            return
        time.sleep(_POLL_S)
    raise SystemExit(f"MLflow did not start: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _runs(calls: Path, experiment: str, most: int) -> list[tuple[bytes, bytes, bytes]]:
    """Bodies that create, fill and finish a run, for each report of some calls."""
    runs: list[tuple[bytes, bytes, bytes]] = []
    for call in calls_in(calls):
        for report in json.loads(gzip.decompress(call))["reports"]:
            runs.append(_run(report, experiment))
            if len(runs) >= most:
                return runs
    return runs


def _run(report: Mapping[str, Any], experiment: str) -> tuple[bytes, bytes, bytes]:
    now_ms = int(time.time() * 1e3)
    node, gpu = report["node"], report["gpu"]
    tags = {"node": node["name"], "cluster": node["cluster"], "gpu": gpu["uuid"], "device": gpu["device"]}
    metrics = [
        {"key": f"{position:02}.{name}", "value": point[name], "timestamp": now_ms, "step": 0}
        for position, point in enumerate(report["points"])
        for name in ("ms", "spread")
    ]
    return (
        _body(experiment_id=experiment, start_time=now_ms, run_name=report["report_id"], tags=_pairs(tags)),
        _body(run_id=_RUN_ID, metrics=metrics, params=_pairs(report["environment"])),
        _body(run_id=_RUN_ID, status="FINISHED", end_time=now_ms),
    )


def _pairs(values: Mapping[str, Any]) -> list[dict[str, str]]:
    return [{"key": key, "value": str(value)} for key, value in values.items() if value is not None]


def _body(**fields: Any) -> bytes:  # noqa: ANN401 # JSON
    return json.dumps(fields).encode()


def _posted(connection: http.client.HTTPConnection, path: str, body: bytes) -> bytes:
    connection.request("POST", f"{_API}/{path}", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != http.client.OK:
        raise SystemExit(f"MLflow does not take the bench's runs: {text[:500]!r}")
    return text


def _asked(address: str, path: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_TIMEOUT_S)
    answer: dict[str, Any] = json.loads(_posted(connection, path, _body(**fields)))
    connection.close()
    return answer


def _version(environment: Path) -> str:
    command = [str(environment / "bin" / "python"), "-c", "import importlib.metadata as m; print(m.version('mlflow'))"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603 # see above


if __name__ == "__main__":
    main()
