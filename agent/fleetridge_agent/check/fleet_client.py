"""Asks the server for the bands of a device: one GET, bounded in size and time, and what its failures mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
from pydantic_core import from_json

from fleetridge.quantities import MIB
from fleetridge.terminal_text import shortened, visible
from fleetridge_agent.deliver.http import bounded, open_http, within
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.errors import AgentError

# A preflight has seconds; a server that needs longer is as good as none, as the last band is on disk.
_TIMEOUTS = httpx.Timeout(connect=3.0, read=10.0, write=5.0, pool=3.0)
_DEADLINE_S = 15.0

# Headers may drip in as well; with them and the connection a call takes no longer than this.
_CALL_DEADLINE_S = 25.0

# Bands of some hundred cohorts and one gpu take some hundred kilobytes.
_MOST_BYTES = 8 * MIB

_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 200, 401, 403, 404
_UNKNOWN_DEVICE = "unknown_device"

_LONGEST_CAUSE = 200

_REMEDY: Mapping[int, str] = {
    _UNAUTHORIZED: "the token is missing, wrong, expired or revoked; check --token-file",
    _FORBIDDEN: "the token may not read; give one with the scope `read` beside `ingest`",
    _NOT_FOUND: "there is no fleetridge server at this address; check --server",
}


class NoAnswerError(AgentError):
    """The server could not be asked; the message says why."""

    reason = "no_answer"


class UnknownDeviceError(NoAnswerError):
    """The server has no gpu of this device."""


def ridge_answer(server: Server, device: str, *, transport: httpx.BaseTransport | None = None) -> Mapping[str, Any]:
    """
    Answer to `GET /devices/{name}/ridge` with as few gpus as can be asked for.

    Raises:
        NoAnswerError: there was none, or not one of this shape.
        UsageError: certificates or a proxy cannot be used.
    """
    url = f"{server.url}/devices/{quote(device, safe='')}/ridge"

    def exchange() -> tuple[int, bytes]:
        """Status and body of the answer."""
        with (
            open_http(server, timeouts=_TIMEOUTS, transport=transport) as http,
            http.stream("GET", url, params={"limit": 1}) as response,
        ):
            return response.status_code, b"".join(
                bounded(response.iter_bytes(), most_bytes=_MOST_BYTES, limit_s=_DEADLINE_S)
            )

    try:
        status, body = within(_CALL_DEADLINE_S, exchange)
    except (httpx.HTTPError, httpx.StreamError) as error:
        cause = shortened(visible(str(error) or type(error).__name__), _LONGEST_CAUSE)
        raise NoAnswerError(f"{server.url} cannot be reached ({cause}); check --server and the network") from error
    return _content(status, body, device)


def _content(status: int, body: bytes, device: str) -> Mapping[str, Any]:
    content = _json(body)
    if status == _NOT_FOUND and content.get("code") == _UNKNOWN_DEVICE:
        raise UnknownDeviceError(f"the server has no gpu of the device {device!r} yet; let `run` report some first")
    if status != _OK:
        remedy = _REMEDY.get(status, "see the server's log")
        raise NoAnswerError(f"the server answered {status}: {remedy}")
    if not isinstance(content.get("cohorts"), list):
        raise NoAnswerError(
            "what answered is not a fleetridge server, or its answer was cut off; check --server and any proxy"
        )
    return content


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        content = from_json(body, allow_inf_nan=False)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
