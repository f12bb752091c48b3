"""What a server spends its time on: the steps of taking a report, each by itself."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from pydantic_core import to_json

from fleetridge import strict_json
from fleetridge.report import Report
from fleetridge_server.db.database import open_database
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.intake import examine
from fleetridge_server.intake.body import content_sha256, inflated
from fleetridge_server.intake.store import write_calls

# As many calls as a worker takes at most, and finds when twice as many clients post to two of them.
_TOGETHER = 8
_STORE_ALONE = "store, a call at a time"
_STORE_TOGETHER = f"store, {_TOGETHER} calls at a time"


def step_times_ms(url: str, calls: Sequence[bytes]) -> dict[str, float]:
    """Milliseconds of processor time in each step of taking a report, from compressed calls that are new."""
    spent: dict[str, float] = defaultdict(float)
    reports = 0
    posted: list[list[examine.Accepted]] = []
    database = open_database(url)
    for call in calls:
        with _timed(spent, "inflate"):
            text = inflated(call, "gzip")
        with _timed(spent, "parse"):
            value = strict_json.parse(text)
        assert examine.is_envelope(value)  # noqa: S101 # of the bench
        items: Any = value["reports"]
        now = datetime.now(timezone.utc)
        with _timed(spent, "examine"):
            examined = [examine.examined(item, sent_at=None, received_at=now) for item in items]
        for item in items:
            with _timed(spent, "of it validate"):
                report = Report.model_validate(item)
            with _timed(spent, "hash"):
                content_sha256(report)
            with _timed(spent, "write out"):
                text = to_json(item)
            with _timed(spent, "compress"):
                examine.packed(text)
        posted.append([item for item in examined if isinstance(item, examine.Accepted)])
        reports += len(items)
    write_calls(database, posted[:_TOGETHER])  # statements are put together, and pages read, the first time only
    posted = posted[_TOGETHER:]
    half = len(posted) // 2
    with _timed(spent, _STORE_ALONE):
        for one in posted[:half]:
            write_calls(database, [one])
    with _timed(spent, _STORE_TOGETHER):
        for together in in_chunks(posted[half:], _TOGETHER):
            write_calls(database, together)
    database.close()
    reports_of_half = sum(len(call) for call in posted) / 2
    halves = (_STORE_ALONE, _STORE_TOGETHER)
    return {step: own / (reports_of_half if step in halves else reports) * 1e3 for step, own in spent.items()}


@contextmanager
def _timed(spent: dict[str, float], step: str) -> Iterator[None]:
    started = time.thread_time()
    yield
    spent[step] += time.thread_time() - started
