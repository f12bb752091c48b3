"""
Request statistics (time in the database, outcomes of reports), and the metrics of this server itself.

The statistics are noted by whoever does a part of the request. They belong to its context, which goes along into the
thread that does its work.
"""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import final

from prometheus_client import CollectorRegistry, Gauge, Histogram, disable_created_metrics
from prometheus_client import Counter as PrometheusCounter
from sqlalchemy import Pool
from sqlalchemy.pool import QueuePool


@dataclass(slots=True)
class RequestStats:
    """
    What came of a request so far: time of the database, and reports by what became of them.

    `lags_s` is of each report that is new, from the end of its measurement to its arrival.
    """

    database_s: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    lags_s: list[float] = field(default_factory=list)


_current_stats: ContextVar[RequestStats | None] = ContextVar("request_stats", default=None)


def begin_request_stats() -> RequestStats:
    """Note anew, from here on; each request has a context of its own."""
    stats = RequestStats()
    _current_stats.set(stats)
    return stats


def add_request_stats(part: RequestStats) -> None:
    """Note what came of a part of the request that was done elsewhere."""
    stats = _current_stats.get()
    if stats is not None:
        stats.database_s += part.database_s
        stats.outcomes.update(part.outcomes)
        stats.lags_s += part.lags_s


@contextmanager
def timed_as_database() -> Iterator[None]:
    """Note the time of the block as the database's, once, also where parts of it note theirs."""
    stats = _current_stats.get()
    if stats is None:
        yield
        return
    before_s, began_s = stats.database_s, time.perf_counter()
    try:
        yield
    finally:
        stats.database_s = before_s + time.perf_counter() - began_s


def add_database_time(seconds: float) -> None:
    """Note time that the database took."""
    stats = _current_stats.get()
    if stats is not None:
        stats.database_s += seconds


# From a page of a small fleet to the statement timeout and the waits before it.
_REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_DATABASE_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# A device of a hundred gpus to a fleet of a hundred thousand.
_EVALUATION_BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

# From a report that is posted at once to a spool of weeks.
_LAG_BUCKETS_S = (10.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0, 86400.0, 3 * 86400.0, 7 * 86400.0, 30 * 86400.0)

OUTCOMES = ("created", "duplicate", "conflict", "rejected")

# Why a call with reports was refused as a whole, by the status of the answer.
_REFUSALS = {
    400: "cut_off",
    401: "unauthorized",
    403: "forbidden",
    408: "too_slow",
    413: "too_large",
    415: "unknown_encoding",
    422: "invalid",
    429: "too_many",
    503: "unavailable",
}
_OTHER_REFUSAL = "error"

# Their time of creation would be one more series for each.
disable_created_metrics()  # type: ignore[no-untyped-call] # the library leaves it bare


@final
class OwnMetrics:
    """
    Metrics of one server.

    Attributes:
        registry: of the collectors.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = PrometheusCounter(
            "fleetridge_server_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "fleetridge_server_request_seconds",
            "Time from the header of a request to the end of its answer.",
            ("method", "route"),
            buckets=_REQUEST_BUCKETS_S,
            registry=self.registry,
        )
        self._database = Histogram(
            "fleetridge_server_request_database_seconds",
            "Time that the database took of a request.",
            ("method", "route"),
            buckets=_DATABASE_BUCKETS_S,
            registry=self.registry,
        )
        self._in_flight = Gauge(
            "fleetridge_server_requests_in_flight", "Requests that are being answered.", registry=self.registry
        )
        self._set_up_reports()
        self._evaluations = Histogram(
            "fleetridge_server_evaluation_seconds",
            "Duration of an evaluation of one device by this server.",
            buckets=_EVALUATION_BUCKETS_S,
            registry=self.registry,
        )

    def _set_up_reports(self) -> None:
        self._reports = PrometheusCounter(
            "fleetridge_server_reports", "Reports by what became of them.", ("outcome",), registry=self.registry
        )
        self._refused = PrometheusCounter(
            "fleetridge_server_report_calls_refused",
            "Calls with reports that were refused as a whole, by why.",
            ("reason",),
            registry=self.registry,
        )
        self._lags = Histogram(
            "fleetridge_server_report_lag_seconds",
            "Time from the end of a measurement to the arrival of its report, of reports that are new.",
            buckets=_LAG_BUCKETS_S,
            registry=self.registry,
        )
        # From the first moment, so that the first of a kind is seen as a change.
        for outcome in OUTCOMES:
            self._reports.labels(outcome)
        for reason in (*_REFUSALS.values(), _OTHER_REFUSAL):
            self._refused.labels(reason)

    def in_flight(self) -> AbstractContextManager[object]:
        """Count a request as in flight during the block."""
        return self._in_flight.track_inprogress()

    def note_request(self, *, method: str, route: str, status: int, duration_s: float, stats: RequestStats) -> None:
        """
        Count a request that was answered.

        Args:
            method: of HTTP.
            route: its template, never the address itself; empty where there is none.
            status: of the answer.
            duration_s: of all of it.
            stats: what came of it.
        """
        self._requests.labels(method, route, str(status)).inc()
        self._durations.labels(method, route).observe(duration_s)
        self._database.labels(method, route).observe(stats.database_s)

    def note_reports(self, status: int, stats: RequestStats) -> None:
        """Count what became of the reports of one call, or that it was refused as a whole."""
        if not stats.outcomes:
            self._refused.labels(_REFUSALS.get(status, _OTHER_REFUSAL)).inc()
        for outcome, count in stats.outcomes.items():
            self._reports.labels(outcome).inc(count)
        for lag_s in stats.lags_s:
            self._lags.observe(lag_s)

    def note_evaluation(self, duration_s: float) -> None:
        """Count an evaluation of one device."""
        self._evaluations.observe(duration_s)

    def watch_pool(self, pool: Pool) -> None:
        """Export the connections of a pool from now on."""
        assert isinstance(pool, QueuePool)  # noqa: S101 # as `db.database` makes it
        in_use = Gauge(
            "fleetridge_server_pool_connections_in_use",
            "Connections to the database that requests and tasks hold.",
            registry=self.registry,
        )
        in_use.set_function(pool.checkedout)
        most = Gauge(
            "fleetridge_server_pool_connections_max",
            "Connections to the database that this server may hold.",
            registry=self.registry,
        )
        most.set_function(pool.size)
