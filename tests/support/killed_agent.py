"""
A program that delivers reports again and again, and is killed (SIGKILL) at each of its steps in turn.

    python -m support.killed_agent SCENARIO ADDRESS FOLDER

A step is whatever the rest of the world can notice: a call that changes or reads files of the state directory, locks,
or talks to the server. A first child lives and says which there are; each of the others is killed right before one of
them, and then a fresh `fleetridge-agent flush` follows, unharmed. The agent is imported once and forked, so that a
hundred deaths take seconds. One line of JSON a child says what is known of its reports.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fleetridge_agent import cli
from fleetridge_agent.deliver.dispatch import dispatch
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.server_address import server_at
from fleetridge_agent.deliver.spool import Spool
from support.reports import make_report

# What Python tells of by itself (sys.audit) and what it does not.
_AUDITED = {"open", "os.rename", "os.remove", "os.mkdir", "os.scandir", "fcntl.flock", "socket.connect"}
_UNAUDITED = ((os, "fsync"), (os, "fdopen"), *((socket.socket, name) for name in ("sendall", "send", "recv", "close")))

Say = Callable[[str, str], None]


def run(address: str, state_dir: Path, say: Say) -> None:
    """Two fresh reports to disk, then all to the server, as `run` does once everything is measured."""
    spool = Spool(state_dir)
    fresh = []
    for gpu in range(2):
        report = _report(state_dir, f"fresh-{gpu}")
        say("made", report["report_id"])
        fresh.append(spool.add(report["report_id"], json.dumps(report).encode()))
        say("on disk", report["report_id"])
    with Client(server_at(address, token=None), wait=lambda _: False) as client:
        dispatch(client.deliver, spool, fresh, is_stopped=lambda: False)


def flush(address: str, state_dir: Path, _: Say) -> None:
    """The command as it is."""
    code = cli.main(["flush", "--server", address, "--state-dir", str(state_dir)])
    os._exit(code)


SCENARIOS = {"run": run, "flush": flush}


def main(scenario: str, address: str, folder: str) -> None:
    """Kill at every step."""
    perform = partial(_perform, SCENARIOS[scenario], address)
    steps = [what for word, what in perform(Path(folder) / f"{scenario}-alive", kill_at=None) if word == "step"]
    for number, name in enumerate(steps):
        perform(Path(folder) / f"{scenario}-{number}", kill_at=(name, steps[:number].count(name) + 1))


def _perform(
    scenario: Callable[[str, Path, Say], None], address: str, state_dir: Path, *, kill_at: tuple[str, int] | None
) -> list[list[str]]:
    """Let one agent deliver and flush after it; what it said."""
    waiting = _prepared(state_dir)

    def watched(say: Say) -> None:
        _watch(state_dir, kill_at, say)
        scenario(address, state_dir, say)

    said, code = _in_child(watched)
    _, flushed = _in_child(partial(flush, address, state_dir))
    result = {"code": code, "flushed": flushed, "waiting": waiting, "said": said, "state_dir": str(state_dir)}
    print(json.dumps({**result, "kill_at": kill_at}), flush=True)  # noqa: T201 # the answer of a program
    return said


def _prepared(state_dir: Path) -> str:
    """A spool with a report, one that the server will refuse and a file that is none; the first one's id."""
    spool = Spool(state_dir)
    good, bad = _report(state_dir, "waiting"), _report(state_dir, "refused", outcome="splendid")
    for report in (good, bad):
        spool.add(report["report_id"], json.dumps(report).encode())
    (spool.folder / "000000000009-broken.json").write_bytes(b'{"report_id": "')
    return str(good["report_id"])


def _report(state_dir: Path, name: str, **changes: Any) -> dict[str, Any]:
    return make_report(node__name=state_dir.name, gpu__uuid=f"GPU-{state_dir.name}-{name}", **changes)


def _in_child(action: Callable[[Say], None]) -> tuple[list[list[str]], int]:
    """What a forked process said, and its exit code."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            action(partial(_say, writing))
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as lines:
        said = [json.loads(line) for line in lines]
    return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _say(writing: int, *words: str) -> None:
    os.write(writing, json.dumps(words).encode() + b"\n")


def _watch(state_dir: Path, kill_at: tuple[str, int] | None, say: Say) -> None:
    """
    Say every step, or die right before one.

    Args:
        state_dir: files elsewhere, such as certificates, are no steps of delivery.
        kill_at: name of a step, and which of that name, from 1; how an answer is cut into pieces varies, so that no
            number over all steps would name the same one twice.
        say: tells the parent.
    """
    seen: Counter[str] = Counter()

    def step(name: str) -> None:
        seen[name] += 1
        if kill_at is None:
            say("step", name)
        elif kill_at == (name, seen[name]):
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(event: str, arguments: tuple[object, ...]) -> None:
        if event in _AUDITED and (event != "open" or str(arguments[0]).startswith(str(state_dir))):
            step(event)

    for owner, name in _UNAUDITED:
        setattr(owner, name, _counted(getattr(owner, name), partial(step, name)))
    sys.addaudithook(audited)


def _counted(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        step()
        return call(*arguments, **options)

    return counted


if __name__ == "__main__":
    main(*sys.argv[1:])
