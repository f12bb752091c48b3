"""Who else uses a gpu, told from its process list before, at and after our own arrival."""

from __future__ import annotations

from collections.abc import Mapping

from fleetridge_agent.device.contract import ForeignUse

ProcessList = Mapping[int, int | None]
"""Memory in bytes by process id, None where the driver does not say how much."""

_SIGNAL = "processes"


class Occupancy:
    """
    Process lists of one gpu over a sweep.

    In a container the list is empty or holds process ids of the host, so we cannot look for our own id. But whoever
    appears in the list when our context is made is us; and if nobody appears, the list is blind and proves nothing.

    Args:
        before: list before our context was made, None where there is none.
        arrived: list right after.
    """

    def __init__(self, before: ProcessList | None, arrived: ProcessList | None) -> None:
        self._before = before
        self._own = frozenset() if before is None or arrived is None else arrived.keys() - before.keys()

    def foreign_use(self, now: ProcessList | None) -> ForeignUse:
        """Everybody but us who was in the list before our arrival or is now."""
        if self._before is None:
            return ForeignUse()
        others = {**self._before, **{pid: held for pid, held in (now or {}).items() if pid not in self._own}}
        if not others and not self._own:
            return ForeignUse(signals=())
        known_bytes = [held for held in others.values() if held is not None]
        return ForeignUse(
            processes=len(others),
            bytes=sum(known_bytes) if len(known_bytes) == len(others) else None,
            signals=(_SIGNAL,),
        )
