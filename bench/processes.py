"""Processes of a benchmark: what they and all that they started have used of the processors (Linux)."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

# Behind the name of the program, in `/proc/PID/stat`.
_PARENT = 1
_OWN_TIMES = slice(11, 13)
_TIMES = slice(11, 15)  # those of children that have ended, too


def cpu_s(pid: int) -> float:
    """Processor time of a process, of those that it started, and of those that have ended."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        fields = _stat(entry) if entry.name.isdecimal() else None
        if fields is not None:
            children[int(fields[_PARENT])].append(int(entry.name))
            ticks[int(entry.name)] = sum(map(int, fields[_TIMES]))
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        total += ticks.get(one, 0)
        waiting += children[one]
    return total / os.sysconf("SC_CLK_TCK")


def own_cpu_s(pid: int) -> float:
    """Processor time of a process alone."""
    fields = _stat(Path("/proc") / str(pid))
    return 0.0 if fields is None else sum(map(int, fields[_OWN_TIMES])) / os.sysconf("SC_CLK_TCK")


def parent_of(pid: int) -> int:
    """Process that started one."""
    fields = _stat(Path("/proc") / str(pid))
    if fields is None:
        raise SystemExit(f"process {pid} has ended meanwhile; run the benchmark again")
    return int(fields[_PARENT])


def _stat(entry: Path) -> list[str] | None:
    try:
        return (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:  # it has ended meanwhile
        return None
