"""
Whether a device may be measured now: its lock, a look at who uses it, and waiting until nobody does.

Nothing here touches a gpu; whoever measures one asks here first.
"""

from __future__ import annotations

import logging
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fleetridge.report import Evidence
from fleetridge_agent.busy.idle_check import check_idle
from fleetridge_agent.errors import DeviceBusyError
from fleetridge_agent.gpus.discovery import nvml_or_none
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.lock import gpu_lock

log = logging.getLogger(__name__)

# Between two looks at gpus that were busy: jobs end on a scale of minutes, and each look takes some readings.
_POLL_S = 15.0

_MINUTE_S = 60


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
        yield refuse_if_busy(target, force=force, wait=wait)


def refuse_if_busy(target: Target, *, force: bool, wait: Callable[[float], object] | None = None) -> bool:
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
    seen = None if known is None else check_idle(known, wait=wait)
    if seen is None or seen.why is None:
        return False
    if not force:
        raise DeviceBusyError(
            f"{target} is busy, {seen.why}; wait until it is idle, or give --force to measure in company",
            evidence=Evidence(contended=True, other_processes=seen.processes, signals_seen=seen.signals),
        )
    log.warning("%s is busy, %s; measured nevertheless, and marked as contended", target, seen.why)
    return True


def idle_first(
    targets: Sequence[Target],
    is_idle: Callable[[Target], bool],
    *,
    limit_s: float,
    wait: Callable[[float], bool],
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Target]:
    """
    Each device once: as soon as nobody uses it, and when the time is up those that somebody still uses.

    Args:
        targets: the devices.
        is_idle: whether nobody uses one at this moment.
        limit_s: how long to wait in all, measuring included; without any, all come in their order and nobody looks.
        wait: pauses for some seconds, less if the end is asked for; True then, and no further device comes.
        now: a clock that never runs backwards, in seconds.
    """
    latest = now() + limit_s
    left, announced = list(targets), 0
    while left and now() < latest:
        target = next((target for target in left if is_idle(target)), None)
        if target is not None:
            left.remove(target)
            yield target
            continue
        if announced != len(left):
            log.info("waiting up to %.1f min for %s", (latest - now()) / _MINUTE_S, ", ".join(map(str, left)))
            announced = len(left)
        if wait(min(_POLL_S, max(latest - now(), 0.0))):
            return
    yield from left


def _lock_name(target: Target) -> str:
    # A home directory may be shared by many nodes, and each has a CPU of its own.
    return str(target.which) if target.gpu is not None else f"CPU-{platform.node()}"
