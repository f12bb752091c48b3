"""What the gpus of a check are held against: the fleet as its server answers, what is kept of it, or a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import httpx
from pydantic_core import from_json

from fleetridge.quantities import MIB, since
from fleetridge.terminal_text import shortened, visible
from fleetridge_agent.check.bands import Band, bands_of, keep_bands, kept_bands
from fleetridge_agent.check.baseline import Baseline
from fleetridge_agent.check.measured_gpu import MeasuredGpu
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

Ask = Callable[[str], Mapping[str, Any]]
"""Asks the server for the ridge of a device by its name; raises NoAnswerError."""


@dataclass(frozen=True, slots=True)
class ReferenceBands:
    """
    Bands for one gpu.

    Attributes:
        origin: where they are from, in words.
        is_answered: False where the server was to be asked and gave no answer.
        is_news: whether it is the first time that they are given.
    """

    bands: tuple[Band, ...]
    origin: str
    is_answered: bool = True
    is_news: bool = True


class Reference(Protocol):
    """Something that gpus are held against, which gives the bands for one of them."""

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:
        """Bands for this gpu; none where nothing is known that could be held against it."""
        ...


class BaselineReference:
    """Holds each gpu against a file that was kept earlier."""

    def __init__(self, baseline: Baseline, *, path: Path, tolerance: float, now: datetime) -> None:
        self._baseline = baseline
        self._path = path
        self._tolerance = tolerance
        self._now = now

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:
        """The gpu's own figures of then, else the median of those of its kind."""
        bands, whose = self._baseline.bands(subject, uuid, tolerance=self._tolerance)
        return ReferenceBands(bands, f"{whose}, baseline {self._path} of {since(self._now - self._baseline.saved_at)}")


class FleetReference:
    """
    Holds gpus against the fleet: what the server says, and if it does not answer, what it said last.

    Args:
        ask: the server; None where none is named.
        server: its address.
        state_dir: where answers are kept.
        now: the time.
        on_trouble: is told what went wrong on the way.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        server: str | None,
        state_dir: Path,
        now: Callable[[], datetime],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._server = server
        self._state_dir = state_dir
        self._now = now
        self._on_trouble = on_trouble
        self._held: dict[str, ReferenceBands] = {}

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:  # noqa: ARG002 # a fleet's band is nobody's own
        """The band of the gpu's device; asked for once."""
        known = self._held.get(subject.device)
        if known is not None:
            return replace(known, is_news=False)
        self._held[subject.device] = self._asked(subject.device)
        return self._held[subject.device]

    def _asked(self, device: str) -> ReferenceBands:
        if self._ask is None:
            return self._kept(device, "no server is named; give --server")
        try:
            answer = self._ask(device)
        except UnknownDeviceError as error:
            return ReferenceBands((), str(error))
        except NoAnswerError as error:
            return self._kept(device, str(error))
        self._keep(device, answer)
        return ReferenceBands(bands_of(answer), f"the fleet's band, from {self._server}")

    def _keep(self, device: str, answer: Mapping[str, Any]) -> None:
        try:
            keep_bands(self._state_dir, server=self._server or "", device=device, answer=answer, at=self._now())
        except OSError as error:
            self._on_trouble(f"the band cannot be kept in {self._state_dir} ({error.strerror}); give --state-dir")

    def _kept(self, device: str, why: str) -> ReferenceBands:
        kept = kept_bands(self._state_dir, device, server=self._server)
        if kept is None:
            return ReferenceBands((), f"no band: {why}; and none was kept earlier", is_answered=False)
        when = since(self._now() - kept.fetched_at)
        if not kept.is_usable(self._now()):
            return ReferenceBands(
                (), f"no band: {why}; the one that was kept {when} is of no use any more", is_answered=False
            )
        return ReferenceBands(bands_of(kept.answer), f"the fleet's band as kept {when}: {why}", is_answered=False)


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

    def asked() -> tuple[int, bytes]:
        with (
            open_http(server, timeouts=_TIMEOUTS, transport=transport) as http,
            http.stream("GET", url, params={"limit": 1}) as response,
        ):
            return response.status_code, b"".join(
                bounded(response.iter_bytes(), most_bytes=_MOST_BYTES, limit_s=_DEADLINE_S)
            )

    try:
        status, body = within(_CALL_DEADLINE_S, asked)
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
