"""Who else uses a gpu while it is measured, and the watch that ends a sweep when somebody arrives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleetridge_agent.errors import PreemptedError

ProcessList = Mapping[int, int | None]
"""Memory in bytes by process id, None where the driver does not say how much."""

PROCESSES = "processes"
MEMORY = "memory"

# Between two looks. Work is queued for 100 ms at most, so nothing is queued any more 200 ms after somebody arrives.
_WATCH_INTERVAL_S = 0.100


@dataclass(frozen=True, slots=True)
class ForeignUse:
    """
    Who else used the device; counted, never named.

    Attributes:
        processes: others that were seen before or during the sweep, None where none could have been seen.
        bytes: memory that they held, None where the driver does not say.
        signals: what could be read at all, None where nothing was asked.
    """

    processes: int | None = None
    bytes: int | None = None
    signals: tuple[str, ...] | None = None

    @property
    def contended(self) -> bool | None:
        """Whether somebody else used the device; None where nobody could tell."""
        return None if self.processes is None else self.processes > 0


@dataclass(frozen=True, slots=True)
class GpuUse:
    """
    What is seen of the use of a gpu at one moment.

    Attributes:
        processes: None where the driver lists none.
        other_bytes: memory in use that is not ours, None where the driver does not say.
        spare_bytes: up to how much of it is nobody's.
    """

    processes: ProcessList | None = None
    other_bytes: int | None = None
    spare_bytes: int = 0


class Occupancy:
    """
    Use of one gpu over a sweep.

    In a container the list of processes is empty or holds ids of the host, so we cannot look for our own id. But
    whoever appears in the list when our context is made is us; and if nobody appears, the list is blind and proves
    nothing. Then the memory that others hold must tell: it grows when somebody arrives.

    Args:
        before: processes before our context was made, None where there is no list.
        arrived: what is seen right after.
        readable: further signals by which somebody would have shown before our arrival.
    """

    def __init__(self, before: ProcessList | None, arrived: GpuUse, readable: Sequence[str] = ()) -> None:
        self._before = before
        self._readable = tuple(readable)
        self._own = frozenset() if before is None or arrived.processes is None else arrived.processes.keys() - before
        self._arrived_bytes = arrived.other_bytes
        self._had_grown = False

    def foreign_use(self, now: GpuUse) -> ForeignUse:
        """Everybody but us who was on the gpu before our arrival or is now."""
        use = self._seen(now)
        signals = tuple(dict.fromkeys((*(use.signals or ()), *self._readable)))
        return replace(use, signals=signals if signals or use.signals is not None else None)

    def _seen(self, now: GpuUse) -> ForeignUse:
        if self._before is None or (not self._before and not self._own):
            return self._by_memory(now)
        listed = (now.processes or {}).items()
        others = {**self._before, **{pid: held for pid, held in listed if pid not in self._own}}
        known_bytes = [held for held in others.values() if held is not None]
        return ForeignUse(
            processes=len(others),
            bytes=sum(known_bytes) if len(known_bytes) == len(others) else None,
            signals=(PROCESSES,),
        )

    def _by_memory(self, now: GpuUse) -> ForeignUse:
        """Told by two readings in a row, as an allocation of our own may lie between the two that make one."""
        if now.other_bytes is None or self._arrived_bytes is None:
            return ForeignUse(signals=() if self._before is not None else None)
        grown_bytes = now.other_bytes - self._arrived_bytes
        has_grown = grown_bytes > now.spare_bytes
        is_foreign, self._had_grown = has_grown and self._had_grown, has_grown
        return ForeignUse(processes=1 if is_foreign else 0, bytes=grown_bytes if is_foreign else 0, signals=(MEMORY,))


class ForeignUseWatch:
    """
    Looks who uses the device, no more often than every 100 ms, between two pieces of work.

    Args:
        look: who else uses the device.
        check_stop: raises a SweepError where the sweep was asked to end; asked before every piece of work.
        is_forced: whether to go on in company, as the user asked.
        now: a clock that never runs backwards, in seconds.
    """

    def __init__(
        self,
        look: Callable[[], ForeignUse],
        *,
        check_stop: Callable[[], None] = lambda: None,
        is_forced: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._heed = check_stop
        self._is_forced = is_forced
        self._now = now
        self._looked_at: float | None = None
        self._seen_alone: ForeignUse | None = None
        self._is_somebody_here = False

    @property
    def seen_before_arrival(self) -> ForeignUse | None:
        """What the last look saw before the one that found somebody; None where nobody arrived."""
        return self._seen_alone if self._is_somebody_here else None

    def check(self) -> None:
        """
        End the sweep here if somebody has arrived or asked for the end.

        Raises:
            PreemptedError: somebody has.
        """
        self._heed()
        now = self._now()
        if self._looked_at is None or now - self._looked_at >= _WATCH_INTERVAL_S:
            self.look()

    def look(self) -> None:
        """
        Look who uses the device, however short ago the last look was.

        Raises:
            PreemptedError: somebody else does.
        """
        if self._is_forced:
            return
        self._looked_at = self._now()
        seen = self._look()
        self._is_somebody_here = bool(seen.contended)
        if self._is_somebody_here:
            raise PreemptedError(
                "somebody else began to use this gpu, and the sweep made room; run it again when the gpu is idle"
            )
        self._seen_alone = seen
