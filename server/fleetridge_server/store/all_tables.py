"""All tables, wherever they are declared: for what goes through every one of them."""

from __future__ import annotations

import re

from fleetridge_server.store import models, notification_models, session_models, token_models, verdict_models

_DECLARED_IN = (
    models.Report,
    verdict_models.Alert,
    notification_models.Notification,
    token_models.StoredToken,
    session_models.StoredSession,
)

METADATA = models.Base.metadata
"""Every table that the migrations make, except those of single months of documents."""

assert all(declared.metadata is METADATA for declared in _DECLARED_IN)  # noqa: S101 # else one would be left out

REVISION_TABLE = "schema_revision"
"""Table in which Alembic notes the revision; of our own name, since a database may be shared with others who use it."""

_MONTH = re.compile(r"documents_\d{4}_\d{2}")


def is_month(table: str) -> bool:
    """Whether a table's name is that of a month of documents, which no model declares."""
    return _MONTH.fullmatch(table) is not None
