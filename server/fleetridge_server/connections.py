"""
Connections: how long a client may take for its part, and how many there may be.

uvicorn waits without end for the head of a request and for a client that reads nothing; whoever opens connections and
says nothing would use up every file that this process may open.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from operator import attrgetter
from typing import Any, final

from uvicorn.protocols.http.h11_impl import H11Protocol

# A head is some hundred bytes, one packet. Longer than any network needs to send it again a few times.
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
    """What the event loop tells when it cannot accept connections, said once in a while and without a traceback."""

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

    A head has to come within HEAD_TIMEOUT_S, and what waits to be sent has to be read on within READER_TIMEOUT_S.

    Where there are as many connections as this process has files for, the one that has had no request in hand for the
    longest time makes room for the next.

    Attributes:
        idle_since_s: when it began to wait for a head, by the event loop's clock.
        is_cut: whether it is about to end.
    """

    idle_since_s = 0.0
    is_cut = False
    _head_timer: asyncio.TimerHandle | None = None
    _reader_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for a head."""
        if len(self.connections) >= _most_connections() and not self._makes_room():
            transport.abort()
            return
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what has come, and wait on where it is no whole head."""
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
