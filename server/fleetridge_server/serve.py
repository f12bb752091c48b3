"""Serving over HTTP: where to listen, when it is ready, how it ends."""

import argparse
import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from fleetridge_server.app import create_app
from fleetridge_server.auth.tokens import is_any_token
from fleetridge_server.db.database import open_database
from fleetridge_server.db.locks import sole_server
from fleetridge_server.db.schema import check_rights, check_schema, migrate, ownership_warning
from fleetridge_server.http.authentication import is_loopback
from fleetridge_server.http.rate_limits import AcceptTrouble, BoundedConnection, raise_file_limit
from fleetridge_server.settings import Settings

# For calls that are in hand at the end. With the default time to drain before and the farewell of tasks after it, it
# stays below the 30 s that Kubernetes leaves a process to end.
_GRACE_S = 15

# Two rounds of a proxy that asks every two seconds whether the server is ready.
_DRAIN_S = 5.0

# As many connections as wait when a fleet's timers fire in the same second.
_BACKLOG = 2048

_log = logging.getLogger(__name__)


class ListenError(RuntimeError):
    """The server cannot, or must not, listen where it was to; the message says what to do."""


class StartError(RuntimeError):
    """The server did not start, for a reason that it has logged."""


def serve(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """
    Serve until a signal ends it; calls that are in hand are finished.

    Upon SIGTERM the server is no longer ready, and goes on for `settings.drain`; then it takes no more connections and
    finishes what it has in hand. SIGINT, or a second signal, leaves the first part out.

    Args:
        settings: the database has this server's schema, and `require_safe_host` let the address pass.
        on_ready: called with the address once calls are answered.

    Raises:
        ListenError: as the message says.
        StartError: see there.
        SystemExit: with code 0, once a signal has ended it.
    """
    raise_file_limit()
    with listening(settings) as listener:
        server = _Server(
            create_app(settings), on_ready=lambda: on_ready(_address(listener)), drain_s=drain_time_s(settings)
        )
        # uvicorn takes these signals, finishes in good order, and raises them once more for what was there before it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: sys.exit(0))
        server.run(sockets=[listener])
    if not server.started:
        raise StartError("the server did not start; see above")


def serve_command(options: argparse.Namespace, settings: Settings) -> int:
    """Carry out `fleetridge-server serve`; its exit code. Raises as `serve` does, and where the database is unfit."""
    with sole_server(settings.database_url):
        if options.migrate:
            migrate(settings.database_url)
        require_safe_host(settings, has_token=_needs_token(settings))
        serve(settings, on_ready=_print_address)
    return 0


def _print_address(address: str) -> None:
    print(f"fleetridge-server listens on {address}", flush=True)  # noqa: T201 # a command prints its answer


def _needs_token(settings: Settings) -> bool:
    """Whether calls need a token, as there ever was one; before that, whether the database is fit to be served."""
    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        check_rights(database.engine)
        lacking = ownership_warning(database.engine)
        if lacking is not None:
            _log.warning("%s", lacking)
        with database.reading() as session:
            return is_any_token(session)


def require_safe_host(settings: Settings, *, has_token: bool) -> None:
    """
    Refuse to open the server to a network unasked, where calls need no token as there never was one.

    Raises:
        ListenError: others could reach it, and nothing asks who they are.
    """
    if not (has_token or settings.trust_network or is_loopback(settings.host)):
        raise ListenError(
            f"refusing to listen on {settings.host or 'every address'}: nobody needs a token yet, so that everyone who "
            "reaches it could read and write; make one with `fleetridge-server token create`, listen on 127.0.0.1, or "
            "say --trust-network where the network itself keeps others out"
        )


def drain_time_s(settings: Settings) -> float:
    """How long to go on after SIGTERM, in seconds: as the settings say, else what proxies need that may be there."""
    if settings.drain is not None:
        return settings.drain.total_seconds()
    return 0.0 if is_loopback(settings.host) else _DRAIN_S


class _Server(uvicorn.Server):
    def __init__(self, app: FastAPI, *, on_ready: Callable[[], None], drain_s: float) -> None:
        super().__init__(_config(app))
        self._app = app
        self._on_ready = on_ready
        self._drain_s = drain_s
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, say so, and keep the collector of garbage from looking at all modules ever again."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(AcceptTrouble())
        await super().startup(sockets=sockets)
        if self.started:
            # Else the collector of garbage looks at all modules again and again: a tenth of a second in which nobody is
            # answered, with every hundredth page.
            gc.collect()
            gc.freeze()
            self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to end, between any two steps of the program."""
        may_drain = sig == signal.SIGTERM and self.started and not self._app.state.is_ending
        self._app.state.is_ending = True
        if may_drain and self._loop is not None:
            self._loop.call_soon_threadsafe(self._drain, sig)
        else:
            super().handle_exit(sig, frame)

    def _drain(self, sig: int) -> None:
        _log.info("no longer ready; ending in %g s", self._drain_s)
        asyncio.get_running_loop().call_later(self._drain_s, super().handle_exit, sig, None)


def _config(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
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
def listening(settings: Settings) -> Iterator[socket.socket]:
    """Socket that listens where the settings say. Raises ListenError: it cannot."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}; choose another --port "
            "or --host"
        ) from error
    with listener:
        # Else the second part of each answer waits until the client has acknowledged the first, often 40 ms. The event
        # loop sets this itself only on sockets that name their protocol, which Python's do not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield listener


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
