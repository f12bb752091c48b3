"""
The smallest deployment: one server and one agent on one machine, with nothing to set up.

It starts the server on a SQLite file in `.demo`, lets the agent measure the device at hand and post its report, and
prints what the server then answers to the main question. `make demo` runs it; `--once` ends it after the answer.
"""

from __future__ import annotations

import argparse
import os
import re
import select
import signal
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
ANY_PORT = 0  # one that is free, chosen by the system
PORT_TAKEN = "cannot listen on"  # how the server's message begins
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
    """Where the demo keeps its files, and the address of its server."""

    folder: Path
    url: str


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
        with serve(options.folder.resolve()) as (place, server):
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


@contextmanager
def serve(folder: Path) -> Iterator[tuple[Place, subprocess.Popen[str]]]:
    """Run the server for the time of the block; when it yields, the server takes requests."""
    folder.mkdir(parents=True, exist_ok=True)
    # Another demo may use the same folder, and finds there that this one measures.
    log_path = folder / f"server-{os.getpid()}.log"
    server = start_server(folder, log_path, USUAL_PORT)
    try:
        url = announced_url(server)
        if url is None and PORT_TAKEN in log_path.read_text(encoding="utf-8", errors="replace"):
            end(server)
            server = start_server(folder, log_path, ANY_PORT)
            url = announced_url(server)
        if url is None:
            message = f"the server did not start; {end_of(log_path)}"
            raise DemoError(message)
        print(f"Server running at {url} on SQLite ({folder / 'fleet.db'}).", flush=True)
        try:
            yield Place(folder, url), server
        except (DemoError, httpx.TransportError) as error:
            if (code := server.poll()) is None:
                raise
            message = f"the server ended by itself with code {code}; {end_of(log_path)}"
            raise DemoError(message) from error
    finally:
        end(server)


def start_server(folder: Path, log_path: Path, port: int) -> subprocess.Popen[str]:
    """A server that is starting; it says its address on its standard output once it takes requests."""
    command = [program("fleetridge-server"), "serve", "--host", HOST, "--port", str(port), "--migrate"]
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [*command, "--database-url", f"sqlite:///{folder / 'fleet.db'}"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=clean_environment(folder),
            text=True,
        )


def announced_url(server: subprocess.Popen[str]) -> str | None:
    """
    Address that our own server says it listens on; None: it ended, or said nothing for `START_TIMEOUT_S`.

    A port that was free before may be somebody else's by the time the server asks for it, and answers there are then
    somebody else's, too.
    """
    if server.stdout is None or not select.select([server.stdout], [], [], START_TIMEOUT_S)[0]:
        return None
    found = re.search(r"http://\S+", server.stdout.readline())
    return found[0] if found else None


def end_of(log_path: Path) -> str:
    """The last lines of a log, as a part of a message."""
    lines = log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join([f"the end of {log_path}:", *lines])


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
    with subprocess.Popen(command, env=clean_environment(place.folder), text=True) as agent:
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


def stay(place: Place, server: subprocess.Popen[str]) -> None:
    """Leave the server running until Ctrl-C."""
    print(f"\nThe server goes on at {place.url} until Ctrl-C. From another terminal:")
    for path in ridge_paths(place):
        print(f"  curl -H 'Accept: text/plain' {place.url}{path}")
    print(f"  curl {place.url}/gpus")
    print(f"  {program('fleetridge-agent')} run --server {place.url} --device cpu", flush=True)
    server.wait()
    message = "the server ended"
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


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment without settings of another installation, and with the agent's state in the demo's folder."""
    kept = {
        key: value for key, value in os.environ.items() if key != "DATABASE_URL" and not key.startswith("FLEETRIDGE_")
    }
    return {**kept, "FLEETRIDGE_STATE_DIR": str(folder / "agent")}


def end(process: subprocess.Popen[str]) -> None:
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
