"""Xid errors in the kernel's log."""

from __future__ import annotations

from pathlib import Path

from fleetridge_agent.readings.host import Host
from fleetridge_agent.readings.kernel_log import newest_xid

_RECORDS = (
    "4,801,5000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=somebodys_job, Ch 00000008, intr 00000000\n"
    "6,802,5001,-;usb 1-1: new high-speed USB device\n"
    "4,803,5002,-;NVRM: Xid (PCI:0000:af:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error)\n"
    "4,804,5003,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
)


def _host(root: Path) -> Host:
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text(_RECORDS)
    return Host(root)


def test_the_newest_xid_of_a_gpu_is_found_by_its_address(tmp_path: Path) -> None:
    host = _host(tmp_path)

    assert newest_xid(host, "0000:3b:00.0") == 79
    assert newest_xid(host, "0000:af:00.0") == 48
    assert newest_xid(host, "0000:5e:00.0") is None


def test_a_log_that_this_user_may_not_read_says_nothing(tmp_path: Path) -> None:
    assert newest_xid(Host(tmp_path), "0000:3b:00.0") is None
