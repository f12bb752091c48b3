"""Nodes, devices, gpus, and the reports with their documents and roofs."""

from __future__ import annotations

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


def upgrade() -> None:
    op.create_table(
        "devices",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
        sa.UniqueConstraint("name", name="uq_devices_name"),
        sa.UniqueConstraint("slug", name="uq_devices_slug"),
    )
    op.create_table(
        "nodes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", JSON_DOCUMENT, nullable=False),
        sa.Column("first_seen", UTC_TIME, nullable=True),
        sa.Column("last_seen", UTC_TIME, nullable=True),
        sa.Column("last_report_id", sa.Uuid(), nullable=False),
        sa.Column("last_rank", sa.Text(), nullable=False),
        sa.Column("roster", JSON_DOCUMENT, nullable=True),
        sa.Column("roster_seen", UTC_TIME, nullable=True),
        sa.Column("roster_report_id", sa.Uuid(), nullable=True),
        sa.Column("roster_rank", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.UniqueConstraint("cluster", "name", name="uq_nodes_cluster_name"),
    )
    op.create_table(
        "device_names",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_device_names_device_id_devices"),
        sa.PrimaryKeyConstraint("name", "device_id", name="pk_device_names"),
    )
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
        sa.Column("mig_profile", sa.Text(), nullable=True),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("stated", JSON_DOCUMENT, nullable=False),
        sa.Column("first_seen", UTC_TIME, nullable=True),
        sa.Column("last_seen", UTC_TIME, nullable=True),
        sa.Column("last_report_id", sa.Uuid(), nullable=False),
        sa.Column("last_rank", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_gpus_device_id_devices"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_gpus_node_id_nodes"),
        sa.PrimaryKeyConstraint("id", name="pk_gpus"),
        sa.UniqueConstraint("identity", "simulated", name="uq_gpus_identity_simulated"),
    )
    op.create_index("ix_gpus_device_id", "gpus", ["device_id"])
    op.create_index("ix_gpus_node_id", "gpus", ["node_id"])
    op.create_table(
        "reports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("content_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("ordered_at", UTC_TIME, nullable=True),
        sa.Column("measured_from", UTC_TIME, nullable=True),
        sa.Column("measured_to", UTC_TIME, nullable=True),
        sa.Column("sent_at", UTC_TIME, nullable=True),
        sa.Column("clock_ahead", sa.Boolean(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("run_id", sa.Uuid(), nullable=False),
        sa.Column("run_kind", sa.Text(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node_id", ROW_ID, nullable=True),
        sa.Column("gpu_id", ROW_ID, nullable=True),
        sa.Column("device_id", ROW_ID, nullable=True),
        sa.Column("device_certainty", sa.Integer(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        sa.Column("mig_profile", sa.Text(), nullable=True),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("agent_version", sa.Text(), nullable=False),
        sa.Column("protocol_version", sa.Integer(), nullable=True),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("profile", sa.Text(), nullable=True),
        sa.Column("fill", sa.Text(), nullable=True),
        sa.Column("torch", sa.Text(), nullable=True),
        sa.Column("runtime", sa.Text(), nullable=True),
        sa.Column("driver", sa.Text(), nullable=True),
        sa.Column("cublas", sa.Text(), nullable=True),
        sa.Column("vbios", sa.Text(), nullable=True),
        sa.Column("ecc_enabled", sa.Boolean(), nullable=True),
        sa.Column("power_limit_w", sa.Double(), nullable=True),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("contended", sa.Boolean(), nullable=True),
        sa.Column("unstable", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_reports_device_id_devices"),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name="fk_reports_gpu_id_gpus"),
        sa.ForeignKeyConstraint(["node_id"], ["nodes.id"], name="fk_reports_node_id_nodes"),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
    )
    op.create_index(
        "ix_reports_gpu_id_device_certainty_ordered_at", "reports", ["gpu_id", "device_certainty", "ordered_at"]
    )
    op.create_index("ix_reports_gpu_id_ordered_at", "reports", ["gpu_id", "ordered_at"])
    op.create_index("ix_reports_gpu_id_run_kind_ordered_at", "reports", ["gpu_id", "run_kind", "ordered_at"])
    op.create_index("ix_reports_node_id_ordered_at", "reports", ["node_id", "ordered_at"])
    op.create_index("ix_reports_received_at", "reports", ["received_at"])
    op.create_table(
        "documents",
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("received_at", UTC_TIME, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["report_id"], ["reports.id"], name="fk_documents_report_id_reports"),
        sa.PrimaryKeyConstraint("report_id", name="pk_documents"),
    )
    op.create_index("ix_documents_received_at", "documents", ["received_at"])
    op.create_table(
        "roofs",
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("out_dtype", sa.Text(), nullable=True),
        sa.Column("fast_accumulation", sa.Boolean(), nullable=True),
        sa.Column("regime", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("ci_low", sa.Double(), nullable=True),
        sa.Column("ci_high", sa.Double(), nullable=True),
        sa.Column("converged", sa.Boolean(), nullable=True),
        sa.Column("first_block", sa.Double(), nullable=True),
        sa.Column("last_block", sa.Double(), nullable=True),
        sa.Column("trend", sa.Double(), nullable=True),
        sa.Column("sm_clock_mhz", sa.Double(), nullable=True),
        sa.Column("power_w", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["report_id"], ["reports.id"], name="fk_roofs_report_id_reports"),
        sa.PrimaryKeyConstraint("report_id", "position", name="pk_roofs"),
    )
    op.create_table(
        "gpu_roofs",
        sa.Column("gpu_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("device_id", ROW_ID, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("out_dtype", sa.Text(), nullable=True),
        sa.Column("fast_accumulation", sa.Boolean(), nullable=True),
        sa.Column("regime", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=True),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=True),
        sa.Column("sm_count", sa.Integer(), nullable=True),
        sa.Column("mig_profile", sa.Text(), nullable=True),
        sa.Column("partition", sa.Text(), nullable=True),
        sa.Column("fill", sa.Text(), nullable=True),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("protocol_version", sa.Integer(), nullable=True),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("reports", sa.Integer(), nullable=False),
        sa.Column("oldest_at", UTC_TIME, nullable=False),
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column("ordered_at", UTC_TIME, nullable=False),
        sa.Column("measured_to", UTC_TIME, nullable=True),
        sa.Column("newest_value", sa.Double(), nullable=False),
        sa.Column("sm_clock_mhz", sa.Double(), nullable=True),
        sa.Column("power_w", sa.Double(), nullable=True),
        sa.Column("temperature_c", sa.Double(), nullable=True),
        sa.Column("converged", sa.Boolean(), nullable=True),
        sa.Column("clock_ahead", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_gpu_roofs_device_id_devices"),
        sa.ForeignKeyConstraint(["gpu_id"], ["gpus.id"], name="fk_gpu_roofs_gpu_id_gpus"),
        sa.PrimaryKeyConstraint("gpu_id", "position", name="pk_gpu_roofs"),
    )
    op.create_index("ix_gpu_roofs_device_id", "gpu_roofs", ["device_id"])


def downgrade() -> None:
    for table in ("gpu_roofs", "roofs", "documents", "reports", "gpus", "device_names", "nodes", "devices"):
        op.drop_table(table)
