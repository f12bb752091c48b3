"""
The client of the server: one POST for a node's reports, tried a few times, and in smaller ones where that helps.

What an answer means is decided in `answer`; `http` does the talking. Full jitter (a random share of a pause that
doubles) keeps a fleet that failed together from coming back together.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import final

import httpx

from fleetridge_agent.deliver.answer import Answer, Decision, decide
from fleetridge_agent.deliver.http import CONTENT_HEADERS, AbandonedError, Poster, open_http
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.deliver.spool import Outgoing

log = logging.getLogger(__name__)

# A server that stores some hundred reports in one transaction answers within seconds, even on SQLite behind a queue.
_TIMEOUTS = httpx.Timeout(connect=5.0, read=20.0, write=20.0, pool=5.0)

# Reports that fail one after the other on their own; more of them and it is the server that is at fault.
_MAX_LONE_FAILURES = 3

# Tries of one call within one run. What then is still undelivered waits in the spool for the next run, so that a
# server that is down costs a node about half a minute.
MAX_TRIES = 4

# The first pause is up to this long; it doubles with each try up to the cap.
BASE_S = 1.0
CAP_S = 30.0

# A server that asks for more patience than this gets it by way of the spool: the run ends, the next one tries.
RETRY_AFTER_MAX_S = 60.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    What became of some reports.

    Attributes:
        dead: id → what the server said of it.
        kept: ids that are still to be delivered.
        reason: why, where some are kept.
        server_available: whether the server is there and takes reports, so that further calls make sense.
    """

    delivered: frozenset[str] = frozenset()
    dead: dict[str, str] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    reason: str = ""
    server_available: bool = True


@final
class Client:
    """
    Sends reports to one server.

    Args:
        server: where to.
        transport: stands in for the network in tests.
        timeouts: how long a silent server is waited for.
        wait: pauses for some seconds and says whether to stop, as `threading.Event.wait` does; asked with 0 while an
            answer is waited for.
        share: random number between 0 and 1 for the jitter.

    Raises:
        UsageError: the certificates or the proxy that the environment names cannot be used.
    """

    def __init__(
        self,
        server: Server,
        *,
        wait: Callable[[float], bool],
        transport: httpx.BaseTransport | None = None,
        timeouts: httpx.Timeout = _TIMEOUTS,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._server = server
        self._wait = wait
        self._share = share
        self._http = open_http(server, headers=CONTENT_HEADERS, timeouts=timeouts, transport=transport)
        self._postbox = Poster(self._http, server.url, is_stopped=lambda: wait(0))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def deliver(self, reports: Sequence[Outgoing]) -> Delivery:
        """Post reports in one call, in smaller ones where the server does not take them together."""
        done, decision = self._with_tries(reports, MAX_TRIES)
        pending = [report for report in reports if report.report_id in decision.kept]
        if len(pending) > 1 and decision.split:
            return _merged(replace(done, kept=frozenset()), self._in_halves(pending))
        if len(pending) > 1 and decision.one_by_one:
            return _merged(replace(done, kept=frozenset()), self._one_by_one(pending))
        return done

    def _in_halves(self, reports: Sequence[Outgoing]) -> Delivery:
        middle = len(reports) // 2
        first = self.deliver(reports[:middle])
        if not first.server_available:
            return _merged(first, _untried(reports[middle:], first.reason))
        return _merged(first, self.deliver(reports[middle:]))

    def _one_by_one(self, reports: Sequence[Outgoing]) -> Delivery:
        """Calls of one report each, so that one that the server stumbles over holds up no other."""
        done, failures, has_responded = Delivery(), 0, False
        for position, report in enumerate(reports, start=1):
            part, decision = self._with_tries([report], 1)
            done, has_responded = _merged(done, part), has_responded or decision.server_responded
            failures = 0 if decision.server_responded else failures + 1
            if not decision.server_responded and (not decision.one_by_one or failures == _MAX_LONE_FAILURES):
                return _merged(done, _untried(reports[position:], part.reason))
        return replace(done, server_available=has_responded)

    def _with_tries(self, reports: Sequence[Outgoing], max_tries: int) -> tuple[Delivery, Decision]:
        """What was settled within a few tries, and the last decision."""
        done, pending = Delivery(), list(reports)
        for tries in range(1, max_tries + 1):
            answer, decision = self._one_try(pending)
            done = _settled(done, decision)
            pending = [report for report in pending if report.report_id in decision.kept]
            if not decision.retry or tries == max_tries or self._stops_after(tries, answer, decision):
                break
        return done, decision

    def _one_try(self, reports: Sequence[Outgoing]) -> tuple[Answer | None, Decision]:
        ids = [report.report_id for report in reports]
        try:
            answer = self._postbox.post(reports)
        except AbandonedError:
            return None, Decision(kept=frozenset(ids), reason="the program ends before the server has answered")
        except (httpx.HTTPError, httpx.StreamError) as error:
            reason = f"{self._server.url} cannot be reached ({_cause(error)}); check --server and the network"
            return None, Decision(kept=frozenset(ids), retry=True, reason=reason)
        return answer, decide(answer, ids)

    def _stops_after(self, tries: int, answer: Answer | None, decision: Decision) -> bool:
        """Pause before the next try; True where there is to be none."""
        pause_s = jittered_s(tries, share=self._share())
        if answer is not None:
            asked_s = retry_after_s(answer.retry_after, date=answer.date, now=datetime.now(timezone.utc))
            if asked_s is not None and asked_s > RETRY_AFTER_MAX_S:
                log.warning("%s asks to wait longer than a run may take; the next run tries again", self._server.url)
                return True
            pause_s += asked_s or 0.0
        log.info("%s; trying again in %.1f s", decision.reason, pause_s)
        return self._wait(pause_s)


def _settled(done: Delivery, decision: Decision) -> Delivery:
    """What was settled so far and by one more decision."""
    return Delivery(
        delivered=done.delivered | decision.delivered,
        dead={**done.dead, **decision.dead},
        kept=decision.kept,
        reason=decision.reason,
        server_available=decision.server_responded,
    )


def _untried(reports: Sequence[Outgoing], reason: str) -> Delivery:
    return Delivery(kept=frozenset(report.report_id for report in reports), reason=reason, server_available=False)


def _merged(one: Delivery, other: Delivery) -> Delivery:
    return Delivery(
        delivered=one.delivered | other.delivered,
        dead={**one.dead, **other.dead},
        kept=one.kept | other.kept,
        reason=other.reason or one.reason,
        server_available=other.server_available,
    )


def _cause(error: Exception) -> str:
    return str(error) or type(error).__name__


def jittered_s(tries: int, *, share: float) -> float:
    """
    Pause after `tries` failed tries, in seconds.

    Args:
        tries: failed so far, at least 1.
        share: random number between 0 and 1.
    """
    return share * min(CAP_S, BASE_S * 2.0 ** (tries - 1))


def retry_after_s(header: str | None, *, date: str | None, now: datetime) -> float | None:
    """
    Pause in seconds that a Retry-After header asks for (RFC 9110, 10.2.3: seconds or an HTTP date).

    A date is counted from the server's own Date header where there is one, as the node's clock may be wrong.

    Returns:
        The pause, at least 0; None without a header that can be read.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    until = _http_date(text)
    if until is None:
        return None
    sent = _http_date(date) or now
    return max(0.0, (until - sent).total_seconds())


def _http_date(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
