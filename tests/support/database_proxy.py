"""A proxy between the server and PostgreSQL that loses the connection around a commit."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Loss = Literal["before the commit", "after the commit"]

_CHUNK_BYTES = 65536

# The message of a plain query in PostgreSQL's protocol: its kind, its length, its text.
_COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"

# What only a transaction that writes has before it.
_INSERT = b"INSERT INTO"


class DatabaseProxy:
    """
    Passes connections on to a socket of PostgreSQL.

    Attributes:
        loss: what becomes of the connection that commits next what it has written; None lets it be.
        lost: how many were lost.
    """

    def __init__(self, upstream: Path) -> None:
        self.loss: Loss | None = None
        self.lost = 0
        self._upstream = upstream
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        """Port of this machine that it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Take connections until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._upstream))
            self._open += [client, server]
            passage = _Passage(self.take_loss, client, server)
            for pump in (passage.to_server, passage.to_client):
                thread = threading.Thread(target=pump)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """End all connections."""
        for own in (self._listener, *self._open):
            _end(own)
        for thread in self._threads:
            thread.join()
        for own in (self._listener, *self._open):
            own.close()

    def take_loss(self) -> Loss | None:
        """What becomes of the commit in hand."""
        with self._lock:
            loss, self.loss = self.loss, None
            self.lost += loss is not None
            return loss


@dataclass
class _Passage:
    """One connection on its way through the proxy."""

    take_loss: Callable[[], Loss | None]
    client: socket.socket
    server: socket.socket
    has_written: bool = False
    is_mute: bool = False

    def to_server(self) -> None:
        with suppress(OSError):
            while chunk := self.client.recv(_CHUNK_BYTES):
                self.has_written |= _INSERT in chunk
                loss = self._loss_of(chunk)
                if loss == "before the commit":
                    break
                self.is_mute = loss is not None
                self.server.sendall(chunk)
        _end(self.client)
        if not self.is_mute:
            _end(self.server)

    def to_client(self) -> None:
        with suppress(OSError):
            while (chunk := self.server.recv(_CHUNK_BYTES)) and not self.is_mute:
                self.client.sendall(chunk)
        _end(self.client)
        _end(self.server)

    def _loss_of(self, chunk: bytes) -> Loss | None:
        if _COMMIT not in chunk or not self.has_written:
            return None
        self.has_written = False
        return self.take_loss()


@contextmanager
def database_proxy(upstream: Path) -> Iterator[DatabaseProxy]:
    """Run a proxy while the block runs."""
    proxy = DatabaseProxy(upstream)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
