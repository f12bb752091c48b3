"""
A server without a token: open to whoever reaches it, so that not everybody shall.

It listens on this machine alone, or its operator trusts the network. A browser on this machine is reached by every page
that it shows: pages of others may neither send anything here nor read under a name that they made point here.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import Scope

from fleetridge_server.access.credentials import refused
from fleetridge_server.problems import ProblemError

if TYPE_CHECKING:
    from fleetridge_server.access.guard import DoorRules

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_REMEDY = "make a token with `fleetridge-server token create`, then every caller needs one"


def require_friendly(scope: Scope, rules: DoorRules) -> None:
    """
    Make sure that a request without any token may be answered.

    Raises:
        ProblemError: 401 where others can reach the server; 403 for what a page of somebody else sends.
    """
    if not (rules.is_loopback or rules.trust_network):
        raise refused("no_token_made", f"there is no token yet, and this address is public; {_REMEDY}")
    host = _header(scope, b"host")
    if not rules.trust_network and not is_loopback(_name_of(host)):
        detail = (
            f"without a token this server answers to 127.0.0.1 and localhost alone, not to {host!r}; {_REMEDY}, or "
        )
        detail += "start it with --trust-network"
        raise ProblemError(403, "foreign_host", "Not under this name", detail)
    origin = _header(scope, b"origin")
    if scope["method"] not in _SAFE_METHODS and origin and urlsplit(origin).netloc.lower() != host.lower():
        detail = f"a page of {origin!r} may not send anything here; {_REMEDY}"
        raise ProblemError(403, "foreign_origin", "Not from another site", detail)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _name_of(host: str) -> str:
    """Host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
