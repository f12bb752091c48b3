"""Other processes of this machine, as Linux tells of them."""

from __future__ import annotations

import time
from pathlib import Path

from support.patience import PATIENCE_S

_PROC = Path("/proc")

# After the name of the program, which is in brackets and may hold anything (proc(5)).
_STATE, _PARENT = 0, 1
_ENDED = frozenset("ZX")


def children_of(pid: int) -> list[int]:
    """Numbers of the processes that one has started and that run."""
    fields = {int(entry.name): _fields(int(entry.name)) for entry in _PROC.iterdir() if entry.name.isdigit()}
    return [number for number, own in fields.items() if _runs(own) and own[_PARENT] == str(pid)]


def is_running(pid: int) -> bool:
    """Whether a process has not ended, waited for or not."""
    return _runs(_fields(pid))


def until_gone(*pids: int) -> bool:
    """Wait until processes have ended; whether they have in good time."""
    until_s = time.monotonic() + PATIENCE_S
    while any(map(is_running, pids)) and time.monotonic() < until_s:
        time.sleep(0.01)
    return not any(map(is_running, pids))


def bytes_read(pid: int) -> int:
    """How much a process has read so far, whatever from."""
    [line] = [line for line in (_PROC / str(pid) / "io").read_text().splitlines() if line.startswith("rchar:")]
    return int(line.partition(":")[2])


def until_it_reads(pid: int, than: int) -> None:
    """Wait until a process has read more than so many bytes."""
    until_s = time.monotonic() + PATIENCE_S
    while bytes_read(pid) <= than:
        assert time.monotonic() < until_s, "it read nothing"
        time.sleep(0.001)


def _runs(fields: list[str]) -> bool:
    return bool(fields) and fields[_STATE] not in _ENDED


def _fields(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
