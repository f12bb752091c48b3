"""How a server is reached: real sockets, real TLS, real proxies."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from fleetridge_agent.deliver.http import open_http
from fleetridge_agent.deliver.server_address import Server, server_at
from fleetridge_agent.errors import UsageError

CERTIFICATE = Path(__file__).parents[2] / "fixtures" / "tls" / "certificate.pem"
TOKEN = "made-up"  # noqa: S105 # opens nothing
PATIENCE = httpx.Timeout(60)

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@dataclass
class Listener:
    """A server of the standard library that notes what it is asked."""

    address: str
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def listening(status: int = 200, *, tls: bool = False, **answer_headers: str) -> Iterator[Listener]:
    """A server on any free port, which answers every request alike."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            listener.asked.append(f"{self.command} {self.path}")
            listener.headers.append(dict(self.headers))
            self.send_response(status)
            for name, value in answer_headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    for method in ("GET", "POST", "CONNECT"):
        setattr(Handler, f"do_{method}", Handler.answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    listener = Listener(f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def get(server: Server, path: str = "/readyz") -> httpx.Response:
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    with open_http(server, headers=headers, timeouts=PATIENCE) as http:
        return http.get(f"{server.url}{path}")


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with listening(tls=True) as listener, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        get(Server(listener.address))


def test_a_certificate_of_an_authority_of_ones_own_is_believed_once_it_is_named() -> None:
    with listening(tls=True) as listener:
        assert get(Server(listener.address, ca_file=CERTIFICATE)).status_code == 200


def test_a_certificate_for_another_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolved(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    with listening(tls=True) as listener:
        port = int(listener.address.rpartition(":")[2])
        monkeypatch.setattr("socket.getaddrinfo", resolved)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            get(Server(f"https://fleet.example:{port}", ca_file=CERTIFICATE))


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_authorities_that_cannot_be_read_are_a_wrong_call(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)

    with pytest.raises(UsageError, match=r"certificates cannot be read .* check --ca-file"):
        get(Server("https://f.example", ca_file=tmp_path / "ca.pem"))


def test_a_redirect_is_not_followed_and_takes_the_token_nowhere() -> None:
    with listening() as other, listening(307, Location=other.address) as listener:
        assert get(Server(listener.address, TOKEN)).status_code == 307
        assert other.asked == []


def test_calls_go_by_way_of_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address.replace("http://", "http://me:hunter2@"))
        assert get(Server("http://fleet.example")).status_code == 200

    assert proxy.asked == ["GET http://fleet.example/readyz"]
    assert proxy.headers[0]["Proxy-Authorization"].startswith("Basic ")


def test_tls_goes_through_the_proxy_and_shows_it_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(502) as proxy:
        monkeypatch.setenv("https_proxy", proxy.address)
        with pytest.raises(httpx.ProxyError):
            get(Server("https://fleet.example", TOKEN))

    assert proxy.asked == ["CONNECT fleet.example:443"]
    assert TOKEN not in str(proxy.headers)


def test_no_proxy_takes_a_server_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("NO_PROXY", "fleet.invalid")
        with pytest.raises(httpx.ConnectError):
            get(Server("http://fleet.invalid"))

    assert proxy.asked == []


def test_calls_to_this_machine_never_go_by_way_of_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as proxy, listening() as listener:
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        monkeypatch.setenv("ALL_PROXY", proxy.address)
        assert get(Server(listener.address)).status_code == 200

    assert (proxy.asked, listener.asked) == ([], ["GET /readyz"])


@pytest.mark.parametrize("address", ["ftp://me:hunter2@proxy", "http://me:hunter2@proxy:port", "://"])
def test_a_proxy_that_cannot_be_used_is_a_wrong_call_without_its_password(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", address)

    with pytest.raises(UsageError, match="the proxy cannot be used") as raised:
        get(Server("https://f.example"))
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://127.0.0.2", "http://[::1]:8000", "https://f.example"])
def test_a_token_may_travel_to_this_machine_and_under_tls(url: str) -> None:
    assert server_at(url, token=TOKEN).token == TOKEN


@pytest.mark.parametrize("url", ["http://f.example", "http://localhost.f.example", "http://10.0.0.1", "http://0.0.0.0"])
def test_a_token_travels_in_the_clear_nowhere_else_unless_told_so(url: str) -> None:
    with pytest.raises(UsageError, match="--allow-plain-http"):
        server_at(url, token=TOKEN)

    assert server_at(url, token=TOKEN, allow_plain_http=True).url == url


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://a..b", f"http://{'a' * 64}.example"])
def test_an_address_that_no_machine_can_have_is_a_wrong_call(url: str) -> None:
    with pytest.raises(UsageError, match="--server"):
        server_at(url, token=None)
