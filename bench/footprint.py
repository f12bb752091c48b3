"""
Memory of a daemon while it measures and between rounds, and what of the driver it holds on to.

    python bench/footprint.py [--device cuda|cpu] [--json FILE]

Starts a real daemon, lets it have one quick round (by default of the CPU, which every machine has; the worker then
imports torch as on a gpu), and reads from /proc what it takes during that round and after it. Nothing is delivered: no
server listens at the address that it is given, so reports wait in a spool that goes with the bench.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fleetridge.text_table import Column, text_table

# What a daemon may take between rounds, and what it must not hold then.
_GOAL_MB = 60.0
_OF_ROUNDS = ("libtorch", "libcuda", "libnvidia-ml", "/dev/nvidia")

# Libraries worth knowing of in a process: those, and the two heaviest that a daemon needs.
_WORTH_KNOWING = (*_OF_ROUNDS, "pydantic_core", "libssl")

_NOBODY = "http://127.0.0.1:9"

_KB = 1024
_MB = 1e6

# Between two looks during a round, and how long one may take before it is given up.
_LOOK_S = 0.2
_ROUND_S = 300.0

_WAITS = "the next round begins"


@dataclass(frozen=True, slots=True)
class Footprint:
    """
    One process at one moment.

    Attributes:
        rss_mb: resident; pages that it shares with other processes count in full.
        pss_mb: the same, with shared pages divided among those who share them.
        holds: libraries and devices of those worth knowing that are mapped or open.
    """

    what: str
    rss_mb: float
    pss_mb: float
    threads: int
    children: int
    holds: tuple[str, ...]


def footprint(pid: int, what: str) -> Footprint:
    """Footprint of a process; raises OSError when it has ended."""
    process = Path(f"/proc/{pid}")
    rollup = (process / "smaps_rollup").read_text("ascii")
    status = (process / "status").read_text("utf-8")
    return Footprint(
        what,
        rss_mb=_kilobytes("Rss", rollup) * _KB / _MB,
        pss_mb=_kilobytes("Pss", rollup) * _KB / _MB,
        threads=int(re.findall(r"^Threads:\s+(\d+)", status, re.MULTILINE)[0]),
        children=len(_children(pid)),
        holds=tuple(name for name in _WORTH_KNOWING if any(name in path for path in _held(process))),
    )


def _kilobytes(name: str, rollup: str) -> int:
    return int(re.findall(rf"^{name}:\s+(\d+) kB", rollup, re.MULTILINE)[0])


def _children(pid: int) -> tuple[int, ...]:
    return tuple(int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())


def _held(process: Path) -> set[str]:
    """Libraries by name, and devices of the driver by path, that are mapped or open."""
    mapped = {line.split(maxsplit=5)[-1].strip() for line in (process / "maps").read_text("utf-8").splitlines()}
    opened = {str(link.readlink()) for link in (process / "fd").iterdir()}
    return {path if path.startswith("/dev/") else Path(path).name for path in mapped | opened}


def _family(pid: int) -> Iterable[tuple[int, str]]:
    """Descendants of a daemon during a round: the process of the round, and its workers."""
    for a_round in _children(pid):
        yield a_round, "process of the round"
        yield from ((worker, "worker") for worker in _children(a_round))


def during_round(daemon: subprocess.Popen[bytes], log: Path) -> list[Footprint]:
    """The largest footprint of each kind of process until the round is over."""
    largest: dict[str, Footprint] = {}
    latest = time.monotonic() + _ROUND_S
    while log.read_text("utf-8").count(_WAITS) < 2:  # noqa: PLR2004 # before the round and after it
        if daemon.poll() is not None or time.monotonic() > latest:
            sys.exit(f"the daemon came to no end of its round:\n{log.read_text('utf-8')}")
        for pid, what in [(daemon.pid, "daemon during a round"), *_family(daemon.pid)]:
            try:
                found = footprint(pid, what)
            except (OSError, IndexError):
                continue  # it has just ended
            if what not in largest or found.rss_mb > largest[what].rss_mb:
                largest[what] = found
        time.sleep(_LOOK_S)
    return list(largest.values())


def measured(device: str, folder: Path) -> list[Footprint]:
    """Footprints of a daemon and of whatever it starts, the one between rounds last."""
    log = folder / "log"
    command = (sys.executable, "-m", "fleetridge_agent.cli", "daemon", "--every", "24h", "--jitter", "0s")
    options = ("--device", device, "--profile", "quick", "--server", _NOBODY, "--state-dir", str(folder))
    with log.open("wb") as stream, subprocess.Popen((*command, *options), stderr=stream) as daemon:  # noqa: S603 # ours
        try:
            found = during_round(daemon, log)
            return [*found, footprint(daemon.pid, "daemon between rounds")]
        finally:
            daemon.send_signal(signal.SIGTERM)


def _table(found: Sequence[Footprint]) -> str:
    columns = [
        Column("process", align="left"),
        Column("RSS", "MB"),
        Column("PSS", "MB"),
        Column("threads"),
        Column("children"),
        Column("holds", align="left"),
    ]
    rows = [
        (
            one.what,
            f"{one.rss_mb:.1f}",
            f"{one.pss_mb:.1f}",
            str(one.threads),
            str(one.children),
            ", ".join(one.holds) or "-",
        )
        for one in found
    ]
    return text_table(columns, rows, width=120)


def main() -> int:
    """Print the table; 1 where the daemon takes or holds more between rounds than it may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cpu", help="what the round measures")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(arguments.device, Path(folder))
    between = found[-1]
    is_light = between.rss_mb < _GOAL_MB and not between.children and not set(between.holds) & set(_OF_ROUNDS)
    print(f"Python {sys.version.split()[0]}, one quick round of {arguments.device}; the largest reading of each\n")
    print(_table(found))
    print(
        f"\nBetween rounds: {between.rss_mb:.1f} MB of {_GOAL_MB:.0f} MB, "
        f"{'nothing' if is_light else 'SOMETHING'} held that only rounds need, children: {between.children}"
    )
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    return 0 if is_light else 1


if __name__ == "__main__":
    sys.exit(main())
