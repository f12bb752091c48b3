"""The kernel's log: which Xid error NVIDIA's driver reported last of a gpu, where this user may read it."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.optional_reading import canonical_bus_id

# proc(5), kmsg: each read gives one record. The kernel keeps some megabytes of them at most.
_LOG = "dev/kmsg"
_RECORD_BYTES = 8192
_MOST_RECORDS = 100_000

# Behind the number the driver names the process that used the gpu, which is nobody's business.
_XID = re.compile(rb"NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)")


def newest_xid(host: Host, pci_bus_id: str) -> int | None:
    """Number of the last Xid error of the gpu at an address; None where there is none or the log cannot be read."""
    newest = None
    with suppress(OSError):
        descriptor = os.open(host.root / _LOG, os.O_RDONLY | os.O_NONBLOCK)
        try:
            for address, number in _xids(descriptor):
                if canonical_bus_id(address.decode()) == pci_bus_id:
                    newest = int(number)
        finally:
            os.close(descriptor)
    return newest


def _xids(descriptor: int) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    for _ in range(_MOST_RECORDS):
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:
            break  # there is no more
        except BrokenPipeError:
            continue  # this record was overwritten meanwhile; the next one is there
        if not record:
            break
        found += _XID.findall(record)
    return found
