"""
Tables of reports, gpus, nodes and devices.

Few and plain, the same on SQLite and PostgreSQL. There are no relationships: queries say which rows they join. A null
is a value of its own wherever rows are grouped by a column that may be null.

"Ordering time" (`ordered_at`, `first_seen`, `last_seen`) is what `intake.examine` makes of a report's own times;
nothing that a row says depends on the order in which reports arrived. A "rank" is a text that sorts as reports do
(`intake.hardware.rank_of`): the one with the greater rank is the newer.
"""

from datetime import datetime
from enum import IntEnum
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, ForeignKey, Index, MetaData, UniqueConstraint, false, or_, text, true
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import Boolean, Double, Integer, LargeBinary, Text, Uuid

from fleetridge_server.db.column_types import JsonDocument, RowId, UtcDateTime

# Migrations can only change a constraint that has a name, and the two databases would each invent another one.
NAMING_CONVENTION = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
}


class Base(DeclarativeBase):
    """Base of all tables, with one SQL type per Python type."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map = {  # noqa: RUF012 # declared by the base class as an instance attribute
        datetime: UtcDateTime(),
        str: Text(),
        int: Integer(),
        float: Double(),
        bool: Boolean(),
        bytes: LargeBinary(),
        UUID: Uuid(),
    }


class Node(Base):
    """
    A host, named within its cluster.

    Attributes:
        labels: of the newest report.
        first_seen, last_seen: ordering times of its oldest and newest report; null while all came without a time.
        last_report_id, last_rank: the newest report.
        roster: gpus of the newest complete roster, each `{gpu_id, pci_bus_id, index, device}` (`gpu_id` as in `gpus`,
            null where the entry has no identity), and `state` where it has one; null while none was complete.
        roster_seen, roster_report_id, roster_rank: ordering time and report of that roster.
        quarantined: whether every report that names it is in quarantine, so that it is not shown.
    """

    __tablename__ = "nodes"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    cluster: Mapped[str]
    name: Mapped[str]
    labels: Mapped[dict[str, str]] = mapped_column(JsonDocument)
    first_seen: Mapped[datetime | None]
    last_seen: Mapped[datetime | None]
    last_report_id: Mapped[UUID]
    last_rank: Mapped[str]
    roster: Mapped[list[dict[str, Any]] | None] = mapped_column(JsonDocument)
    roster_seen: Mapped[datetime | None]
    roster_report_id: Mapped[UUID | None]
    roster_rank: Mapped[str | None]
    quarantined: Mapped[bool] = mapped_column(server_default=false())

    __table_args__ = (UniqueConstraint("cluster", "name"),)


class DeviceCertainty(IntEnum):
    """How well a report knows its device; the more certain word counts, whichever is newer."""

    UNKNOWN = 0
    DESCRIBED = 1  # by architecture or memory, where a driver gives no name
    NAMED = 2


class Device(Base):
    """
    A model of gpu.

    Attributes:
        name: canonical (`fleetridge.device_names.canonical_device_name`, or the fallback where a driver gives none).
        slug: the name as it is easy to type in a URL. It never changes once it is given, so that links stay; where two
            names would share one, the device that came first has it.
    """

    __tablename__ = "devices"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    slug: Mapped[str] = mapped_column(unique=True)


class DeviceNameRow(Base):
    """A name that some driver gave a device, exactly as it came (never empty)."""

    __tablename__ = "device_names"

    name: Mapped[str] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"), primary_key=True)


class Gpu(Base):
    """
    One physical unit or MIG slice: what its reports say of it, the newest one that states a thing.

    Attributes:
        identity: `fleetridge.device_names.gpu_identity`: the UUID, or `noid-…` where the driver gives none. What
            programs and people call the gpu's id.
        simulated: whether it is made up; a made-up gpu is another one than the real gpu of the same identity.
        device_id: named by a driver, else by what is known of it (`DeviceCertainty`).
        cluster, node_id: where it is now; no node where an import never said.
        pci_bus_id to partition: null where no report ever said.
        stated: the rank of the report that each of these comes from, by column.
        first_seen, last_seen, last_report_id, last_rank: as in `nodes`.
        measured_at: ordering time of its newest valid report with rates; null where there is none.
        is_due: whether it reported something that its row in `gpu_histories` does not know yet.
        several_nodes: whether its reports may come from more than one node; where they do not, none conflict.
        quarantined: whether all its reports are in quarantine, so that it is not shown.
    """

    __tablename__ = "gpus"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    identity: Mapped[str]
    simulated: Mapped[bool]
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    cluster: Mapped[str]
    node_id: Mapped[int | None] = mapped_column(RowId, ForeignKey("nodes.id"))
    pci_bus_id: Mapped[str | None]
    gpu_index: Mapped[int | None]
    architecture: Mapped[str | None]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    sm_count: Mapped[int | None]
    mig_profile: Mapped[str | None]
    partition: Mapped[str | None]
    stated: Mapped[dict[str, str]] = mapped_column(JsonDocument)
    first_seen: Mapped[datetime | None]
    last_seen: Mapped[datetime | None]
    last_report_id: Mapped[UUID]
    last_rank: Mapped[str]
    measured_at: Mapped[datetime | None]
    is_due: Mapped[bool] = mapped_column(server_default=true())
    several_nodes: Mapped[bool] = mapped_column(server_default=false())
    quarantined: Mapped[bool] = mapped_column(server_default=false())

    __table_args__ = (
        UniqueConstraint("identity", "simulated"),
        Index(None, "device_id", "is_due"),
        Index(None, "simulated", "measured_at"),
        Index(None, "node_id"),
    )


_HAS_TOKEN = text("token_id IS NOT NULL")


class Report(Base):
    """
    Typed summary of one report; it stays when retention drops the document.

    Attributes:
        content_sha256: of the canonical JSON: distinguishes a repeated report from another one under the same id.
        received_at: by this server's clock.
        ordered_at: the ordering time; null where the report has no time (it is stored, never compared).
        sent_at: by the node's clock, from the envelope.
        clock_ahead: the node's clock was ahead of ours by more than it may be.
        gpu_id, device_id, device_certainty: null where the report is about the node as a whole.
        node_id: null where an import never said.
        memory_bytes to partition: as reported then; those of `gpus` are the newest.
        temperature_c: highest over the timed phases.
        rack: the node's reserved label then.
        health: fields of `engine.evidence.GpuHealth` that were read; null where none was.
        token_id: row of the token that it was posted with; null without one. Tokens are never deleted.
        quarantined: it counts for nothing, since its token is not trusted.
        conflict_from: from which ordering time on it is known that another node claims its gpu within the hour
            (`engine.evidence`); null where none does.
    """

    __tablename__ = "reports"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    content_sha256: Mapped[bytes]
    received_at: Mapped[datetime]
    ordered_at: Mapped[datetime | None]
    measured_from: Mapped[datetime | None]
    measured_to: Mapped[datetime | None]
    sent_at: Mapped[datetime | None]
    clock_ahead: Mapped[bool]
    outcome: Mapped[str]
    reason: Mapped[str | None]
    detail: Mapped[str | None]
    run_id: Mapped[UUID]
    run_kind: Mapped[str]
    cluster: Mapped[str]
    node_id: Mapped[int | None] = mapped_column(RowId, ForeignKey("nodes.id"))
    gpu_id: Mapped[int | None] = mapped_column(RowId, ForeignKey("gpus.id"))
    device_id: Mapped[int | None] = mapped_column(RowId, ForeignKey("devices.id"))
    device_certainty: Mapped[int | None]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    sm_count: Mapped[int | None]
    mig_profile: Mapped[str | None]
    partition: Mapped[str | None]
    agent_version: Mapped[str]
    protocol_version: Mapped[int | None]
    method: Mapped[str | None]
    fill: Mapped[str | None]
    torch: Mapped[str | None]
    driver: Mapped[str | None]
    cublas: Mapped[str | None]
    vbios: Mapped[str | None]
    ecc_enabled: Mapped[bool | None]
    power_limit_w: Mapped[float | None]
    temperature_c: Mapped[float | None]
    contended: Mapped[bool | None]
    rack: Mapped[str | None]
    health: Mapped[dict[str, Any] | None] = mapped_column(JsonDocument)
    token_id: Mapped[int | None] = mapped_column(RowId)
    quarantined: Mapped[bool] = mapped_column(server_default=false())
    conflict_from: Mapped[datetime | None]

    __table_args__ = (
        Index(None, "gpu_id", "ordered_at"),
        Index(None, "gpu_id", "run_kind", "ordered_at"),
        Index(None, "gpu_id", "device_certainty", "ordered_at"),
        Index(None, "node_id", "ordered_at"),
        Index(None, "received_at"),
        # Of a server that asks for no tokens it is empty and costs nothing.
        Index(None, "token_id", "gpu_id", postgresql_where=_HAS_TOKEN, sqlite_where=_HAS_TOKEN),
    )


class Document(Base):
    """
    A report exactly as it was sent. On PostgreSQL the table has one partition for each month (`db.document_months`).

    It refers to no row of `reports`, though it came with one: to drop a month would lock that table otherwise.

    Attributes:
        received_at: as in `reports`; it says which month to look in.
        body: zlib over the JSON text of the parsed item: same keys in the same order, nothing dropped, nothing added.
    """

    __tablename__ = "documents"

    received_at: Mapped[datetime] = mapped_column(primary_key=True)
    report_id: Mapped[UUID] = mapped_column(primary_key=True)
    body: Mapped[bytes]

    __table_args__ = ({"postgresql_partition_by": "RANGE (received_at)"},)


class Roof(Base):
    """
    One ceiling of one report.

    Attributes:
        position: in the report's list.
        dtype: settled (`fleetridge.report.roofs.settled_dtype`): float32 never stands for TF32.
        memory_clock_mhz to throttle_ms: of the phase in which it was timed; null where the report has none of it.
        implausible: above what the silicon can do.
    """

    __tablename__ = "roofs"

    report_id: Mapped[UUID] = mapped_column(ForeignKey("reports.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    dtype: Mapped[str]
    out_dtype: Mapped[str | None]
    fast_accumulation: Mapped[bool | None]
    regime: Mapped[str]
    level: Mapped[str]
    kernel: Mapped[str | None]
    value: Mapped[float]
    unit: Mapped[str]
    converged: Mapped[bool | None]
    trend: Mapped[float | None]
    sm_clock_mhz: Mapped[float | None]
    power_w: Mapped[float | None]
    memory_clock_mhz: Mapped[float | None]
    temperature_c: Mapped[float | None]
    throttle_ms: Mapped[dict[str, float] | None] = mapped_column(JsonDocument)
    implausible: Mapped[bool] = mapped_column(server_default=false())


def is_trusted(report: type[Report]) -> ColumnElement[bool]:
    """Whether a report counts at all: the token that it came with is trusted."""
    return ~report.quarantined


def is_undisputed(report: type[Report], as_of: datetime | None = None) -> ColumnElement[bool]:
    """Whether, as far as was known at a time (None for now), no other node claimed the gpu within the same hour."""
    undisputed = report.conflict_from.is_(None)
    return undisputed if as_of is None else or_(undisputed, report.conflict_from > as_of)
