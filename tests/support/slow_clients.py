"""Clients that take their time, by the hundred, and what becomes of them."""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from support.patience import PATIENCE_S

SLOW = 200

HALF_A_HEAD = b"POST /reports HTTP/1.1\r\nHos"
HALF_A_BODY = b"POST /reports HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{"

# A byte so often, so that no connection is ever silent for long.
_DRIP_S = 2.0


# Longer than the server has patience for a body.
_LONGEST_S = 180.0


@dataclass(frozen=True)
class CutOff:
    """How long the last of them was borne, and by how much the server's memory grew at most."""

    longest_s: float
    growth_bytes: int


def connect_slowly(address: str, number: int = SLOW) -> list[socket.socket]:
    """Clients of which every second stops within the head, the others within the body."""
    where = urlsplit(address)
    clients = []
    for sent in [HALF_A_HEAD, HALF_A_BODY] * (number // 2):
        client = socket.create_connection((where.hostname, where.port or 80), PATIENCE_S)
        client.sendall(sent)
        clients.append(client)
    return clients


def cut_off(address: str, pid: int) -> CutOff:
    """Let them drip until each is cut off."""
    before, most, began_s = resident_bytes(pid), 0, time.monotonic()
    waiting = connect_slowly(address)
    while waiting and time.monotonic() - began_s < _LONGEST_S:
        ended, _, _ = select.select(waiting, [], [], _DRIP_S)
        for client in ended:
            client.close()
        waiting = [client for client in waiting if client not in ended and _drips(client)]
        most = max(most, resident_bytes(pid) - before)
    if waiting:
        message = f"{len(waiting)} slow clients are still borne after {_LONGEST_S:.0f} s"
        raise AssertionError(message)
    return CutOff(time.monotonic() - began_s, most)


def resident_bytes(pid: int) -> int:
    """Memory of a process."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def _drips(client: socket.socket) -> bool:
    try:
        client.sendall(b"a")
    except OSError:
        client.close()
        return False
    return True
