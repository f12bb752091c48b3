"""Places of gpus in the lists of their devices, and when each was measured last."""

from __future__ import annotations

import struct
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Spelled out, not imported: a released migration never changes, the models do.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UTC_TIME = sa.DateTime(timezone=True)
ACCUSED = ("outlier", "drifted", "suspect")
ROWS_AT_ONCE = 1000
POPULATION = ("device_id", "simulated")

# 64 bits that stand for no deviation, and the bit of a sign.
NONE = (1 << 64) - 1
SIGN = 1 << 63

GPUS = sa.table("gpus", sa.column("id", ROW_ID), sa.column("measured_at", UTC_TIME))
ROOFS = sa.table("gpu_roofs", sa.column("gpu_id", ROW_ID), sa.column("ordered_at", UTC_TIME))
VERDICTS = sa.table(
    "gpu_verdicts",
    sa.column("identity", sa.Text()),
    sa.column("simulated", sa.Boolean()),
    sa.column("state", sa.Text()),
    sa.column("last_state", sa.Text()),
    sa.column("loss", sa.Double()),
    sa.column("rank", sa.LargeBinary()),
)


def upgrade() -> None:
    op.add_column("gpus", sa.Column("measured_at", UTC_TIME, nullable=True))
    newest = sa.select(sa.func.max(ROOFS.c.ordered_at)).where(ROOFS.c.gpu_id == GPUS.c.id).scalar_subquery()
    op.execute(sa.update(GPUS).values(measured_at=newest))
    op.create_index("ix_gpus_simulated_measured_at", "gpus", ["simulated", "measured_at"])
    op.drop_index("ix_gpu_verdicts_device_id_simulated_state_rank_loss_identity", "gpu_verdicts")
    op.add_column("gpu_verdicts", sa.Column("rank", sa.LargeBinary(), nullable=True))
    op.add_column("gpu_verdicts", sa.Column("former_rank", sa.LargeBinary(), nullable=True))
    _rank_all()
    with op.batch_alter_table("gpu_verdicts") as verdicts:
        verdicts.alter_column("rank", existing_type=sa.LargeBinary(), nullable=False)
    op.create_index("ix_gpu_verdicts_device_id_simulated_state_rank", "gpu_verdicts", [*POPULATION, "state_rank"])
    op.create_index("ix_gpu_verdicts_device_id_simulated_rank", "gpu_verdicts", [*POPULATION, "rank"])


def downgrade() -> None:
    op.drop_index("ix_gpu_verdicts_device_id_simulated_rank", "gpu_verdicts")
    op.drop_index("ix_gpu_verdicts_device_id_simulated_state_rank", "gpu_verdicts")
    with op.batch_alter_table("gpu_verdicts") as verdicts:
        verdicts.drop_column("former_rank")
        verdicts.drop_column("rank")
    op.create_index(
        "ix_gpu_verdicts_device_id_simulated_state_rank_loss_identity",
        "gpu_verdicts",
        [*POPULATION, "state_rank", "loss", "identity"],
    )
    op.drop_index("ix_gpus_simulated_measured_at", "gpus")
    with op.batch_alter_table("gpus") as gpus:
        gpus.drop_column("measured_at")


def _rank_all() -> None:
    """Give every verdict the rank that an evaluation would give it."""
    connection = op.get_bind()
    columns = ("identity", "simulated", "state", "last_state", "loss")
    rows = connection.execute(sa.select(*(VERDICTS.c[name] for name in columns))).all()
    ranking = (
        sa.update(VERDICTS)
        .where(VERDICTS.c.identity == sa.bindparam("key"), VERDICTS.c.simulated == sa.bindparam("made_up"))
        .values(rank=sa.bindparam("place"))
    )
    for start in range(0, len(rows), ROWS_AT_ONCE):
        chunk = rows[start : start + ROWS_AT_ONCE]
        values = [{"key": row.identity, "made_up": row.simulated, "place": _rank(row)} for row in chunk]
        connection.execute(ranking, values)


def _rank(row: Any) -> bytes:  # noqa: ANN401 # a row of verdicts
    said = row.last_state or row.state
    severity = ACCUSED.index(said) if said in ACCUSED else len(ACCUSED)
    name: str = row.identity
    return bytes([severity]) + struct.pack(">Q", _deviation(row.loss)) + name.encode()


def _deviation(loss: float | None) -> int:
    """Bits that count up as deviations do."""
    if loss is None:
        return NONE
    [bits] = struct.unpack(">Q", struct.pack(">d", -loss + 0.0))
    return int(bits ^ NONE if bits & SIGN else bits | SIGN)
