"""A receiver of webhooks on this machine, which keeps what it gets and answers as a test wishes."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = Path(__file__).parents[1] / "fixtures" / "tls" / "certificate.pem"
"""Of `localhost` and 127.0.0.1, signed by itself."""

_KEY = CERTIFICATE.with_name("key.pem")


@dataclass(frozen=True)
class Received:
    """One request: its path, its headers in lower case, its body."""

    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """An answer without a body; underscores in names of headers stand for hyphens."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in {"Content-Length": "0", **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()

    return answer


@dataclass
class Receiver:
    """
    What came, and how the next calls are answered; once the answers are used up, each call is answered with 200.

    Attributes:
        url: of plain http on 127.0.0.1.
        port: where it listens.
    """

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Address with a path that nobody is to see in a log."""
        return f"http://127.0.0.1:{self.port}/hook/path-secret"


@contextmanager
def webhook_receiver(*answers: Answer, tls: bool = False) -> Iterator[Receiver]:
    """Listen on any free port of this machine for as long as the block lasts."""
    receiver = Receiver(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.received.append(Received(self.path, headers, self.rfile.read(length)))
            answer = receiver.answers.pop(0) if receiver.answers else status(200)
            with contextlib.suppress(OSError):  # whoever called may not wait for the end
                answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, _KEY)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign] # a caller that hangs up is no error here
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
