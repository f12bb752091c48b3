"""
A proxy on this machine that does to each call what networks, proxies and dying servers do.

It takes one call per connection, as every answer of ours says `Connection: close`.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from uuid import uuid4

CALM = "calm"

_HEAD_END = b"\r\n\r\n"
_CHUNK_BYTES = 65536

# Close with a reset instead of an orderly end (socket(7), SO_LINGER with a time of 0).
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

_PAGE = b"<html><head><title>Welcome</title></head><body>Please log in to the network.</body></html>"


class FaultProxy:
    """
    Passes calls on to a server, each with the next fault of a script; calm once it has ended.

    Attributes:
        upstream: address of the server; may change while it runs.
        counts: how often each fault was done.
    """

    def __init__(self, upstream: str, script: Iterable[str], faults: Mapping[str, Fault]) -> None:
        self.upstream = upstream
        self.counts: Counter[str] = Counter()
        self._script = iter(script)
        self._faults = faults
        self._lock = threading.Lock()
        self._answers: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    @property
    def address(self) -> str:
        """Address that agents are given."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Take calls until `close`."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._handle, args=(client,))
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Take no further call, and wait for those under way."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def answer_of_before(self) -> bytes:
        """Answer of an earlier call, as a broken cache gives it."""
        return self._answers[0] if self._answers else b""

    def _handle(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = _read_request(client)
            if not request:
                return
            with self._lock:
                fault = next(self._script, CALM)
                self.counts[fault] += 1
            call = Call(self, client, request)
            self._faults[fault](call)
            self._answers.extend(call.answers[-1:])


@dataclass
class Call:
    """One call under way."""

    proxy: FaultProxy
    client: socket.socket
    request: bytes
    answers: list[bytes] = field(default_factory=list)

    def passed_on(self, *, up_to: float = 1.0, on_sent: Callable[[], None] = lambda: None) -> bytes:
        """
        Send the call on, or its first part; whole answer of the server, empty where there is none.

        Raises:
            OSError: the server is not there, or ends meanwhile.
        """
        upstream = urlsplit(self.proxy.upstream)
        with socket.create_connection((upstream.hostname or "", upstream.port or 0)) as server:
            server.sendall(self.request[: int(len(self.request) * up_to)])
            on_sent()
            if up_to < 1:
                return b""
            answer = b"".join(iter(lambda: server.recv(_CHUNK_BYTES), b""))
        self.answers.append(answer)
        return answer

    def say(self, answer: bytes) -> None:
        """Answer the agent."""
        self.client.sendall(answer)

    def reset(self) -> None:
        """End the connection the hard way once it is closed."""
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    def outlast(self) -> None:
        """Say nothing until the agent gives up."""
        while self.client.recv(_CHUNK_BYTES):
            pass


Fault = Callable[[Call], None]


def answer(status: str, body: bytes = b"", **headers: str) -> bytes:
    """An HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + _HEAD_END + body


@contextmanager
def fault_proxy(
    upstream: str, script: Iterable[str] = (), faults: Mapping[str, Fault] | None = None
) -> Iterator[FaultProxy]:
    """Run a proxy while the block runs; the script names one fault a call, and calm is what follows."""
    proxy = FaultProxy(upstream, script, FAULTS if faults is None else faults)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()


def _read_request(client: socket.socket) -> bytes:
    """Bytes of a whole call, with an end to the connection asked for; empty where the agent has gone."""
    received = bytearray()
    while _HEAD_END not in received:
        chunk = client.recv(_CHUNK_BYTES)
        if not chunk:
            return b""
        received += chunk
    head, _, body = bytes(received).partition(_HEAD_END)
    lines = head.decode("latin-1").split("\r\n")
    length = next(int(line.partition(":")[2]) for line in lines if line.lower().startswith("content-length:"))
    while len(body) < length:
        chunk = client.recv(_CHUNK_BYTES)
        if not chunk:
            return b""
        body += chunk
    kept = [line for line in lines if not line.lower().startswith("connection:")]
    return "\r\n".join([*kept, "Connection: close"]).encode("latin-1") + _HEAD_END + body


def _drop_before(_: Call) -> None:
    """The call never arrives, and the connection ends."""


def _reset_before(call: Call) -> None:
    call.reset()


def _drop_after(call: Call) -> None:
    """The server has it, and its answer is lost."""
    call.passed_on()


def _reset_after(call: Call) -> None:
    call.passed_on()
    call.reset()


def _silent(call: Call) -> None:
    call.outlast()


def _late(call: Call) -> None:
    """The server has it, and the agent's patience ends before the answer."""
    call.passed_on()
    call.outlast()


def _cut_call(call: Call) -> None:
    call.passed_on(up_to=0.6)


def _cut_answer(call: Call) -> None:
    """Half the answer, and the end of the connection."""
    text = call.passed_on()
    call.say(text[: len(text) - len(text.partition(_HEAD_END)[2]) // 2])


def _cut_answer_of_no_length(call: Call) -> None:
    """Half the answer, in a form in which only its content can tell."""
    body = call.passed_on().partition(_HEAD_END)[2]
    call.say(b"HTTP/1.0 200 OK\r\nContent-Type: application/json" + _HEAD_END + body[: len(body) // 2])


def _cut_head(call: Call) -> None:
    call.say(call.passed_on()[:40])


def _drip(call: Call) -> None:
    text = call.passed_on()
    for position in range(len(text)):
        call.say(text[position : position + 1])


def _twice(call: Call) -> None:
    """A proxy that repeats a call; the second answer is the one that arrives."""
    call.passed_on()
    call.say(call.passed_on())


def _twice_at_once(call: Call) -> None:
    other = threading.Thread(target=call.passed_on)
    other.start()
    text = call.passed_on()
    other.join()
    call.say(text)


def _answer_of_before(call: Call) -> None:
    """The server has it, and a broken cache answers with what it said of another call."""
    call.passed_on()
    call.say(call.proxy.answer_of_before())


def _strangers_only(call: Call) -> None:
    """An answer in our shape that speaks of reports that nobody sent."""
    listed = [{"report_id": str(uuid4()), "outcome": word} for word in ("created", "rejected")]
    call.say(answer("200 OK", json.dumps({"results": listed}).encode()))


def _first_only(call: Call) -> None:
    """An answer that speaks of the first report and forgets the others."""
    body = json.loads(call.passed_on().partition(_HEAD_END)[2])
    call.say(answer("200 OK", json.dumps({"results": body.get("results", [])[:1]}).encode()))


def _each_twice(call: Call) -> None:
    """An answer that says everything two times."""
    body = json.loads(call.passed_on().partition(_HEAD_END)[2])
    call.say(answer("200 OK", json.dumps({"results": body.get("results", []) * 2}).encode()))


def _saying(status: str, body: bytes = b"", **headers: str) -> Fault:
    """A proxy that answers for itself."""
    return lambda call: call.say(answer(status, body, **headers))


def _calm(call: Call) -> None:
    call.say(call.passed_on())


FAULTS: Mapping[str, Fault] = {
    CALM: _calm,
    "dropped before the server": _drop_before,
    "reset before the server": _reset_before,
    "dropped after the server": _drop_after,
    "reset after the server": _reset_after,
    "silence": _silent,
    "answer too late": _late,
    "call cut off": _cut_call,
    "answer cut off": _cut_answer,
    "answer of no length cut off": _cut_answer_of_no_length,
    "answer cut off in its head": _cut_head,
    "answer byte by byte": _drip,
    "call twice": _twice,
    "call twice at once": _twice_at_once,
    "answer of an earlier call": _answer_of_before,
    "answer about strangers": _strangers_only,
    "answer about the first only": _first_only,
    "answer says all twice": _each_twice,
    "garbage": lambda call: call.say(b"\x16\x03\x01 no HTTP \x00\xff" * 50),
    "200 login page": _saying("200 OK", _PAGE, Content_Type="text/html"),
    "200 empty": _saying("200 OK"),
    "200 other JSON": _saying("200 OK", b'{"status": "ok"}', Content_Type="application/json"),
    "200 broken gzip": _saying("200 OK", b"no gzip at all", Content_Encoding="gzip"),
    "204": _saying("204 No Content"),
    "302 to a login": _saying("302 Found", Location="http://login.example/"),
    "400": _saying("400 Bad Request", _PAGE),
    "401": _saying("401 Unauthorized"),
    "403 of a proxy": _saying("403 Forbidden", _PAGE, Content_Type="text/html"),
    "404": _saying("404 Not Found", _PAGE),
    "408": _saying("408 Request Timeout"),
    "413": _saying("413 Content Too Large"),
    "429 in seconds": _saying("429 Too Many Requests", Retry_After="1"),
    "429 by date": _saying(
        "429 Too Many Requests",
        Date="Sun, 29 Nov 2026 11:00:00 GMT",
        Retry_After="Sun, 29 Nov 2026 11:00:05 GMT",
    ),
    "429 for an hour": _saying("429 Too Many Requests", Retry_After="3600"),
    "500": _saying("500 Internal Server Error", b'{"title": "Something broke"}'),
    "502": _saying("502 Bad Gateway", _PAGE),
    "503": _saying("503 Service Unavailable", Retry_After="0"),
    "504": _saying("504 Gateway Timeout", _PAGE),
}
