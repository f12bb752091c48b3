"""The envelope in which a node's reports travel together."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import Field

from fleetridge.report.field_types import AtMost, UtcTime, WireModel
from fleetridge.report.origin import MAX_ROSTER

# A node sends one report per gpu of its roster, and what a day in the spool left behind goes in further calls.
MAX_REPORTS = MAX_ROSTER

_ReportT = TypeVar("_ReportT")


class Envelope(WireModel, Generic[_ReportT]):
    """
    A node's reports in one call: `Envelope[Report]`, or `Envelope[Any]` for whoever judges each report by itself.

    Attributes:
        sent_at: by the node's clock, so that the server can tell how wrong that clock is; here and not in the report,
            so that a report is the same bytes on every retry.
        reports: 1 to MAX_REPORTS.
    """

    sent_at: UtcTime | None = None
    reports: Annotated[tuple[_ReportT, ...], Field(min_length=1), AtMost(MAX_REPORTS)]
