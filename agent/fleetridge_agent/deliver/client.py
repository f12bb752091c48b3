"""
The edge to the server: one POST for a node's reports, tried a few times.

What an answer means is decided in `delivery`, how long to wait in `backoff`; here is only the talking.
"""

from __future__ import annotations

import gzip
import ipaddress
import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import final

import httpx

from fleetridge import __version__
from fleetridge_agent.deliver import backoff, delivery
from fleetridge_agent.deliver.delivery import Answer, Decision
from fleetridge_agent.deliver.spool import Outgoing
from fleetridge_agent.errors import UsageError

log = logging.getLogger(__name__)

# A server that stores some hundred reports in one transaction answers within seconds, even on SQLite behind a queue.
_TIMEOUTS = httpx.Timeout(connect=5.0, read=20.0, write=20.0, pool=5.0)

# The longest answer is one result with errors per report; a page of a captive portal is smaller still.
_ANSWER_MAX_BYTES = 8 * 1024**2

# Against an answer that drips in a byte at a time and so never runs into the read time-out.
_ANSWER_DEADLINE_S = 60.0

_LOOPBACK_NAME = "localhost"


@dataclass(frozen=True, slots=True)
class Server:
    """
    Where reports go, and who sends them.

    Attributes:
        url: without a slash at the end; a path before `/reports` is kept.
        token: bearer token, never printed; None where the server asks for none.
    """

    url: str
    token: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether calls stay on this machine."""
        return _is_loopback(httpx.URL(self.url).host)


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    What became of some reports.

    Attributes:
        dead: id → what the server said of it.
        kept: ids that are still to be delivered.
        reason: why, where some are kept.
        go_on: whether the server is there and takes reports, so that further calls make sense.
    """

    delivered: frozenset[str] = frozenset()
    dead: dict[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    reason: str = ""
    go_on: bool = True


def server_at(url: str, *, token: str | None, allow_plain_http: bool = False) -> Server:
    """
    Server at an address, once it is safe to talk to.

    Raises:
        UsageError: not an http or https address, one that holds a password, or a token that would travel in the clear.
    """
    try:
        parsed = httpx.URL(url.strip().rstrip("/"))
    except httpx.InvalidURL as error:
        raise UsageError(f"--server: not an address ({error}); give one such as https://fleetridge.example") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment:
        raise UsageError("--server: give an http or https address without query, such as https://fleetridge.example")
    if parsed.userinfo:
        raise UsageError("--server: an address must not hold a password; put the token in a file and use --token-file")
    server = Server(str(parsed), token)
    if token and parsed.scheme == "http" and not server.is_loopback and not allow_plain_http:
        raise UsageError(
            "--server: a token over plain http can be read on its way; use https, or --allow-plain-http where the "
            "network is trusted"
        )
    return server


@final
class Client:
    """
    Sends reports to one server.

    Args:
        server: where to.
        transport: stands in for the network in tests.
        wait: pauses for some seconds and says whether to stop, as `threading.Event.wait` does.
        share: random number between 0 and 1 for the jitter.

    Raises:
        UsageError: the certificates that the environment names cannot be read.
    """

    def __init__(
        self,
        server: Server,
        *,
        wait: Callable[[float], bool],
        transport: httpx.BaseTransport | None = None,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._wait = wait
        self._share = share
        # A proxy from the environment would carry calls to this very machine, token and all, somewhere else.
        try:
            self._http = httpx.Client(
                transport=transport,
                timeout=_TIMEOUTS,
                follow_redirects=False,
                trust_env=not server.is_loopback,
                headers=_headers(server),
            )
        except OSError as error:
            raise UsageError(f"certificates cannot be read ({error}); check SSL_CERT_FILE and SSL_CERT_DIR") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def deliver(self, reports: Sequence[Outgoing]) -> Delivery:
        """Post reports in one call, in smaller ones where the server says that it is too large."""
        done, decision = self._with_tries(reports)
        if not decision.split:
            return done
        pending = [report for report in reports if report.report_id in decision.kept]
        middle = len(pending) // 2
        first = self.deliver(pending[:middle])
        if not first.go_on:
            rest = frozenset(report.report_id for report in pending[middle:])
            return _merged(done, replace(first, kept=first.kept | rest))
        return _merged(done, _merged(first, self.deliver(pending[middle:])))

    def _with_tries(self, reports: Sequence[Outgoing]) -> tuple[Delivery, Decision]:
        """What was settled within a few tries, and the last decision."""
        done, pending = Delivery(), list(reports)
        for tries in range(1, backoff.MAX_TRIES + 1):
            answer, decision = self._one_try(pending)
            done = _settled(done, decision)
            pending = [report for report in pending if report.report_id in decision.kept]
            if not decision.again or tries == backoff.MAX_TRIES or self._stops_after(tries, answer, decision):
                break
        return done, decision

    def _one_try(self, reports: Sequence[Outgoing]) -> tuple[Answer | None, Decision]:
        ids = [report.report_id for report in reports]
        try:
            answer = self._post(reports)
        except (httpx.HTTPError, httpx.StreamError) as error:
            reason = f"{self._server.url} cannot be reached ({_cause(error)}); check --server and the network"
            return None, Decision(kept=frozenset(ids), again=True, reason=reason)
        return answer, delivery.decide(answer, ids)

    def _post(self, reports: Sequence[Outgoing]) -> Answer:
        content = gzip.compress(_envelope(reports, sent_at=datetime.now(timezone.utc)), mtime=0)
        with self._http.stream("POST", f"{self._server.url}/reports", content=content) as response:
            headers = response.headers
            return Answer(
                status=response.status_code,
                body=b"".join(_bounded(response.iter_bytes())),
                retry_after=headers.get("retry-after"),
                date=headers.get("date"),
                location=headers.get("location"),
            )

    def _stops_after(self, tries: int, answer: Answer | None, decision: Decision) -> bool:
        """Pause before the next try; True where there is to be none."""
        pause_s = backoff.jittered_s(tries, share=self._share())
        if answer is not None:
            asked_s = backoff.retry_after_s(answer.retry_after, date=answer.date, now=datetime.now(timezone.utc))
            if asked_s is not None and asked_s > backoff.RETRY_AFTER_MAX_S:
                log.warning("%s asks to wait longer than a run may take; the next run tries again", self._server.url)
                return True
            pause_s += asked_s or 0.0
        log.info("%s; trying again in %.1f s", decision.reason, pause_s)
        return self._wait(pause_s)


def _headers(server: Server) -> dict[str, str]:
    headers = {
        "User-Agent": f"fleetridge-agent/{__version__}",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "Content-Encoding": "gzip",
    }
    if server.token:
        headers["Authorization"] = f"Bearer {server.token}"
    return headers


def _envelope(reports: Sequence[Outgoing], *, sent_at: datetime) -> bytes:
    """Envelope around the reports' own bytes, so that each is the same on every try."""
    bodies = b",".join(report.body for report in reports)
    return b'{"sent_at":"%s","reports":[%s]}' % (sent_at.isoformat().encode(), bodies)


def _bounded(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Chunks of an answer up to a size and a time, past which no honest answer goes on."""
    received_bytes, deadline = 0, time.monotonic() + _ANSWER_DEADLINE_S
    for chunk in chunks:
        received_bytes += len(chunk)
        if received_bytes > _ANSWER_MAX_BYTES or time.monotonic() > deadline:
            return
        yield chunk


def _settled(done: Delivery, decision: Decision) -> Delivery:
    """What was settled so far and by one more decision."""
    return Delivery(
        delivered=done.delivered | decision.delivered,
        dead={**done.dead, **decision.dead},
        kept=frozenset() if decision.split else decision.kept,
        reason=decision.reason,
        go_on=decision.heard,
    )


def _merged(one: Delivery, other: Delivery) -> Delivery:
    return Delivery(
        delivered=one.delivered | other.delivered,
        dead={**one.dead, **other.dead},
        kept=one.kept | other.kept,
        reason=other.reason or one.reason,
        go_on=other.go_on,
    )


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def _is_loopback(host: str) -> bool:
    if host == _LOOPBACK_NAME:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
