"""A call that brings reports, and its answer: what travels between the process that answers and one that takes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from fleetridge_server.access.caller import Caller
from fleetridge_server.course import Course
from fleetridge_server.problems import ProblemError


@dataclass(frozen=True, slots=True)
class Call:
    """
    One call that brings reports.

    Attributes:
        body: as it was sent, still compressed.
        encoding: of the body, `gzip` or `identity`.
        caller: whose the reports are.
        received_at: when it came, by our clock.
        request_id: for the log.
    """

    body: bytes
    encoding: str
    caller: Caller
    received_at: datetime
    request_id: str | None = None


class Told(NamedTuple):
    """
    What a sender is told whose call was taken.

    Attributes:
        status: of HTTP.
        content: JSON of a result, or of several.
    """

    status: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What came of a call.

    Attributes:
        told: to its sender.
        course: for the log and for metrics.
    """

    told: Told | ProblemError
    course: Course
