"""Each request as it ends: a line of the log, and its part in the metrics; never its address, which may hold names."""

from __future__ import annotations

import logging
import time
from typing import Any, final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetridge_server.course import Course, begin_course
from fleetridge_server.own_metrics import OwnMetrics

INGEST = ("POST", "/reports")

# Asked every few seconds by programs; a line each would hide all others.
_QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})

# Whatever else somebody invents is no label of ours.
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_INTERNAL_ERROR = 500
_FIRST_ERROR = 400

_log = logging.getLogger(__name__)


@final
class RequestWatch:
    """
    Middleware that tells of requests.

    Args:
        app: what answers.
        metrics: counts them.
    """

    def __init__(self, app: ASGIApp, metrics: OwnMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        course, began_s = begin_course(), time.perf_counter()
        status = _INTERNAL_ERROR  # what is answered where the application breaks

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self._metrics.in_flight():
            try:
                await self._app(scope, receive, send_watched)
            finally:
                self._tell(scope, status, time.perf_counter() - began_s, course)

    def _tell(self, scope: Scope, status: int, duration_s: float, course: Course) -> None:
        route = getattr(scope.get("route"), "path", "")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._metrics.note_request(method=method, route=route, status=status, duration_s=duration_s, course=course)
        if (scope["method"], scope["path"]) == INGEST:
            self._metrics.note_reports(status, course)
        level = logging.DEBUG if route in _QUIET_ROUTES and status < _FIRST_ERROR else logging.INFO
        _log.log(
            level,
            "%s %s %d in %.0f ms%s",
            method,
            route or "(no route)",
            status,
            1000 * duration_s,
            _told_outcomes(course),
            extra={"fields": _fields(scope, method, route, status, duration_s, course)},
        )


def _told_outcomes(course: Course) -> str:
    return "".join(f", {count} {outcome}" for outcome, count in sorted(course.outcomes.items()))


def _fields(scope: Scope, method: str, route: str, status: int, duration_s: float, course: Course) -> dict[str, Any]:
    caller = scope.get("state", {}).get("caller")
    fields: dict[str, Any] = {
        "method": method,
        "route": route or None,
        "status": status,
        "duration_ms": round(1000 * duration_s, 1),
        "database_ms": round(1000 * course.database_s, 1),
        "token_id": None if caller is None else caller.token_id,
    }
    return {**fields, "reports": dict(course.outcomes)} if course.outcomes else fields
