"""Posting reports to a running server as agents do: a node's reports together, gzip, again where that helps."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from ipaddress import ip_address
from itertools import islice
from pathlib import Path
from typing import final

import httpx
from pydantic import ValidationError

import fleetridge
from fleetridge.report import Report
from fleetridge.strict_json import as_printable
from fleetridge.token_file import MOST_TOKEN_BYTES, token_of
from fleetridge_server.intake.examine import Result, Results
from fleetridge_server.problems import shortened

# Reports of one call: some hundred kilobytes of JSON, stored in a fraction of a second.
_BATCH = 64

_TIMEOUTS = httpx.Timeout(connect=5.0, read=60.0, write=60.0, pool=5.0)

# A server that restarts or clears a queue is back within half a minute.
_TRIES = 6
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_AGAIN = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})

_LONGEST_QUOTE = 300


class AddressError(ValueError):
    """The server's address or the token's file cannot be used; the message says what to give instead."""


class PostingError(RuntimeError):
    """The server is not there or does not take the reports; the message says what to do."""


@dataclass(frozen=True, slots=True)
class PostOutcome:
    """How many reports are stored now, and how many the server had."""

    stored: int = 0
    known: int = 0

    def __add__(self, other: PostOutcome) -> PostOutcome:
        return PostOutcome(self.stored + other.stored, self.known + other.known)


@final
class Poster:
    """
    Posts to one server.

    Args:
        server: http or https address, a path before `/reports` is kept.
        token: bearer token; None where the server asks for none.
        transport: stands in for the network in tests.
        pause: waits for some seconds.

    Raises:
        AddressError: no address, one with a password in it, or a token that would travel in the clear.
    """

    def __init__(
        self,
        server: str,
        *,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = _checked(server, has_token=token is not None)
        self._pause = pause
        self._was_heard = False
        headers = {"User-Agent": f"fleetridge-server/{fleetridge.__version__}", "Content-Encoding": "gzip"}
        headers |= {"Content-Type": "application/json", "Accept": "application/json"}
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        # A proxy from the environment would send calls to this very machine somewhere else.
        self._http = httpx.Client(
            transport=transport,
            timeout=_TIMEOUTS,
            follow_redirects=False,
            trust_env=not _is_loopback(httpx.URL(self.server).host),
            headers=headers,
        )

    def __enter__(self) -> Poster:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def post(self, reports: Iterable[Report], *, ahead: timedelta = timedelta(0)) -> PostOutcome:
        """
        Post a node's reports, in calls of bounded size.

        Args:
            reports: in their order.
            ahead: how far the node's clock is ahead of the true time.

        Raises:
            PostingError: see there; what was posted before stays.
        """
        posted, left = PostOutcome(), iter(reports)
        while batch := list(islice(left, _BATCH)):
            posted += self._taken(batch, ahead)
        return posted

    def _taken(self, batch: Sequence[Report], ahead: timedelta) -> PostOutcome:
        answer = self._answer(batch, ahead)
        try:
            results = Results.model_validate_json(answer.content).results
        except ValidationError as error:
            raise PostingError(f"{self.server} does not answer as a fleetridge-server does; check --server") from error
        rejected = [result for result in results if result.outcome == "rejected"]
        if rejected or len(results) != len(batch):
            raise PostingError(f"{self.server} rejects simulated reports ({_first_fault(rejected)}); is it older?")
        # A conflict is one that another version of this program posted.
        stored = sum(result.outcome == "created" for result in results)
        return PostOutcome(stored, len(batch) - stored)

    def _answer(self, batch: Sequence[Report], ahead: timedelta) -> httpx.Response:
        for tries in range(1, _TRIES + 1):
            problem, pause_s = self._one_try(batch, ahead)
            if isinstance(problem, httpx.Response):
                return problem
            if pause_s is None or tries == _TRIES:
                raise PostingError(problem)
            self._pause(min(pause_s + _FIRST_PAUSE_S * 2.0 ** (tries - 1), _LONGEST_PAUSE_S))
        raise AssertionError("unreachable: the last try returns or raises")

    def _one_try(self, batch: Sequence[Report], ahead: timedelta) -> tuple[httpx.Response | str, float | None]:
        """Answer, or what is wrong; and how long the server wants to be left alone, None where trying is no use."""
        content = gzip.compress(_envelope(batch, datetime.now(timezone.utc) + ahead), mtime=0)
        try:
            answer = self._http.post(f"{self.server}/reports", content=content)
        except httpx.TransportError as error:
            remedy = "start one with `fleetridge-server serve --migrate`, or name another with --server"
            problem = f"no server answers at {self.server} ({str(error) or type(error).__name__}); {remedy}"
            return problem, 0.0 if self._was_heard else None
        self._was_heard = True
        if answer.status_code == HTTPStatus.OK:
            return answer, None
        is_worth_it = answer.is_server_error or answer.status_code in _AGAIN
        return self._refusal(answer), _wanted_pause_s(answer) if is_worth_it else None

    def _refusal(self, answer: httpx.Response) -> str:
        said = shortened(as_printable(" ".join(answer.text.split())), _LONGEST_QUOTE)
        if answer.is_redirect:
            return f"{self.server} sends callers elsewhere; name that address with --server"
        if answer.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return f"{self.server} wants another token (status {answer.status_code}); name its file with --token-file"
        return f"{self.server} does not take reports (status {answer.status_code}): {said}"


def token_in(path: Path) -> str:
    """
    Token in a file, without space around it.

    Raises:
        AddressError: the file cannot be read or holds no token. What it holds is never repeated.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_TOKEN_BYTES + 1)
    except OSError as error:
        raise AddressError(f"--token-file: cannot read {path}: {error.strerror}; give a file with the token") from error
    token = token_of(content)
    if token is None:
        raise AddressError(f"--token-file: {path} holds no token; write the token alone into it, on one line")
    return token


def _envelope(batch: Sequence[Report], sent_at: datetime) -> bytes:
    reports = [report.model_dump(mode="json", exclude_none=True) for report in batch]
    return json.dumps({"sent_at": sent_at.isoformat(), "reports": reports}, separators=(",", ":")).encode()


def _checked(server: str, *, has_token: bool) -> str:
    try:
        url = httpx.URL(server.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise AddressError(f"--server: no address ({error}); give one such as http://127.0.0.1:8000") from error
    if url.scheme not in {"http", "https"} or not url.host or url.query or url.fragment:
        raise AddressError("--server: give an http or https address without query, such as http://127.0.0.1:8000")
    if url.userinfo:
        raise AddressError("--server: an address must not hold a password; put the token in a file for --token-file")
    if has_token and url.scheme == "http" and not _is_loopback(url.host):
        raise AddressError("--server: a token over plain http can be read on its way; use https")
    return str(url)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _wanted_pause_s(answer: httpx.Response) -> float:
    header = answer.headers.get("retry-after", "")
    return float(header) if header.isascii() and header.isdecimal() else 0.0


def _first_fault(rejected: Sequence[Result]) -> str:
    faults = [f"{error.field}: {error.problem}" for result in rejected for error in result.errors]
    return faults[0] if faults else "not one result for each"
