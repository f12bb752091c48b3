"""The address of the server and the token for it, once the address is safe to send a token to."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fleetridge_agent.errors import UsageError

if TYPE_CHECKING:
    import httpx

_LOOPBACK_NAME = "localhost"

# RFC 9293, 3.1: ports have 16 bits.
_HIGHEST_PORT = 2**16 - 1


@dataclass(frozen=True, slots=True)
class Server:
    """
    Where reports go, and who sends them.

    Attributes:
        url: without a slash at the end; a path before `/reports` is kept.
        token: bearer token, never printed; None where the server asks for none.
        ca_file: certificates of the authorities that are believed, in place of the usual ones.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether calls stay on this machine."""
        import httpx  # noqa: PLC0415 # a server is a value, and only calling it is worth a tenth of a second

        return _is_loopback(httpx.URL(self.url).host)


def server_at(url: str, *, token: str | None, allow_plain_http: bool = False, ca_file: Path | None = None) -> Server:
    """
    Server at an address, once it is safe to talk to.

    Raises:
        UsageError: not an http or https address, one that holds a password, or a token that would travel in the clear.
    """
    import httpx  # noqa: PLC0415 # as in `is_loopback`

    try:
        parsed = httpx.URL(url.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise UsageError(f"--server: not an address ({error}); give one such as https://fleetridge.example") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment:
        raise UsageError("--server: give an http or https address without query, such as https://fleetridge.example")
    if not _can_be_called(parsed):
        raise UsageError("--server: no machine can have this name and port; give an address such as https://host:8443")
    if parsed.userinfo:
        raise UsageError("--server: an address must not hold a password; put the token in a file and use --token-file")
    server = Server(str(parsed), token, ca_file)
    if token and parsed.scheme == "http" and not server.is_loopback and not allow_plain_http:
        raise UsageError(
            "--server: a token over plain http can be read on its way; use https, or --allow-plain-http where the "
            "network is trusted"
        )
    return server


def _can_be_called(url: httpx.URL) -> bool:
    """Whether the name can be looked up and the port exists; what httpx lets pass, the socket trips over."""
    try:
        url.host.encode("idna")
    except UnicodeError:
        return False
    return url.port is None or 0 < url.port <= _HIGHEST_PORT


def _is_loopback(host: str) -> bool:
    if host == _LOOPBACK_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
