"""A moment by two clocks: one that people set, and one that only ever goes forwards."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# proc(5) random(4): drawn anew by each boot of the kernel.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Moment:
    """
    A moment as the clocks of a host show it.

    Attributes:
        wall_s: seconds since 1970, by a clock that may be set, forwards or back.
        uptime_s: seconds since boot, those asleep included; never set, and without meaning after the next boot.
        boot: which boot that was, None where the kernel does not say.
    """

    wall_s: float
    uptime_s: float
    boot: str | None = None

    def after(self, seconds: float) -> Moment:
        """The moment so much later, as long as nobody sets a clock."""
        return Moment(self.wall_s + seconds, self.uptime_s + seconds, self.boot)


def seconds_until(moment: Moment, now: Moment) -> float:
    """
    Seconds from now until a moment, negative once it has passed.

    Within one boot a clock that somebody sets changes nothing; from one boot to another only that clock is left.
    """
    if moment.boot is not None and moment.boot == now.boot:
        return moment.uptime_s - now.uptime_s
    return moment.wall_s - now.wall_s


def now_here() -> Moment:
    """This moment on this host."""
    return Moment(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), _boot())


def _boot() -> str | None:
    with suppress(OSError):
        return _BOOT_ID.read_text(encoding="ascii", errors="replace").strip() or None
    return None
