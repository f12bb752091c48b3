"""Callers that post reports until the server says of each that it has it, and what they were told meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from sqlalchemy import create_engine, text

from support.patience import PATIENCE_S, patient_client
from support.reports import make_report

# Between two tries of a caller that was not told that all is stored; agents wait longer.
_PAUSE_S = 0.2

# A server that does not come back in this time has failed.
_LONGEST_S = 2 * PATIENCE_S


@dataclass
class Load:
    """
    What callers did and met.

    Attributes:
        sent: ids of all reports that were sent, whatever became of them.
        acknowledged: those that the server said it has.
        answers: how often each came: a status, a status that lacks its Retry-After, or none.
        given_up: calls that were never told that all is stored.
    """

    sent: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)
    given_up: int = 0

    def wait_for_calls(self, count: int) -> None:
        """Until so many more calls were answered with success."""
        enough, until_s = self.answers["200"] + count, time.monotonic() + _LONGEST_S
        while self.answers["200"] < enough and time.monotonic() < until_s:
            time.sleep(0.005)


@dataclass(frozen=True)
class Kept:
    """
    What a database holds of a load.

    Attributes:
        stored: reports.
        missing: reports that were acknowledged and are not there.
        twice: reports that are there more than once.
        torn: reports that are not whole, without their document or one of their two roofs.
    """

    stored: int
    missing: int
    twice: int
    torn: int

    @property
    def is_right(self) -> bool:
        """Whether nothing is lost, nothing twice and nothing torn."""
        return (self.missing, self.twice, self.torn) == (0, 0, 0)


@contextmanager
def load(address: Callable[[], str], *, callers: int = 4, gpus: int = 8, made: Load | None = None) -> Iterator[Load]:
    """
    Post reports during the block, and go on afterwards until the last of them is acknowledged.

    Args:
        address: of the server; asked before each call.
        callers: that post at the same time.
        gpus: reports of a call.
        made: to note in; a new one by default.
    """
    made, is_over, lock = made or Load(), threading.Event(), threading.Lock()
    threads = [
        threading.Thread(target=_post_until, args=(is_over, address, f"node-{number}", gpus, made, lock))
        for number in range(callers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def kept(database_url: str, made: Load) -> Kept:
    """Hold what a database has against what was acknowledged."""
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            stored = [_id(value) for value in connection.execute(text("SELECT id FROM reports")).scalars()]
            documents = {_id(value) for value in connection.execute(text("SELECT report_id FROM documents")).scalars()}
            roofs = Counter(_id(value) for value in connection.execute(text("SELECT report_id FROM roofs")).scalars())
    finally:
        engine.dispose()
    whole = {report_id for report_id, count in roofs.items() if count == 2} & documents  # as made
    ids = set(stored)
    return Kept(
        stored=len(stored),
        missing=len(made.acknowledged - ids),
        twice=len(stored) - len(ids),
        torn=len(ids ^ whole) + len(ids - made.sent),
    )


def _post_until(
    is_over: threading.Event, address: Callable[[], str], node: str, gpus: int, made: Load, lock: threading.Lock
) -> None:
    with patient_client(verify=False) as client:
        while not is_over.is_set():
            reports = [
                make_report(node__name=node, gpu__uuid=f"GPU-{node}-{gpu}", gpu__index=gpu) for gpu in range(gpus)
            ]
            with lock:
                made.sent |= {report["report_id"] for report in reports}
            is_stored = _post_until_stored(client, address, reports, made, lock)
            with lock:
                made.given_up += not is_stored


def _post_until_stored(
    client: httpx.Client, address: Callable[[], str], reports: list[dict[str, Any]], made: Load, lock: threading.Lock
) -> bool:
    until_s = time.monotonic() + _LONGEST_S
    while time.monotonic() < until_s:
        told, answer = "no answer", None
        try:
            answer = client.post(f"{address()}/reports", json={"reports": reports})
            told = _told(answer)
        except httpx.TransportError:
            pass
        stored = _stored(answer)
        with lock:
            made.answers[told] += 1
            made.acknowledged |= stored
        if len(stored) == len(reports):
            return True
        time.sleep(_PAUSE_S)
    return False


def _told(answer: httpx.Response) -> str:
    is_waiting = answer.status_code in {httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS}
    lacks = is_waiting and not answer.headers.get("retry-after")
    return f"{answer.status_code} without Retry-After" if lacks else str(answer.status_code)


def _stored(answer: httpx.Response | None) -> set[str]:
    if answer is None or answer.status_code != httpx.codes.OK:
        return set()
    results = answer.json()["results"]
    return {result["report_id"] for result in results if result["outcome"] in {"created", "duplicate"}}


def _id(value: object) -> str:
    return str(value if isinstance(value, UUID) else UUID(str(value)))
