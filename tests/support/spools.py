"""Reports that wait in a spool, as small as they can be."""

from __future__ import annotations

import json
from collections.abc import Iterable
from uuid import uuid4

from fleetridge_agent.deliver.spool import Outgoing, Spool


def report_body(report_id: str, *, padding: int = 0) -> bytes:
    """JSON that a spool takes for a report."""
    return json.dumps({"report_id": report_id, "padding": "x" * padding}).encode()


def spooled(spool: Spool, count: int = 1, *, padding: int = 0) -> list[Outgoing]:
    """Put some reports into a spool."""
    names = [str(uuid4()) for _ in range(count)]
    return [spool.add(report_id, report_body(report_id, padding=padding)) for report_id in names]


def ids(reports: Iterable[Outgoing]) -> list[str]:
    """Ids of reports, in their order."""
    return [report.report_id for report in reports]
