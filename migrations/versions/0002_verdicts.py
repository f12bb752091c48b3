"""Verdicts: the evidence that they rest on, what was said and when, alerts, marks and the inventory."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# Spelled out, not imported: a released migration never changes, the models do.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC_TIME = sa.DateTime(timezone=True)
JSON_DOCUMENT = sa.JSON().with_variant(JSONB(), "postgresql")

NEW_TABLES = (
    "gpu_histories",
    "evaluations_due",
    "evaluations",
    "gpu_verdicts",
    "verdict_changes",
    "alerts",
    "marks",
    "inventory",
    "notifications",
    "notified_alerts",
)


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    return {
        "gpus": [
            sa.Column("is_due", sa.Boolean(), server_default=sa.true(), nullable=False),
            sa.Column("identity_conflict", sa.Boolean(), server_default=sa.false(), nullable=False),
        ],
        "reports": [
            sa.Column("rack", sa.Text(), nullable=True),
            sa.Column("health", JSON_DOCUMENT, nullable=True),
        ],
        "roofs": [
            sa.Column("memory_clock_mhz", sa.Double(), nullable=True),
            sa.Column("temperature_c", sa.Double(), nullable=True),
            sa.Column("throttle_ms", JSON_DOCUMENT, nullable=True),
            sa.Column("implausible", sa.Boolean(), server_default=sa.false(), nullable=False),
        ],
    }


def upgrade() -> None:
    for table, columns in _new_columns().items():
        for column in columns:
            op.add_column(table, column)  # in place, also on SQLite: large tables are not written anew
    op.create_index("ix_gpus_device_id_is_due", "gpus", ["device_id", "is_due"])
    op.drop_index("ix_gpus_device_id", "gpus")
    _create_inputs()
    _create_outcomes()
    _create_decisions()
    _create_outbox()
    _make_all_due()


def downgrade() -> None:
    for table in reversed(NEW_TABLES):
        op.drop_table(table)
    op.create_index("ix_gpus_device_id", "gpus", ["device_id"])
    op.drop_index("ix_gpus_device_id_is_due", "gpus")
    for table, columns in _new_columns().items():
        with op.batch_alter_table(table) as changed:
            for column in columns:
                changed.drop_column(column.name)


def _device_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name=f"fk_{table}_device_id_devices")


def _create_inputs() -> None:
    op.create_table(
        "gpu_histories",
        sa.Column("gpu_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("format", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _device_key("gpu_histories"),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name="fk_gpu_histories_gpu_id_gpus"),
        sa.PrimaryKeyConstraint("gpu_id", name="pk_gpu_histories"),
    )
    op.create_index("ix_gpu_histories_device_id", "gpu_histories", ["device_id"])
    op.create_table(
        "evaluations_due",
        sa.Column("device_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("since", UTC_TIME, nullable=False),
        sa.Column("latest", UTC_TIME, nullable=False),
        _device_key("evaluations_due"),
        sa.PrimaryKeyConstraint("device_id", "simulated", name="pk_evaluations_due"),
    )


def _create_outcomes() -> None:
    op.create_table(
        "evaluations",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("aside", sa.Boolean(), nullable=False),
        sa.Column("as_of", UTC_TIME, nullable=False),
        sa.Column("made_at", UTC_TIME, nullable=False),
        sa.Column("took_ms", sa.Double(), nullable=False),
        sa.Column("rule_version", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("counts", JSON_DOCUMENT, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _device_key("evaluations"),
        sa.PrimaryKeyConstraint("id", name="pk_evaluations"),
    )
    op.create_index(
        "ix_evaluations_device_id_simulated_aside_as_of", "evaluations", ["device_id", "simulated", "aside", "as_of"]
    )
    op.create_table(
        "gpu_verdicts",
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("evaluation_id", ROW_ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("last_state", sa.Text(), nullable=True),
        sa.Column("state_rank", sa.Integer(), nullable=False),
        sa.Column("since", UTC_TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("accused", sa.Text(), nullable=False),
        sa.Column("told_at", UTC_TIME, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        _device_key("gpu_verdicts"),
        sa.PrimaryKeyConstraint("identity", "simulated", name="pk_gpu_verdicts"),
    )
    op.create_index(
        "ix_gpu_verdicts_device_id_simulated_state_rank_loss_identity",
        "gpu_verdicts",
        ["device_id", "simulated", "state_rank", "loss", "identity"],
    )
    op.create_table(
        "verdict_changes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("identity", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("evaluation_id", ROW_ID, nullable=False),
        sa.Column("aside", sa.Boolean(), nullable=False),
        sa.Column("as_of", UTC_TIME, nullable=False),
        sa.Column("made_at", UTC_TIME, nullable=False),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("last_state", sa.Text(), nullable=True),
        sa.Column("since", UTC_TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        _device_key("verdict_changes"),
        sa.PrimaryKeyConstraint("id", name="pk_verdict_changes"),
    )
    op.create_index(
        "ix_verdict_changes_identity_simulated_as_of", "verdict_changes", ["identity", "simulated", "as_of"]
    )
    op.create_index(
        "ix_verdict_changes_device_id_simulated_aside_as_of",
        "verdict_changes",
        ["device_id", "simulated", "aside", "as_of"],
    )
    op.create_index("ix_verdict_changes_evaluation_id", "verdict_changes", ["evaluation_id"])
    op.create_table(
        "alerts",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("open_key", sa.Text(), nullable=True),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("rack", sa.Text(), nullable=True),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("details", JSON_DOCUMENT, nullable=False),
        sa.Column("opened_at", UTC_TIME, nullable=False),
        sa.Column("opened_by", ROW_ID, nullable=False),
        sa.Column("last_seen", UTC_TIME, nullable=False),
        sa.Column("last_seen_by", ROW_ID, nullable=False),
        sa.Column("resolved_at", UTC_TIME, nullable=True),
        sa.Column("resolved_by", ROW_ID, nullable=True),
        _device_key("alerts"),
        sa.PrimaryKeyConstraint("id", name="pk_alerts"),
        sa.UniqueConstraint("open_key", name="uq_alerts_open_key"),
    )
    op.create_index("ix_alerts_device_id_simulated_resolved_at", "alerts", ["device_id", "simulated", "resolved_at"])
    op.create_index("ix_alerts_resolved_at_opened_at", "alerts", ["resolved_at", "opened_at"])


def _create_decisions() -> None:
    op.create_table(
        "marks",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("made_at", UTC_TIME, nullable=False),
        sa.Column("until", UTC_TIME, nullable=True),
        sa.Column("ended_at", UTC_TIME, nullable=True),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("cluster", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("rack", sa.Text(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
    )
    op.create_index("ix_marks_gpu", "marks", ["gpu"])
    op.create_index("ix_marks_made_at", "marks", ["made_at"])
    op.create_table(
        "inventory",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=True),
        sa.Column("device_id", ROW_ID, nullable=True),
        sa.Column("expected_gpus", sa.Integer(), nullable=True),
        sa.Column("imported_at", UTC_TIME, nullable=False),
        _device_key("inventory"),
        sa.PrimaryKeyConstraint("id", name="pk_inventory"),
        sa.UniqueConstraint("cluster", "node", "gpu", name="uq_inventory_cluster_node_gpu"),
    )
    op.create_index("ix_inventory_device_id", "inventory", ["device_id"])


def _create_outbox() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("message_id", sa.Uuid(), nullable=False),
        sa.Column("made_at", UTC_TIME, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", UTC_TIME, nullable=False),
        sa.Column("ended_at", UTC_TIME, nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notifications"),
    )
    op.create_index("ix_notifications_ended_at", "notifications", ["ended_at"])
    op.create_table(
        "notified_alerts",
        sa.Column("alert_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("fired_by", ROW_ID, nullable=False),
        sa.Column("resolved_by", ROW_ID, nullable=True),
        sa.ForeignKeyConstraint(["alert_id"], ["alerts.id"], name="fk_notified_alerts_alert_id_alerts"),
        sa.PrimaryKeyConstraint("alert_id", name="pk_notified_alerts"),
    )
    op.create_index("ix_notified_alerts_resolved_by", "notified_alerts", ["resolved_by"])


def _make_all_due() -> None:
    """Have the first evaluator judge what is there already."""
    gpus = sa.table("gpus", sa.column("device_id"), sa.column("simulated"))
    due = sa.table(
        "evaluations_due",
        sa.column("device_id"),
        sa.column("simulated"),
        sa.column("since", UTC_TIME),
        sa.column("latest", UTC_TIME),
    )
    now = datetime.now(timezone.utc)
    if op.get_bind().dialect.name == "sqlite":
        now = now.replace(tzinfo=None)  # as the models keep it there
    for device_id, simulated in op.get_bind().execute(sa.select(gpus.c.device_id, gpus.c.simulated).distinct()).all():
        op.execute(due.insert().values(device_id=device_id, simulated=bool(simulated), since=now, latest=now))
