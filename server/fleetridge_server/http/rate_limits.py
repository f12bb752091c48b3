"""
Limits of one caller: calls (a token bucket each), bytes of a body, connections and their idle time.

Buckets are of this process alone. They stand against a program that went wrong and against patient guessing, not
against many machines that attack at once, which a proxy has to hold off. Connections are bounded because uvicorn waits
without end for the header of a request and for a client that reads nothing: whoever opens connections and says nothing
would use up every file that this process may open.
"""

import asyncio
import logging
import resource
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from operator import attrgetter
from typing import Any, final

import anyio
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope
from uvicorn.protocols.http.h11_impl import H11Protocol

from fleetridge_server.intake.body import BODY_TIMEOUT_S

# A few megabytes. Whoever was not heard of for longest is forgotten first, and starts with a full bucket.
_MOST_CALLERS = 20_000

# A network of this many bits belongs to one customer; whoever has it has all its addresses.
_IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class CallRate:
    """So many calls at once, and so many each second in the long run; 0 for no limit at all."""

    per_s: float
    at_once: int


@final
class Buckets:
    """Buckets of all callers, which fill at one rate."""

    def __init__(self, rate: CallRate, now_s: Callable[[], float]) -> None:
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


# The largest is a mark with its reason: some kilobytes.
MAX_SMALL_BODY_BYTES = 64 * 1024

_PATH_OF_REPORTS = "/reports"


def bounded(scope: Scope, receive: Receive) -> Receive:
    """Receiver of a request's body, within the limits for what is no report."""
    if scope["path"] == _PATH_OF_REPORTS:
        return receive
    received, is_whole, deadline_s = 0, False, anyio.current_time() + BODY_TIMEOUT_S

    async def receive_within_limits() -> Message:
        """Next part of the body. Raises HTTPException: 413, it is too large by now; 408, it came too slowly."""
        nonlocal received, is_whole
        if is_whole:
            return await receive()  # the end of the connection, which may take its time
        with anyio.move_on_after(deadline_s - anyio.current_time()):
            message = await receive()
            received += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if received > MAX_SMALL_BODY_BYTES:
                raise HTTPException(413, f"a body may have {MAX_SMALL_BODY_BYTES} bytes here; send less")
            return message
        raise HTTPException(408, f"the body did not arrive within {BODY_TIMEOUT_S} s; send it again")

    return receive_within_limits


# A request's header is some hundred bytes, one packet. Longer than any network needs to send it again a few times.
HEAD_TIMEOUT_S = 10

# Answers that wait for their reader: one of 16 MiB over a line of 2.2 Mbit/s, as bodies on their way in.
READER_TIMEOUT_S = 60

# After the signal to end: a body of full size over a line of 30 Mbit/s, and well inside the grace of `serving`.
ENDING_TIMEOUT_S = 5

# Files that are no connections: the database's (a pool of some dozens), logs, the event loop's own.
_OTHER_FILES = 96

# As many nodes may call within the same seconds; each connection takes some ten kilobytes.
_MAX_CONNECTIONS = 16_384

# Of few files that are allowed at all, this many serve connections all the same.
_FEWEST_CONNECTIONS = 16

# asyncio's words, which it repeats for every connection that it cannot accept.
_ACCEPT_TROUBLE = "socket.accept() out of system resource"
_ACCEPT_LOG_PAUSE_S = 60

_log = logging.getLogger(__name__)


def raise_file_limit() -> None:
    """Let this process open as many files as it may without asking; 1024 is common, and meant for other programs."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # some systems name a limit that they do not grant
        _log.info("the limit of open files stays as it is")


@final
class AcceptTrouble:
    """The event loop's message that it cannot accept connections, logged once in a while and without a traceback."""

    def __init__(self) -> None:
        self._silent_until_s = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an exception of the event loop."""
        if context.get("message") != _ACCEPT_TROUBLE:
            loop.default_exception_handler(context)
            return
        if loop.time() >= self._silent_until_s:
            self._silent_until_s = loop.time() + _ACCEPT_LOG_PAUSE_S
            _log.error("cannot accept connections: %s; raise the limit of open files", context.get("exception"))


class BoundedConnection(H11Protocol):
    """
    One connection whose client has to keep moving.

    A header has to come within HEAD_TIMEOUT_S, and what waits to be sent has to be read on within READER_TIMEOUT_S.

    Where there are as many connections as this process has files for, the one that has had no request in hand for the
    longest time makes room for the next.

    Attributes:
        idle_since_s: when it began to wait for a header, by the event loop's clock.
        is_cut: whether it is about to end.
    """

    idle_since_s = 0.0
    is_cut = False
    _head_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for a header."""
        if len(self.connections) >= _most_connections() and not self._makes_room():
            transport.abort()
            return
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and wait on where it is no whole header."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_watching()
        self._stop_waiting_for_reader()
        if self in self.connections:  # it was not refused
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Begin to wait for a reader who is behind."""
        super().pause_writing()
        if self._reader_timer is None:
            self._reader_timer = self.loop.call_later(READER_TIMEOUT_S, self.cut)

    def resume_writing(self) -> None:
        """Go on with a reader who has caught up."""
        super().resume_writing()
        self._stop_waiting_for_reader()

    def shutdown(self) -> None:
        """End in good order, or without it where the client does not do its part in time."""
        super().shutdown()
        self.loop.call_later(ENDING_TIMEOUT_S, self._cut_where_client_is_slow)

    @property
    def is_idle(self) -> bool:
        """Whether no request is in hand."""
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr] # None at first

    def cut(self) -> None:
        """End the connection, whatever is still to be sent."""
        self.is_cut = True
        self.transport.abort()

    def _watch(self) -> None:
        if not self.is_idle:
            self._stop_watching()
        elif self._head_timer is None:
            self.idle_since_s = self.loop.time()
            self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.cut)

    def _stop_watching(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_waiting_for_reader(self) -> None:
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    def _makes_room(self) -> bool:
        others = [other for other in self.connections if isinstance(other, BoundedConnection)]
        idle = [other for other in others if other.is_idle and not other.is_cut]
        if idle:
            min(idle, key=attrgetter("idle_since_s")).cut()
        return bool(idle)

    def _cut_where_client_is_slow(self) -> None:
        if self.is_idle or self.cycle.more_body or self.flow.write_paused:
            self.cut()


def _most_connections() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    return min(max(_FEWEST_CONNECTIONS, soft - _OTHER_FILES), _MAX_CONNECTIONS)
