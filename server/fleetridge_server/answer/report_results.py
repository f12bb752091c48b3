"""What a sender of reports is told."""

from __future__ import annotations

from pydantic import BaseModel

from fleetridge_server.field_errors import FieldError
from fleetridge_server.ingest.intake import IntakeOutcome


class Result(BaseModel):
    """
    What became of one report.

    Attributes:
        report_id: as it was sent; null where it was no text.
        outcome: `created`, `duplicate` (stored before, the same), `conflict` (stored before with other content),
            `rejected` (not a report; see `errors`). The last two are final: sending the same again is no use.
    """

    report_id: str | None
    outcome: IntakeOutcome
    errors: list[FieldError] = []


class Results(BaseModel):
    """What became of each report of a list, in their order."""

    results: list[Result]
