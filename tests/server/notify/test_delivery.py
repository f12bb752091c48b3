"""Sending to a receiver, a kind one and hostile ones."""

from __future__ import annotations

import logging
import socket
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from fleetridge_server.notify import webhook
from fleetridge_server.notify.addresses import allowed_by
from fleetridge_server.notify.webhook import Delivered, Target, deliver, signature
from support.webhook_receiver import CERTIFICATE, Receiver, status, webhook_receiver

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

KEY = b"0123456789abcdef"
BODY = '{"version":"4","text":"ü"}'


def target(url: str, allow: str = "127.0.0.1") -> Target:
    return Target(httpx.URL(url), KEY, allowed_by(allow))


def sent(receiver: Receiver, allow: str = "127.0.0.1") -> Delivered:
    return deliver(target(receiver.url, allow), "id-1", BODY)


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let every name resolve to some addresses; the names that were looked up."""
    asked: list[str] = []

    def looked_up(host: str | bytes, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host.decode() if isinstance(host, bytes) else host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return asked


def test_a_message_arrives_signed() -> None:
    with webhook_receiver() as receiver:
        assert sent(receiver) == Delivered()

    [got] = receiver.received
    assert got.body == BODY.encode()
    assert got.path == "/hook/path-secret"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["webhook-id"] == "id-1"
    stamp = int(got.headers["webhook-timestamp"])
    assert abs(stamp - time.time()) < 60
    assert got.headers["webhook-signature"] == signature(KEY, "id-1", stamp, got.body)


def test_an_address_inside_the_network_is_not_called_unless_it_is_allowed() -> None:
    with webhook_receiver() as receiver:
        result = sent(receiver, allow="")

    assert receiver.received == []
    assert result.problem is not None
    assert "WEBHOOK_ALLOW" in result.problem


def test_a_name_that_resolves_to_this_machine_is_not_called() -> None:
    with webhook_receiver() as receiver:
        result = deliver(target(f"http://localhost:{receiver.port}/", allow=""), "id-1", BODY)

    assert receiver.received == []
    assert result.problem is not None
    assert "localhost is" in result.problem


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "192.168.0.1"])
def test_a_public_looking_name_that_resolves_inside_is_not_called(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, address)
    result = deliver(target("https://hook.example/", allow=""), "id-1", BODY)
    assert result.problem is not None
    assert address in result.problem


def test_the_address_that_was_checked_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves elsewhere at the next look-up finds no next look-up."""
    asked = resolve_to(monkeypatch, "127.0.0.1")
    with webhook_receiver() as receiver:
        url = f"http://hook.example:{receiver.port}/x"
        assert deliver(target(url, allow="hook.example"), "id-1", BODY) == Delivered()

    assert asked == ["hook.example"]
    assert receiver.received[0].headers["host"] == f"hook.example:{receiver.port}"


def test_where_one_address_does_not_answer_the_next_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    with webhook_receiver() as receiver:
        url = f"http://hook.example:{receiver.port}/"
        assert deliver(target(url, allow="hook.example"), "id-1", BODY) == Delivered()
    assert len(receiver.received) == 1


def test_https_is_checked_against_the_name_and_not_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The receiver's certificate is good for the address that is called, and for one of the two names."""
    resolve_to(monkeypatch, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with webhook_receiver(tls=True) as receiver:
        right = deliver(target(f"https://localhost:{receiver.port}/", "127.0.0.1"), "id-1", BODY)
        wrong = deliver(target(f"https://other.example:{receiver.port}/", "127.0.0.1"), "id-1", BODY)

    assert right == Delivered()
    assert wrong.problem is not None
    assert len(receiver.received) == 1


def test_a_certificate_that_nobody_vouches_for_is_not_trusted() -> None:
    with webhook_receiver(tls=True) as receiver:
        result = deliver(target(f"https://localhost:{receiver.port}/", "localhost"), "id-1", BODY)
    assert result.problem is not None
    assert receiver.received == []


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_no_redirect_is_followed(code: int) -> None:
    with webhook_receiver() as elsewhere, webhook_receiver(status(code, Location=elsewhere.url)) as receiver:
        result = sent(receiver)

    assert elsewhere.received == []
    assert result.problem is not None
    assert "WEBHOOK_URL" in result.problem
    assert not result.is_final


@pytest.mark.parametrize(("code", "is_final"), [(400, True), (413, True), (401, False), (404, False), (500, False)])
def test_only_a_message_that_is_wrong_in_itself_is_not_tried_again(code: int, is_final: bool) -> None:
    with webhook_receiver(status(code)) as receiver:
        result = sent(receiver)
    assert result.problem == f"127.0.0.1 answers with status {code}"
    assert result.is_final == is_final


def test_the_pause_that_a_receiver_asks_for_is_told() -> None:
    with webhook_receiver(status(429, Retry_After="120")) as receiver:
        assert sent(receiver).retry_after_s == 120


def test_an_answer_without_end_is_not_read() -> None:
    """The status says all; what follows may be gigabytes, or a byte a minute."""

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(100_000):
            handler.wfile.write(b"x" * 65536)

    with webhook_receiver(endless) as receiver:
        assert sent(receiver) == Delivered()


def test_a_receiver_that_dawdles_is_left_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that sends a byte now and then, which no time-out of a single read sees."""
    monkeypatch.setattr(webhook, "DEADLINE_S", 0.5)

    def dripping(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(400):
            handler.wfile.write(f"X-{number}: y\r\n".encode())
            handler.wfile.flush()
            time.sleep(0.02)

    with webhook_receiver(dripping) as receiver:
        result = sent(receiver)
    assert result.problem is not None
    assert "did not answer" in result.problem


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000])
def test_what_does_not_speak_http_is_a_failed_try(answer: bytes) -> None:
    def not_http(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(answer)

    with webhook_receiver(not_http) as receiver:
        result = sent(receiver)
    assert result.problem is not None
    assert "cannot be reached" in result.problem


def test_a_receiver_that_is_not_there_is_a_failed_try() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    result = deliver(target(f"http://127.0.0.1:{port}/"), "id-1", BODY)
    assert result.problem is not None
    assert not result.is_final


def test_a_name_that_nobody_knows_is_a_failed_try(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    result = deliver(target("https://hook.example/"), "id-1", BODY)
    assert result.problem is not None


def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the key nor the address beyond its host, whatever is logged elsewhere."""
    caplog.set_level(logging.DEBUG)
    with webhook_receiver(status(500)) as receiver:
        problem = sent(receiver).problem or ""
    logged = caplog.text + problem
    assert "path-secret" not in logged
    assert KEY.decode() not in logged


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would look the name up once more, and call what it finds."""
    with webhook_receiver() as proxy, webhook_receiver() as receiver:
        for name in ("HTTP_PROXY", "ALL_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert sent(receiver) == Delivered()
    assert proxy.received == []
