"""
Environment in which Alembic runs the revisions.

`fleetridge_server.db.schema` opens the transaction, holds the lock and hands the connection over, so that no
alembic.ini is needed. Its `draft_revision` writes the next one.
"""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from fleetridge_server.db.schema import METADATA, REVISION_TABLE, is_month


def run(connection: Connection) -> None:
    """Run the revisions on an open transaction."""
    context.configure(
        connection=connection,
        target_metadata=METADATA,
        version_table=REVISION_TABLE,
        include_name=lambda name, kind, _parents: not (kind == "table" and is_month(name or "")),
        render_as_batch=True,  # SQLite can change a table only by making it anew
        compare_type=True,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
