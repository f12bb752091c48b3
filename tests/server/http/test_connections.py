from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fleetridge_server.http import rate_limits
from fleetridge_server.http.rate_limits import AcceptTrouble, BoundedConnection
from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HALF_A_HEAD = b"GET / HTTP/1.1\r\nHos"
HEAD = b"GET / HTTP/1.1\r\nHost: server\r\n\r\n"

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def answer_alive(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
    """An application that always answers."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"alive"})


def talk(conversation: Callable[[Callable[[], Awaitable[Client]]], Awaitable[bytes]], app: Any = answer_alive) -> bytes:
    """What a conversation with such a server ends with; it is given a way to connect."""

    async def served() -> bytes:
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        protocol = partial(BoundedConnection, config=config, server_state=ServerState(), app_state={})
        server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        async with server:
            return await asyncio.wait_for(conversation(partial(asyncio.open_connection, host, port)), PATIENCE_S)

    return asyncio.run(served())


async def until_the_end(reader: asyncio.StreamReader) -> bytes:
    """All that still comes; an abrupt end is an end."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD])
def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """Whether nothing of it came or half."""
    monkeypatch.setattr(rate_limits, "HEAD_TIMEOUT_S", 0.05)

    async def conversation(connect: Callable[[], Awaitable[Client]]) -> bytes:
        reader, writer = await connect()
        writer.write(sent)
        rest = await until_the_end(reader)
        writer.close()
        return rest

    assert talk(conversation) == b""


def test_a_second_head_that_stops_halfway_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first whole one buys no patience."""
    monkeypatch.setattr(rate_limits, "HEAD_TIMEOUT_S", 0.05)

    async def conversation(connect: Callable[[], Awaitable[Client]]) -> bytes:
        reader, writer = await connect()
        writer.write(HEAD)
        first = await reader.readuntil(b"alive")
        writer.write(HALF_A_HEAD)
        rest = await until_the_end(reader)
        writer.close()
        return first + rest

    assert talk(conversation).endswith(b"alive")


@pytest.mark.parametrize("reads_a_little", [False, True])
def test_an_answer_that_nobody_reads_ends_the_connection(monkeypatch: pytest.MonkeyPatch, reads_a_little: bool) -> None:
    """Also where a few bytes are read now and then; its memory is given back."""
    monkeypatch.setattr(rate_limits, "READER_TIMEOUT_S", 0.3)
    answered = asyncio.Event()

    async def answer_endlessly(_scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * (64 * 1024**2)})
        answered.set()

    async def conversation(connect: Callable[[], Awaitable[Client]]) -> bytes:
        reader, writer = await connect()
        writer.write(HEAD)
        while reads_a_little and not answered.is_set():
            await reader.read(10)
            await asyncio.sleep(0.01)
        await answered.wait()
        writer.close()
        return b"the server went on"

    assert talk(conversation, answer_endlessly) == b"the server went on"


def test_whoever_waits_longest_makes_room_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that connections which say nothing keep nobody out."""
    monkeypatch.setattr(rate_limits, "_most_connections", lambda: 3)

    async def conversation(connect: Callable[[], Awaitable[Client]]) -> bytes:
        silent = []
        for _ in range(10):
            silent.append(await connect())
            silent[-1][1].write(HALF_A_HEAD)
        reader, writer = await connect()
        writer.write(HEAD)
        answer = await reader.readuntil(b"alive")
        for _, other in [*silent, (reader, writer)]:
            other.close()
        return answer

    assert talk(conversation).startswith(b"HTTP/1.1 200")


def test_connections_that_cannot_be_accepted_are_told_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """The event loop tells of each, with a traceback."""
    loop, trouble = asyncio.new_event_loop(), AcceptTrouble()
    context = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many open files")}

    with caplog.at_level(logging.INFO):
        for _ in range(1000):
            trouble(loop, context)
    loop.close()

    [record] = caplog.records
    assert "limit of open files" in record.getMessage()
    assert record.exc_info is None


def test_any_other_trouble_of_the_event_loop_is_told_in_full(caplog: pytest.LogCaptureFixture) -> None:
    """It is a fault of our own."""
    loop = asyncio.new_event_loop()
    AcceptTrouble()(loop, {"message": "something else", "exception": ValueError("why")})
    loop.close()

    assert "something else" in caplog.text
    assert "why" in caplog.text
