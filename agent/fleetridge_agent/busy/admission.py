"""
Whether a device may be measured now: its lock, a look at who uses it, and waiting until nobody does.

Nothing here touches a gpu; whoever measures one asks here first.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetridge.report import Evidence
from fleetridge_agent.device.opening import nvml_or_none
from fleetridge_agent.errors import DeviceBusyError
from fleetridge_agent.lock import gpu_lock
from fleetridge_agent.measure.targets import Target
from fleetridge_agent.node.idleness import look

log = logging.getLogger(__name__)


@contextmanager
def admitted(target: Target, state_dir: Path, *, force: bool, wait: Callable[[float], object] | None) -> Iterator[bool]:
    """
    Hold a device's lock, after a look at who uses it that touches nothing.

    Args:
        target: the device.
        state_dir: folder of the locks.
        force: whether it is measured although somebody else uses it.
        wait: pauses while the gpu is watched for two seconds; None looks at this moment only.

    Yields:
        Whether somebody uses it and it is to be measured nevertheless.

    Raises:
        AlreadyRunningError: another agent holds it.
        DeviceBusyError: somebody else uses it.
    """
    with gpu_lock(state_dir, _lock_name(target)):
        yield is_busy(target, force=force, wait=wait)


def is_busy(target: Target, *, force: bool, wait: Callable[[float], object] | None = None) -> bool:
    """
    Look who uses a gpu before anything touches it, as in `admitted`.

    Returns:
        Whether somebody does and it is to be measured nevertheless.

    Raises:
        DeviceBusyError: somebody does.
    """
    nvml = None if target.gpu is None else nvml_or_none()
    known = (
        None
        if nvml is None or target.gpu is None
        else nvml.find(uuid=target.gpu.uuid, pci_bus_id=target.gpu.pci_bus_id)
    )
    seen = None if known is None else look(known, wait=wait)
    if seen is None or seen.why is None:
        return False
    if not force:
        raise DeviceBusyError(
            f"{target} is busy, {seen.why}; wait until it is idle, or give --force to measure in company",
            evidence=Evidence(contended=True, other_processes=seen.processes, signals_seen=seen.signals),
        )
    log.warning("%s is busy, %s; measured nevertheless, and marked as contended", target, seen.why)
    return True


def _lock_name(target: Target) -> str:
    # A home directory may be shared by many nodes, and each has a CPU of its own.
    return str(target.which) if target.gpu is not None else f"CPU-{platform.node()}"
