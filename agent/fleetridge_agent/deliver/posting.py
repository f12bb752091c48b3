"""One POST of a node's reports, and the answer as it came: bounded in size, in time, and by the program's end."""

from __future__ import annotations

import concurrent.futures
import gzip
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from typing import final

import httpx

from fleetridge.quantities import MIB
from fleetridge_agent.deliver.delivery import Answer
from fleetridge_agent.deliver.http import bounded, in_thread
from fleetridge_agent.deliver.spool import Outgoing

# The longest answer is one result with errors per report; a page of a captive portal is smaller still.
_ANSWER_MAX_BYTES = 8 * MIB

# Against an answer that drips in a byte at a time and so never runs into the read time-out.
_ANSWER_DEADLINE_S = 60.0

# Against headers that drip in, or a call that is taken a byte at a time; the largest call of ours needs a second or two
# on a slow line.
_CALL_DEADLINE_S = 120.0

# Once the program is to end, an answer under way gets this long, so that it is gone within a second of SIGTERM.
_FAREWELL_S = 0.5

# How often a call under way looks whether the program is to end.
_LOOK_S = 0.05


# Of every POST.
CONTENT_HEADERS = {"Content-Type": "application/json", "Content-Encoding": "gzip"}


class LeftBehindError(Exception):
    """The program is to end, and the answer did not come in time."""


@final
class Postbox:
    """
    Where reports are posted to.

    Args:
        http: connections with `headers` on every call; closed by whoever made them.
        url: address of the server.
        is_stopped: whether the program is to end.
    """

    def __init__(self, http: httpx.Client, url: str, *, is_stopped: Callable[[], bool]) -> None:
        self._http = http
        self._url = url
        self._is_stopped = is_stopped
        self._leave_at: float | None = None

    def post(self, reports: Sequence[Outgoing]) -> Answer:
        """
        Answer to one POST.

        Also once the program is to end, reports that live in memory only are waited for.

        Raises:
            LeftBehindError: the program is to end and the server is slow; every report is on disk.
            httpx.HTTPError: the server cannot be reached, or its answer breaks off.
            httpx.StreamError: likewise.
        """
        answer, deadline = in_thread(partial(self._posted, reports)), time.monotonic() + _CALL_DEADLINE_S
        is_on_disk = all(report.path is not None for report in reports)
        while not concurrent.futures.wait([answer], timeout=_LOOK_S).done:
            if is_on_disk and self._is_time_to_leave():
                raise LeftBehindError
            if time.monotonic() > deadline:
                raise httpx.ReadTimeout(f"no whole answer within {_CALL_DEADLINE_S:g} s")
        return answer.result()

    def _is_time_to_leave(self) -> bool:
        if self._leave_at is None and self._is_stopped():
            self._leave_at = time.monotonic() + _FAREWELL_S
        return self._leave_at is not None and time.monotonic() > self._leave_at

    def _posted(self, reports: Sequence[Outgoing]) -> Answer:
        content = gzip.compress(_envelope(reports, sent_at=datetime.now(timezone.utc)), mtime=0)
        with self._http.stream("POST", f"{self._url}/reports", content=content) as response:
            headers = response.headers
            return Answer(
                status=response.status_code,
                body=b"".join(bounded(response.iter_bytes(), most_bytes=_ANSWER_MAX_BYTES, limit_s=_ANSWER_DEADLINE_S)),
                retry_after=headers.get("retry-after"),
                date=headers.get("date"),
                location=headers.get("location"),
            )


def _envelope(reports: Sequence[Outgoing], *, sent_at: datetime) -> bytes:
    """Envelope around the reports' own bytes, so that each is the same on every try."""
    bodies = b",".join(report.body for report in reports)
    return b'{"sent_at":"%s","reports":[%s]}' % (sent_at.isoformat().encode(), bodies)
