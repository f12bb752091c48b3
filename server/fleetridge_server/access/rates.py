"""
How much one caller gets: a token bucket for each, in this process alone.

It stands against a program that went wrong, and against patient guessing; it is no guard against many machines that
attack at once, which a proxy has to hold off.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from typing import final

# A few megabytes. Whoever was not heard of for longest is forgotten first, and starts with a full bucket.
_MOST_CALLERS = 20_000

# A network of this many bits belongs to one customer; whoever has it has all its addresses.
_IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class Rate:
    """
    So many calls at once, and so many each second in the long run.

    Attributes:
        per_s: 0 for no limit at all.
    """

    per_s: float
    at_once: int


@final
class Buckets:
    """
    Buckets of all callers.

    Args:
        rate: at which each fills.
        now_s: monotonic clock.
    """

    def __init__(self, rate: Rate, now_s: Callable[[], float]) -> None:
        self._rate = rate
        self._now_s = now_s
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, caller: str) -> float:
        """How long a caller has to wait for its next call; 0 where it may call now. Nothing is taken."""
        if self._rate.per_s <= 0:
            return 0.0
        return max(0.0, (1.0 - self._level(caller)) / self._rate.per_s)

    def take(self, caller: str) -> float:
        """Take one call of a caller where it may call now; as `wait_s`."""
        wait_s = self.wait_s(caller)
        if wait_s == 0 and self._rate.per_s > 0:
            self._levels[caller] = self._level(caller) - 1, self._now_s()
            self._levels.move_to_end(caller)
            if len(self._levels) > _MOST_CALLERS:
                self._levels.popitem(last=False)
        return wait_s

    def _level(self, caller: str) -> float:
        level, at_s = self._levels.get(caller, (float(self._rate.at_once), self._now_s()))
        return min(float(self._rate.at_once), level + (self._now_s() - at_s) * self._rate.per_s)


def caller_at(address: str | None) -> str:
    """Who calls from an address, where no token says so."""
    if address is None:
        return "unknown"
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return f"{parsed.packed[: _IPV6_NETWORK_BITS // 8].hex()}/{_IPV6_NETWORK_BITS}"
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
