"""Tokens, who posted each report, quarantine, and reports of gpus that two nodes claim."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Spelled out, not imported: a released migration never changes, the models do.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC_TIME = sa.DateTime(timezone=True)
HOUR = timedelta(hours=1)

REPORTS = sa.table(
    "reports",
    sa.column("id", sa.Uuid()),
    sa.column("gpu_id", ROW_ID),
    sa.column("node_id", ROW_ID),
    sa.column("ordered_at", UTC_TIME),
    sa.column("conflict_from", UTC_TIME),
)
GPUS = sa.table("gpus", sa.column("id", ROW_ID), sa.column("several_nodes", sa.Boolean()))


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    return {
        "nodes": [sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False)],
        "gpus": [
            sa.Column("several_nodes", sa.Boolean(), server_default=sa.false(), nullable=False),
            sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        ],
        "reports": [
            sa.Column("token_id", ROW_ID, nullable=True),
            sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
            sa.Column("conflict_from", UTC_TIME, nullable=True),
        ],
    }


def upgrade() -> None:
    for table, columns in _new_columns().items():
        for column in columns:
            op.add_column(table, column)  # in place, also on SQLite: large tables are not written anew
    has_token = sa.text("token_id IS NOT NULL")
    op.create_index(
        "ix_reports_token_id_gpu_id",
        "reports",
        ["token_id", "gpu_id"],
        postgresql_where=has_token,
        sqlite_where=has_token,
    )
    op.create_table(
        "tokens",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("created_at", UTC_TIME, nullable=False),
        sa.Column("expires_at", UTC_TIME, nullable=True),
        sa.Column("revoked_at", UTC_TIME, nullable=True),
        sa.Column("last_used_at", UTC_TIME, nullable=True),
        sa.Column("quarantined_at", UTC_TIME, nullable=True),
        sa.Column("quarantined_since", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
        sa.UniqueConstraint("sha256", name="uq_tokens_sha256"),
    )
    _find_claims()


def downgrade() -> None:
    op.drop_table("tokens")
    op.drop_index("ix_reports_token_id_gpu_id", "reports")
    for table, columns in _new_columns().items():
        with op.batch_alter_table(table) as changed:
            for column in columns:
                changed.drop_column(column.name)


def _find_claims() -> None:
    """Gpus that more than one node reported, and those of their reports that conflict."""
    connection = op.get_bind()
    several = (
        sa.select(REPORTS.c.gpu_id)
        .where(REPORTS.c.gpu_id.is_not(None))
        .group_by(REPORTS.c.gpu_id)
        .having(sa.func.count(sa.func.coalesce(REPORTS.c.node_id, 0).distinct()) > 1)
    )
    for gpu_id in connection.scalars(several).all():
        connection.execute(sa.update(GPUS).where(GPUS.c.id == gpu_id).values(several_nodes=True))
        seen = sa.select(REPORTS.c.id, REPORTS.c.node_id, REPORTS.c.ordered_at)
        seen = seen.where(
            REPORTS.c.gpu_id == gpu_id, REPORTS.c.node_id.is_not(None), REPORTS.c.ordered_at.is_not(None)
        ).order_by(REPORTS.c.ordered_at)
        for report_id, known_from in _conflicts([tuple(row) for row in connection.execute(seen)]).items():
            connection.execute(sa.update(REPORTS).where(REPORTS.c.id == report_id).values(conflict_from=known_from))


def _conflicts(seen: list[tuple[Any, ...]]) -> dict[Any, datetime]:
    """From when on each report conflicts with one of another node within an hour; `seen` is in the order of time."""
    found: dict[Any, datetime] = {}
    first = 0
    for place, (report_id, node_id, at) in enumerate(seen):
        while at - seen[first][2] > HOUR:
            first += 1
        for other_id, other_node, _other_at in seen[first:place]:
            if other_node != node_id:
                for claimed in (report_id, other_id):
                    found[claimed] = min(found.get(claimed, at), at)
    return found
