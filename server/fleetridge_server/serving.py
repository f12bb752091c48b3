"""Serving over HTTP: where to listen, when it is ready, how it ends."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from fleetridge_server.access.open_server import is_loopback
from fleetridge_server.app import create_app
from fleetridge_server.connections import AcceptTrouble, BoundedConnection, raise_file_limit
from fleetridge_server.settings import Settings

# Below the 30 s that Kubernetes and systemd leave a process to end.
_GRACE_S = 20

# As many connections as wait when a fleet's timers fire in the same second.
_BACKLOG = 2048


class ListenError(RuntimeError):
    """The server cannot, or must not, listen where it was told to; the message says what to do."""


class StartError(RuntimeError):
    """The server did not start, for a reason that it has logged."""


def serve(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """
    Serve until a signal ends it; calls that are in hand are finished.

    Args:
        settings: the database has this server's schema, and `require_safe_host` let the address pass.
        on_ready: is told the address once calls are answered.

    Raises:
        ListenError: as the message says.
        StartError: see there.
        SystemExit: with code 0, once a signal has ended it.
    """
    raise_file_limit()
    with _listening(settings) as listener:
        server = _Server(_config(settings), on_ready=lambda: on_ready(_address(listener)))
        # uvicorn takes these signals, finishes in good order, and raises them once more for what was there before it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: sys.exit(0))
        server.run(sockets=[listener])
    if not server.started:
        raise StartError("the server did not start; see above")


def require_safe_host(settings: Settings, *, has_token: bool) -> None:
    """
    Refuse to open the server to a network unasked.

    Args:
        settings: where to listen.
        has_token: whether there is, or ever was, a token, so that every call needs one.

    Raises:
        ListenError: others could reach it, and nothing asks who they are.
    """
    if not (has_token or settings.trust_network or is_loopback(settings.host)):
        raise ListenError(
            f"refusing to listen on {settings.host or 'every address'}: nobody needs a token yet, so that everyone who "
            "reaches it could read and write; make one with `fleetridge-server token create`, listen on 127.0.0.1, or "
            "say --trust-network where the network itself keeps others out"
        )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, *, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(AcceptTrouble())
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()


def _config(settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(settings),
        lifespan="on",
        loop="asyncio",  # the one whose trouble with connections `connections` knows
        http=BoundedConnection,
        ws="none",
        log_config=None,
        access_log=False,  # addresses may hold names, and a fleet makes many
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_GRACE_S,
    )


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; choose another --port "
            "or --host"
        ) from error
    with listener:
        yield listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
