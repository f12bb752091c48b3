"""
The first schema: every table of version 0.1.0, made by a function that is named as it is.

What is declared here never changes once it is released: a later schema is a migration of its own, which adds.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# Spelled out, not imported: a released migration never changes, the models do.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC_TIME = sa.DateTime(timezone=True)
JSON_DOCUMENT = sa.JSON().with_variant(JSONB(), "postgresql")
HAS_TOKEN = sa.text("token_id IS NOT NULL")


def upgrade() -> None:
    for create in TABLES:
        create()


def downgrade() -> None:
    for create in reversed(TABLES):
        op.drop_table(create.__name__.removeprefix("_"))


def _required(kind: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _optional(kind: sa.types.TypeEngine[Any], *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=True) for name in names]


def _reference(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}_{target.partition('.')[0]}")


def _index(table: str, *columns: str, where: sa.TextClause | None = None) -> None:
    name = f"ix_{table}_{'_'.join(columns)}"
    op.create_index(name, table, list(columns), postgresql_where=where, sqlite_where=where)


def _devices() -> None:
    op.create_table(
        "devices",
        sa.Column("id", ROW_ID, nullable=False),
        *_required(sa.Text(), "name", "slug"),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("name", name="uq_devices_name"),
        sa.UniqueConstraint("slug", name="uq_devices_slug"),
    )


def _device_names() -> None:
    op.create_table(
        "device_names",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.PrimaryKeyConstraint("name", "device_id", name="pk_device_names"),
        _reference("device_names", "device_id", "devices.id"),
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", ROW_ID, nullable=False),
        *_required(sa.Text(), "cluster", "name"),
        sa.Column("labels", JSON_DOCUMENT, nullable=False),
        *_optional(UTC_TIME, "first_seen", "last_seen"),
        sa.Column("last_report_id", sa.Uuid(), nullable=False),
        sa.Column("last_rank", sa.Text(), nullable=False),
        sa.Column("roster", JSON_DOCUMENT, nullable=True),
        sa.Column("roster_seen", UTC_TIME, nullable=True),
        sa.Column("roster_report_id", sa.Uuid(), nullable=True),
        sa.Column("roster_rank", sa.Text(), nullable=True),
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.UniqueConstraint("cluster", "name", name="uq_nodes_cluster_name"),
    )


def _gpus() -> None:
    op.create_table(
        "gpus",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node_id", ROW_ID, nullable=True),
        sa.Column("pci_bus_id", sa.Text(), nullable=True),
        sa.Column("gpu_index", sa.Integer(), nullable=True),
        sa.Column("architecture", sa.Text(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        *_optional(sa.Text(), "mig_profile", "partition"),
        sa.Column("stated", JSON_DOCUMENT, nullable=False),
        *_optional(UTC_TIME, "first_seen", "last_seen"),
        sa.Column("last_report_id", sa.Uuid(), nullable=False),
        sa.Column("last_rank", sa.Text(), nullable=False),
        sa.Column("is_due", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("several_nodes", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("measured_at", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_gpus"),
        sa.UniqueConstraint("identity", "simulated", name="uq_gpus_identity_simulated"),
        _reference("gpus", "device_id", "devices.id"),
        _reference("gpus", "node_id", "nodes.id"),
    )
    _index("gpus", "device_id", "is_due")
    _index("gpus", "node_id")
    _index("gpus", "simulated", "measured_at")


def _reports() -> None:
    op.create_table(
        "reports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", UTC_TIME, nullable=False),
        *_optional(UTC_TIME, "ordered_at", "measured_from", "measured_to", "sent_at"),
        sa.Column("clock_ahead", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        *_optional(sa.Text(), "reason", "detail"),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        *_required(sa.Text(), "run_kind", "cluster"),
        *_optional(ROW_ID, "node_id", "gpu_id", "device_id"),
        sa.Column("device_certainty", sa.Integer(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        *_optional(sa.Text(), "mig_profile", "partition"),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("protocol_version", sa.Integer(), nullable=True),
        *_optional(sa.Text(), "method", "fill", "torch", "driver", "cublas", "vbios"),
        sa.Column("ecc_enabled", sa.Boolean(), nullable=True),
        *_optional(sa.Double(), "power_limit_w", "temperature_c"),
        sa.Column("contended", sa.Boolean(), nullable=True),
        sa.Column("rack", sa.Text(), nullable=True),
        sa.Column("health", JSON_DOCUMENT, nullable=True),
        sa.Column("token_id", ROW_ID, nullable=True),
        sa.Column("quarantined", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("conflict_from", UTC_TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
        _reference("reports", "device_id", "devices.id"),
        _reference("reports", "gpu_id", "gpus.id"),
        _reference("reports", "node_id", "nodes.id"),
    )
    _index("reports", "gpu_id", "device_certainty", "ordered_at")
    _index("reports", "gpu_id", "ordered_at")
    _index("reports", "gpu_id", "run_kind", "ordered_at")
    _index("reports", "node_id", "ordered_at")
    _index("reports", "received_at")
    _index("reports", "token_id", "gpu_id", where=HAS_TOKEN)


def _documents() -> None:
    """By month of arrival; on PostgreSQL each month is a table of its own, made by whoever runs the migrations."""
    # Without a reference to reports: dropping a month would have to lock that table, and nothing deletes its rows.
    op.create_table(
        "documents",
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("received_at", "report_id", name="pk_documents"),
        postgresql_partition_by="RANGE (received_at)",
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL")  # it is compressed already


def _roofs() -> None:
    op.create_table(
        "roofs",
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        *_required(sa.Text(), "kind", "dtype"),
        sa.Column("out_dtype", sa.Text(), nullable=True),
        sa.Column("fast_accumulation", sa.Boolean(), nullable=True),
        *_required(sa.Text(), "regime", "level"),
        sa.Column("kernel", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("converged", sa.Boolean(), nullable=True),
        *_optional(sa.Double(), "trend", "sm_clock_mhz", "power_w", "memory_clock_mhz", "temperature_c"),
        sa.Column("throttle_ms", JSON_DOCUMENT, nullable=True),
        sa.Column("implausible", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("report_id", "position", name="pk_roofs"),
        _reference("roofs", "report_id", "reports.id"),
    )


def _gpu_histories() -> None:
    op.create_table(
        "gpu_histories",
        sa.Column("gpu_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("gpu_id", name="pk_gpu_histories"),
        _reference("gpu_histories", "device_id", "devices.id"),
        _reference("gpu_histories", "gpu_id", "gpus.id"),
    )
    _index("gpu_histories", "device_id")


def _evaluations_due() -> None:
    op.create_table(
        "evaluations_due",
        sa.Column("device_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        *_required(UTC_TIME, "since", "latest"),
        sa.PrimaryKeyConstraint("device_id", "simulated", name="pk_evaluations_due"),
        _reference("evaluations_due", "device_id", "devices.id"),
    )


def _evaluations() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        *_required(sa.Boolean(), "simulated", "historical"),
        *_required(UTC_TIME, "as_of", "made_at"),
        sa.Column("took_ms", sa.Double(), nullable=False),
        *_required(sa.Integer(), "rule_version", "gpus"),
        sa.Column("counts", JSON_DOCUMENT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
        _reference("evaluations", "device_id", "devices.id"),
    )
    _index("evaluations", "device_id", "simulated", "historical", "as_of")


def _evaluation_columns() -> None:
    op.create_table(
        "evaluation_columns",
        sa.Column("evaluation_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("evaluation_id", "part", name="pk_evaluation_columns"),
    )


def _gpu_verdicts() -> None:
    op.create_table(
        "gpu_verdicts",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_state", sa.Text(), nullable=True),
        sa.Column("state_rank", sa.Integer(), nullable=False),
        sa.Column("since", UTC_TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("accused", sa.Text(), nullable=False),
        sa.Column("recorded_at", UTC_TIME, nullable=False),
        *_required(sa.LargeBinary(), "digest", "body"),
        sa.PrimaryKeyConstraint("identity", "simulated", name="pk_gpu_verdicts"),
        _reference("gpu_verdicts", "device_id", "devices.id"),
    )
    _index("gpu_verdicts", "device_id", "simulated", "state_rank")


def _verdict_changes() -> None:
    op.create_table(
        "verdict_changes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("evaluation_id", ROW_ID, nullable=False),
        sa.Column("historical", sa.Boolean(), nullable=False),
        *_required(UTC_TIME, "as_of", "made_at"),
        *_optional(sa.Text(), "state", "last_state"),
        sa.Column("since", UTC_TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_verdict_changes"),
        _reference("verdict_changes", "device_id", "devices.id"),
    )
    _index("verdict_changes", "device_id", "simulated", "historical", "as_of")
    _index("verdict_changes", "evaluation_id")
    _index("verdict_changes", "identity", "simulated", "as_of")


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", ROW_ID, nullable=False),
        *_required(sa.Text(), "kind", "subject"),
        sa.Column("open_key", sa.Text(), nullable=True),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        *_optional(sa.Text(), "cluster", "node", "rack", "gpu"),
        *_required(sa.Text(), "state", "summary"),
        sa.Column("details", JSON_DOCUMENT, nullable=False),
        sa.Column("opened_at", UTC_TIME, nullable=False),
        sa.Column("opened_by", ROW_ID, nullable=False),
        sa.Column("last_seen", UTC_TIME, nullable=False),
        sa.Column("resolved_at", UTC_TIME, nullable=True),
        sa.Column("resolved_by", ROW_ID, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sa.UniqueConstraint("open_key", name="uq_alerts_open_key"),
        _reference("alerts", "device_id", "devices.id"),
    )
    _index("alerts", "device_id", "simulated", "resolved_at")
    _index("alerts", "resolved_at", "opened_at")


def _notifications() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("message_id", sa.Uuid(), nullable=False),
        sa.Column("made_at", UTC_TIME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", UTC_TIME, nullable=False),
        sa.Column("ended_at", UTC_TIME, nullable=True),
        *_optional(sa.Text(), "outcome", "problem"),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
    )
    _index("notifications", "ended_at")


def _notified_alerts() -> None:
    op.create_table(
        "notified_alerts",
        sa.Column("alert_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("fired_by", ROW_ID, nullable=False),
        sa.Column("resolved_by", ROW_ID, nullable=True),
        sa.PrimaryKeyConstraint("alert_id", name="pk_notified_alerts"),
        _reference("notified_alerts", "alert_id", "alerts.id"),
    )
    _index("notified_alerts", "resolved_by")


def _marks() -> None:
    op.create_table(
        "marks",
        sa.Column("id", ROW_ID, nullable=False),
        *_required(sa.Text(), "kind", "reason", "author"),
        sa.Column("made_at", UTC_TIME, nullable=False),
        *_optional(UTC_TIME, "until", "ended_at"),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        *_optional(sa.Text(), "gpu", "cluster", "node", "rack", "driver"),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
    )
    _index("marks", "gpu")
    _index("marks", "made_at")


def _inventory() -> None:
    op.create_table(
        "inventory",
        sa.Column("id", ROW_ID, nullable=False),
        *_required(sa.Text(), "cluster", "node"),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("device_id", ROW_ID, nullable=True),
        sa.Column("expected_gpus", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_inventory"),
        sa.UniqueConstraint("cluster", "node", "gpu", name="uq_inventory_cluster_node_gpu"),
        _reference("inventory", "device_id", "devices.id"),
    )
    _index("inventory", "device_id")


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        *_optional(sa.Text(), "cluster", "node"),
        sa.Column("created_at", UTC_TIME, nullable=False),
        *_optional(UTC_TIME, "expires_at", "revoked_at", "last_used_at", "quarantined_at", "quarantined_since"),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
        sa.UniqueConstraint("sha256", name="uq_tokens_sha256"),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("token_id", ROW_ID, nullable=False),
        *_required(UTC_TIME, "created_at", "expires_at"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("sha256", name="uq_sessions_sha256"),
        _reference("sessions", "token_id", "tokens.id"),
    )


# Each after those that it refers to.
TABLES = (
    _devices, _device_names, _nodes, _gpus, _reports, _documents, _roofs, _gpu_histories,
    _evaluations_due, _evaluations, _evaluation_columns, _gpu_verdicts, _verdict_changes, _alerts, _notifications,
    _notified_alerts, _marks, _inventory, _tokens, _sessions,
)  # fmt: skip
