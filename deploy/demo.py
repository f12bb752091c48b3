"""
The smallest deployment: one server and one agent on one machine, with nothing to set up.

It starts the server on a SQLite file in `.demo`, lets the agent measure the device at hand and post its report, and
prints what the server then answers to the main question. `make demo` runs it; `--once` ends it after the answer.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

HOST = "127.0.0.1"
USUAL_PORT = 8000
START_TIMEOUT_S = 60.0  # migrations on a slow disk included
# A server evaluates five seconds after the last report, in a process that starts with the first evaluation.
JUDGED_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0  # more than the server gives calls that are in hand
LOG_LINES_SHOWN = 20
SKIPPED = 4  # exit code of the agent when somebody uses the GPU


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demo keeps its files and which address its server has."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://{HOST}:{self.port}"


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; 0 when the question was answered, 1 with the reason on standard error when it was not."""
    parser = argparse.ArgumentParser(
        description="Measure this machine and ask a server of your own for its ridge point."
    )
    parser.add_argument(
        "--once", action="store_true", help="end after the answer instead of leaving the server running"
    )
    parser.add_argument("--folder", type=Path, default=Path(".demo"), help="where its files go (default: %(default)s)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end_on_signal)
    try:
        with serve(Place(options.folder.resolve(), free_port())) as (place, server):
            measure(place)
            wait_until_judged(place)
            show(place)
            if not options.once:
                stay(place, server)
    except (DemoError, httpx.HTTPError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nEnded.")
    return 0


def free_port() -> int:
    """The usual port if nobody listens there, else any free one."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    message = f"no free port on {HOST}; end a server that listens there"
    raise DemoError(message)


@contextmanager
def serve(place: Place) -> Iterator[tuple[Place, subprocess.Popen[bytes]]]:
    """Run the server for the time of the block; when it yields, the server takes requests."""
    place.folder.mkdir(parents=True, exist_ok=True)
    log_path = place.folder / f"server-{place.port}.log"
    database = f"sqlite:///{place.folder / 'fleet.db'}"
    command = [program("fleetridge-server"), "serve", "--host", HOST, "--port", str(place.port)]
    with log_path.open("wb") as log:
        server = subprocess.Popen(
            [*command, "--database-url", database, "--migrate"], stdout=log, stderr=log, env=clean_environment(place)
        )
    try:
        wait_until_ready(place, server, log_path)
        print(f"Server running at {place.url} on SQLite ({place.folder / 'fleet.db'}).", flush=True)
        yield place, server
    finally:
        end(server)


def wait_until_ready(place: Place, server: subprocess.Popen[bytes], log_path: Path) -> None:
    """Return once the server says that it takes requests."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        try:
            if get(place, "/readyz").is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    message = f"the server did not start; the end of {log_path}:\n" + "\n".join(lines)
    raise DemoError(message)


def measure(place: Place) -> None:
    """Let the agent measure the GPU, else the CPU, and post what it found."""
    if not torch_sees_a_gpu():
        print(
            "No GPU that torch can use is here, so the CPU is measured, under its own name. Half a minute.", flush=True
        )
        code = run_agent(place, "--device", "cpu")
    else:
        print("Measuring the GPU. A minute or two.", flush=True)
        code = run_agent(place)
        if code == SKIPPED:
            print("The GPU is in use and was left alone, so the CPU is measured, under its own name.", flush=True)
            code = run_agent(place, "--device", "cpu")
    if code != 0:
        message = (
            f"the agent ended with code {code}; its words are above, `{program('fleetridge-agent')} doctor` tells more"
        )
        raise DemoError(message)


def torch_sees_a_gpu() -> bool:
    """Whether the installed torch can use a GPU; asked in a process of its own, which then lets go of it."""
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-W", "ignore", "-c", question], check=False).returncode == 0


def run_agent(place: Place, *options: str) -> int:
    """Exit code of an agent's run against our server."""
    command = [program("fleetridge-agent"), "run", "--server", place.url, *options]
    with subprocess.Popen(command, env=clean_environment(place)) as agent:
        try:
            return agent.wait()
        finally:
            end(agent)


def wait_until_judged(place: Place) -> None:
    """Return once an evaluation knows every report: until then the server has no number to say."""
    deadline = time.monotonic() + JUDGED_TIMEOUT_S
    while not all(is_judged(place, path) for path in ridge_paths(place)):
        if time.monotonic() > deadline:
            message = f"the server at {place.url} did not evaluate the report; see its log in {place.folder}"
            raise DemoError(message)
        time.sleep(0.5)


def is_judged(place: Place, path: str) -> bool:
    """Whether the newest evaluation of a device knows the newest report of each of its gpus."""
    answer = get(place, path).raise_for_status().json()
    return answer["evaluated_as_of"] is not None and all(gpu["not_judged_yet"] is None for gpu in answer["gpus"])


def show(place: Place) -> None:
    """Print the server's answer to the main question, for every device that it knows."""
    for path in ridge_paths(place):
        print(f"\n$ curl -H 'Accept: text/plain' {place.url}{path}")
        print(get(place, path, accept="text/plain").raise_for_status().text.rstrip(), flush=True)


def ridge_paths(place: Place) -> list[str]:
    """Paths of the ridge of each device in the fleet."""
    answer = get(place, "/devices").raise_for_status().json()
    paths = [f"/devices/{quote(device['name'], safe='')}/ridge" for device in answer["devices"]]
    if not paths:
        message = f"the server at {place.url} knows no device after the agent's report; see its log in {place.folder}"
        raise DemoError(message)
    return paths


def stay(place: Place, server: subprocess.Popen[bytes]) -> None:
    """Leave the server running until Ctrl-C."""
    print(f"\nThe server goes on at {place.url} until Ctrl-C. From another terminal:")
    for path in ridge_paths(place):
        print(f"  curl -H 'Accept: text/plain' {place.url}{path}")
    print(f"  curl {place.url}/gpus")
    print(f"  {program('fleetridge-agent')} run --server {place.url} --device cpu", flush=True)
    code = server.wait()
    message = f"the server ended by itself with code {code}; see its log in {place.folder}"
    raise DemoError(message)


def get(place: Place, path: str, accept: str = "application/json") -> httpx.Response:
    """Answer of our server; proxies of the environment have no part in it."""
    with httpx.Client(base_url=place.url, trust_env=False, timeout=30.0) as client:
        return client.get(path, headers={"Accept": accept})


def program(name: str) -> str:
    """A command of this environment, whether or not it is on PATH."""
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        message = f"{path} is missing; run the demo with `make demo`, which installs it"
        raise DemoError(message)
    return str(path)


def clean_environment(place: Place) -> dict[str, str]:
    """The environment without settings of another installation, and with the agent's state in the demo's folder."""
    kept = {
        key: value for key, value in os.environ.items() if key != "DATABASE_URL" and not key.startswith("FLEETRIDGE_")
    }
    return {**kept, "FLEETRIDGE_STATE_DIR": str(place.folder / "agent")}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child: ask first, then insist."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _end_on_signal(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
