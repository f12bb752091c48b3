"""The envelope in which a node's reports travel together."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fleetridge.report.identity import MAX_ROSTER
from fleetridge.report.model import Report
from fleetridge.report.values import UtcTime, WireModel

# A node sends one report per gpu of its roster, and what a day in the spool left behind goes in further calls.
MAX_REPORTS = MAX_ROSTER


class Envelope(WireModel):
    """
    A node's reports in one call.

    Attributes:
        sent_at: by the node's clock, so that the server can tell how wrong that clock is; here and not in the report,
            so that a report is the same bytes on every retry.
        reports: 1 to MAX_REPORTS.
    """

    sent_at: UtcTime | None = None
    reports: Annotated[tuple[Report, ...], Field(min_length=1, max_length=MAX_REPORTS)]
