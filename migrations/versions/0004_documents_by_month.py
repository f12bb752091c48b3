"""Documents by month of arrival: on PostgreSQL each month is a table of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# Spelled out, not imported: a released migration never changes, the models do.
UTC_TIME = sa.DateTime(timezone=True)
COLUMNS = "report_id, received_at, body"
BEFORE = "documents_before"


def _columns() -> list[sa.Column[object]]:
    return [
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    ]


def upgrade() -> None:
    _set_aside()
    # Without a reference to reports: dropping a month would have to lock that table, and nothing deletes its rows.
    op.create_table(
        "documents",
        *_columns(),
        sa.PrimaryKeyConstraint("received_at", "report_id", name="pk_documents"),
        postgresql_partition_by="RANGE (received_at)",
    )
    if _is_postgres():
        op.execute("ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL")  # it is compressed already
        for start in _months():  # the rest are made by whoever runs the migrations
            first = f"timestamptz '{start}-01 00:00:00+00'"
            op.execute(
                f"CREATE TABLE documents_{start.replace('-', '_')} PARTITION OF documents "
                f"FOR VALUES FROM ({first}) TO ({first} + interval '1 month')"
            )
    _move_back()


def downgrade() -> None:
    _set_aside()
    op.create_table(
        "documents",
        *_columns(),
        sa.ForeignKeyConstraint(["report_id"], ["reports.id"], name="fk_documents_report_id_reports"),
        sa.PrimaryKeyConstraint("report_id", name="pk_documents"),
    )
    op.create_index("ix_documents_received_at", "documents", ["received_at"])
    _move_back()


def _set_aside() -> None:
    """Leave the names of the table and of what belongs to it to the new one."""
    op.rename_table("documents", BEFORE)
    if _is_postgres():
        op.execute("ALTER INDEX pk_documents RENAME TO pk_documents_before")
    op.execute("DROP INDEX IF EXISTS ix_documents_received_at")


def _move_back() -> None:
    op.execute(f"INSERT INTO documents ({COLUMNS}) SELECT {COLUMNS} FROM {BEFORE}")  # noqa: S608 # names from above
    op.drop_table(BEFORE)


def _months() -> list[str]:
    """Months in which documents arrived, `2026-11`."""
    query = f"SELECT DISTINCT to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM') FROM {BEFORE} ORDER BY 1"  # noqa: S608 # a name from above
    return list(op.get_bind().execute(sa.text(query)).scalars())


def _is_postgres() -> bool:
    return op.get_bind().dialect.name == "postgresql"
