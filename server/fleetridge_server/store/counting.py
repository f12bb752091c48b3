"""Which reports count: those out of quarantine, and, for a gpu's own figures, those that no other node disputes."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, or_

from fleetridge_server.store.models import Report


def counts(report: type[Report]) -> ColumnElement[bool]:
    """Whether a report counts at all: the token that it came with is trusted."""
    return ~report.quarantined


def is_undisputed(report: type[Report], as_of: datetime | None = None) -> ColumnElement[bool]:
    """Whether, as far as was known at a time (None for now), no other node claimed the gpu within the same hour."""
    undisputed = report.conflict_from.is_(None)
    return undisputed if as_of is None else or_(undisputed, report.conflict_from > as_of)
