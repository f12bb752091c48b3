"""Waits for gpus that somebody uses, and lets those that nobody uses go first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence

from fleetridge_agent.measure.targets import Target

log = logging.getLogger(__name__)

# Between two looks at gpus that were busy: jobs end on a scale of minutes, and each look takes some readings.
_LOOK_S = 15.0

_MINUTE_S = 60


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
        if wait(min(_LOOK_S, max(latest - now(), 0.0))):
            return
    yield from left
