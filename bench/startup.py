"""
Processor time until a command that does next to nothing has ended: what importing the program costs each time.

    python bench/startup.py [--repeats 5] [--before CHECKOUT] [--json FILE]

Starts the commands of agent and server that answer from themselves or from a file, several times in turn, and takes the
least: whatever else the machine does only adds. With `--before` the same commands of another checkout are started in
between, so that both meet the same machine; the ratio says more than the time where the machine is busy or slow.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from fleetridge.text_table import Column, text_table
from fleetridge_agent.check.last_verdict import keep_last
from fleetridge_agent.check.verdict import GpuVerdict

# What a command may take that a person waits for, or that a health check starts on every node every minute.
_GOAL_S = 0.4

_NODE = "n01"
_CHECKOUT = Path(__file__).resolve().parents[1]
_PACKAGES = ("core", "agent", "server")

# Modules that take long to import; which of them a command loads says where its time goes.
_HEAVY = ("pydantic", "httpx", "torch", "fastapi", "sqlalchemy", "alembic", "fleetridge.report", "ctypes", "jinja2")


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its program, as a module, and its arguments."""

    program: str
    module: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.program, *self.arguments))


@dataclass(frozen=True, slots=True)
class Startup:
    """
    What one command took.

    Attributes:
        processor_s: user and system time of the process, the least of its starts.
        elapsed_s: by the wall clock, the least likewise.
        modules: imported by then; of them `heavy`.
        before_processor_s: of the same command of the other checkout, None without one.
    """

    command: str
    processor_s: float
    elapsed_s: float
    modules: int
    heavy: tuple[str, ...]
    before_processor_s: float | None = None


COMMANDS = (
    Command("fleetridge-agent", "fleetridge_agent.cli", ("--version",)),
    Command("fleetridge-agent", "fleetridge_agent.cli", ("--help",)),
    Command("fleetridge-agent", "fleetridge_agent.cli", ("sweep", "--help")),
    Command("fleetridge-agent", "fleetridge_agent.cli", ("check", "--max-age", "24h")),
    Command("fleetridge-server", "fleetridge_server.cli", ("--version",)),
    Command("fleetridge-server", "fleetridge_server.cli", ("--help",)),
)


def started(command: Command, environ: Mapping[str, str]) -> tuple[float, float]:
    """
    Processor and elapsed time of one start, in seconds.

    Raises:
        RuntimeError: the command does not end well; a program that breaks at once is none that starts fast.
    """
    begun = time.perf_counter()
    with subprocess.Popen(  # noqa: S603 # ours
        (sys.executable, "-m", command.module, *command.arguments),
        env=dict(environ),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ends with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - begun


def imported(command: Command, environ: Mapping[str, str]) -> tuple[int, tuple[str, ...]]:
    """Number of modules that a command has imported when it ends, and which of them are heavy."""
    line = (
        "import atexit, runpy, sys; out = sys.stderr; "
        f"atexit.register(lambda: print(len(sys.modules), *(m for m in {_HEAVY!r} if m in sys.modules), file=out)); "
        f"sys.argv = {[command.program, *command.arguments]!r}; "
        f"runpy.run_module({command.module!r}, run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(  # noqa: S603 # ours
        (sys.executable, "-c", line), env=dict(environ), check=False, capture_output=True, text=True
    )
    number, *heavy = done.stderr.splitlines()[-1].split()
    return int(number), tuple(heavy)


def measured(repeats: int, here: Mapping[str, str], before: Mapping[str, str] | None) -> Iterator[Startup]:
    """Startup of each command, the starts of both checkouts in turn."""
    for command in COMMANDS:
        own, other = [], []
        for _ in range(repeats):
            own.append(started(command, here))
            if before is not None:
                other.append(started(command, before)[0])
        modules, heavy = imported(command, here)
        yield Startup(
            command=str(command),
            processor_s=min(processor_s for processor_s, _ in own),
            elapsed_s=min(elapsed_s for _, elapsed_s in own),
            modules=modules,
            heavy=heavy,
            before_processor_s=min(other, default=None),
        )


def environ_of(checkout: Path, state_dir: Path) -> dict[str, str]:
    """Environment in which a checkout's packages are found first, and its agent finds a verdict on its node."""
    paths = os.pathsep.join(str(checkout / name) for name in _PACKAGES)
    return {**os.environ, "PYTHONPATH": paths, "FLEETRIDGE_STATE_DIR": str(state_dir), "FLEETRIDGE_NODE": _NODE}


def _table(found: Sequence[Startup]) -> str:
    columns = (
        Column("command", align="left"),
        Column("processor", "s"),
        Column("elapsed", "s"),
        Column("before", "s"),
        Column("of before"),
        Column("modules"),
        Column("heavy ones", align="left"),
    )
    rows = [
        (
            one.command,
            f"{one.processor_s:.3f}",
            f"{one.elapsed_s:.3f}",
            "-" if one.before_processor_s is None else f"{one.before_processor_s:.3f}",
            "-" if one.before_processor_s is None else f"{one.processor_s / one.before_processor_s:.2f}",
            str(one.modules),
            ", ".join(one.heavy) or "-",
        )
        for one in found
    ]
    return text_table(columns, rows, width=180)


def main() -> int:
    """Print the table; 1 where a command takes longer than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="starts of each command, of which the fastest counts")
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdict = GpuVerdict(uuid="GPU-a", index=0, state="ok", judged_at=datetime.now(timezone.utc))
        keep_last(Path(folder), _NODE, [verdict], all_gpus=True)
        other = None if arguments.before is None else environ_of(arguments.before.resolve(), Path(folder))
        found = list(measured(arguments.repeats, environ_of(_CHECKOUT, Path(folder)), other))
    slow = [one.command for one in found if one.processor_s > _GOAL_S]
    print(
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}; the least of {arguments.repeats} starts\n"
    )
    print(_table(found))
    print(f"\nGoal: {_GOAL_S:g} s of processor time; missed by: {', '.join(slow) or 'none'}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
