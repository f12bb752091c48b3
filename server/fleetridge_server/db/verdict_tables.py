"""
The tables of verdicts: what they are made from, what was said and when, and what people said of it.

`as_of` is the time that an evaluation judged by, `made_at` when it was made. A `body` is JSON, packed, which this floor
never reads. What a gpu did and what was decided of it stands in its row; what it was held against stands once for all
gpus in the evaluation, so that a row changes when its gpu reports or its state changes.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from fleetridge_server.db.column_types import JsonDocument, PackedJson, RowId
from fleetridge_server.db.tables import Base


class GpuHistoryRow(Base):
    """
    What verdicts need of one gpu's reports: a `evaluation.gpu_history.GpuHistory`, so that an evaluation reads one row
    for each gpu. The evaluator writes it for gpus that are due; one of an older format is made anew.

    Attributes:
        device_id: the device whose roofs are in it.
        format: by which it is packed.
    """

    __tablename__ = "gpu_histories"

    gpu_id: Mapped[int] = mapped_column(RowId, ForeignKey("gpus.id"), primary_key=True, autoincrement=False)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    format: Mapped[int]
    body: Mapped[str] = mapped_column(PackedJson)

    __table_args__ = (Index(None, "device_id"),)


class EvaluationDue(Base):
    """
    A device about which something arrived that no evaluation knows.

    Attributes:
        since: when the first of it arrived.
        latest: when the last of it arrived, give or take a second; a time in January 1970 once an evaluator took it up
            and nothing arrived since (`verdicts.series.take_due`).
    """

    __tablename__ = "evaluations_due"

    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"), primary_key=True, autoincrement=False)
    simulated: Mapped[bool] = mapped_column(primary_key=True)
    since: Mapped[datetime]
    latest: Mapped[datetime]


class StoredEvaluation(Base):
    """
    What was said of one device at one time, besides its gpus.

    Attributes:
        historical: asked for by somebody as of a time of the past; it stands beside the series of evaluations, with
            verdicts of its own on every gpu.
        took_ms: time that it took to read, judge and pack, in ms.
        gpus: that have a state; counts: how many in each.
        body: an `EvaluationBody`: figures, notices, and what the gpus are held against.
    """

    __tablename__ = "evaluations"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    simulated: Mapped[bool]
    historical: Mapped[bool]
    as_of: Mapped[datetime]
    made_at: Mapped[datetime]
    took_ms: Mapped[float]
    rule_version: Mapped[int]
    gpus: Mapped[int]
    counts: Mapped[dict[str, int]] = mapped_column(JsonDocument)
    body: Mapped[str] = mapped_column(PackedJson)

    __table_args__ = (Index(None, "device_id", "simulated", "historical", "as_of"),)


class EvaluationColumns(Base):
    """
    Numbers of all gpus of an evaluation, a blob each (`verdicts.fleet_order`).

    Attributes:
        part: 0 for the order of the gpus, worst first; n + 1 for what they count for in the n-th cohort of the body,
            which only the newest evaluations and historical ones keep.
    """

    __tablename__ = "evaluation_columns"

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    body: Mapped[bytes]


class CurrentVerdict(Base):
    """
    What is said of one gpu now; one that was never heard of has a row too, where the inventory names it.

    Attributes:
        identity, simulated: of the gpu, as in `gpus`.
        device_id: of which it was judged.
        state_rank: place of the state in the order of precedence, 0 for the first.
        since: `as_of` of the evaluation that first gave it this state.
        reason: code of the first reason.
        accused: judged roofs in which it is accused, sorted, a line each.
        recorded_at: `as_of` of the newest row of `verdict_changes` on it.
        digest: of the body.
        body: a `VerdictRecord`'s.
    """

    __tablename__ = "gpu_verdicts"

    identity: Mapped[str] = mapped_column(primary_key=True)
    simulated: Mapped[bool] = mapped_column(primary_key=True)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    state: Mapped[str]
    last_state: Mapped[str | None]
    state_rank: Mapped[int]
    since: Mapped[datetime]
    reason: Mapped[str | None]
    accused: Mapped[str]
    recorded_at: Mapped[datetime]
    digest: Mapped[bytes]
    body: Mapped[str] = mapped_column(PackedJson)

    __table_args__ = (Index(None, "device_id", "simulated", "state_rank"),)


class VerdictChange(Base):
    """
    What was said of one gpu from a time on, until the next row.

    A row is added where state, last state, first reason or accused roofs changed, and once a week while a gpu is
    accused. A historical evaluation has a row for each of its gpus, which holds for it alone.

    Attributes:
        evaluation_id: that said so; it may be gone, as only the last of an hour is kept.
        state: null from when on nothing is said of the gpu: it was retired, or is of another device.
        since: as in `gpu_verdicts`.
        loss: largest over its judged roofs, as a fraction, by that evaluation.
        text: the sentence on it.
        body: as in `gpu_verdicts`, of a historical evaluation; else null.
    """

    __tablename__ = "verdict_changes"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    identity: Mapped[str]
    simulated: Mapped[bool]
    evaluation_id: Mapped[int] = mapped_column(RowId)
    historical: Mapped[bool]
    as_of: Mapped[datetime]
    made_at: Mapped[datetime]
    state: Mapped[str | None]
    last_state: Mapped[str | None]
    since: Mapped[datetime]
    reason: Mapped[str | None]
    loss: Mapped[float | None]
    text: Mapped[str | None]
    body: Mapped[str | None] = mapped_column(PackedJson)

    __table_args__ = (
        Index(None, "identity", "simulated", "as_of"),
        Index(None, "device_id", "simulated", "historical", "as_of"),
        Index(None, "evaluation_id"),
    )


class Alert(Base):
    """
    Something that an evaluation found wrong, until one finds it well again.

    Attributes:
        kind: `gpu`, `node` (slow as a whole), `rack`, `cohort` (slower as a whole), `missing` (gpus of a node, or it),
            `health` (a gpu whose memory has to be repaired).
        subject: what it is about, within its kind and device; see `verdicts.alert_causes`.
        open_key: kind, device and subject while it is open, so that there is one only; null once it is resolved.
        cluster, node, rack, gpu: where it is, as far as it is in one place.
        state: of the gpu now, or at the end; else the word for what is wrong.
        summary: a sentence.
        details: what else programs want to know: `gpu_ids`, `reason`, `loss`, `roofs`.
        opened_at, resolved_at: `as_of` of the evaluations that did so; last_seen: of the newest that found it so.
    """

    __tablename__ = "alerts"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    kind: Mapped[str]
    subject: Mapped[str]
    open_key: Mapped[str | None] = mapped_column(unique=True)
    device_id: Mapped[int] = mapped_column(RowId, ForeignKey("devices.id"))
    simulated: Mapped[bool]
    cluster: Mapped[str | None]
    node: Mapped[str | None]
    rack: Mapped[str | None]
    gpu: Mapped[str | None]
    state: Mapped[str]
    summary: Mapped[str]
    details: Mapped[dict[str, Any]] = mapped_column(JsonDocument)
    opened_at: Mapped[datetime]
    opened_by: Mapped[int] = mapped_column(RowId)
    last_seen: Mapped[datetime]
    resolved_at: Mapped[datetime | None]
    resolved_by: Mapped[int | None] = mapped_column(RowId)

    __table_args__ = (Index(None, "device_id", "simulated", "resolved_at"), Index(None, "resolved_at", "opened_at"))


class StoredMark(Base):
    """
    A decision of a person about accusations (`engine.gpu_state.Mark`); it is ended, never deleted.

    Attributes:
        author: who decided.
        until: when it ends by itself; ended_at: when somebody ended it.
        gpu, cluster, node, rack, driver: scope; all that are given must fit. Node and rack need their cluster.
        simulated: whether it is about made-up gpus.
        loss: that was accepted, as a fraction; null for any.
    """

    __tablename__ = "marks"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    kind: Mapped[str]
    reason: Mapped[str]
    author: Mapped[str]
    made_at: Mapped[datetime]
    until: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    simulated: Mapped[bool]
    gpu: Mapped[str | None]
    cluster: Mapped[str | None]
    node: Mapped[str | None]
    rack: Mapped[str | None]
    driver: Mapped[str | None]
    loss: Mapped[float | None]

    __table_args__ = (Index(None, "gpu"), Index(None, "made_at"))


class InventoryEntry(Base):
    """
    What people expect on one node.

    Attributes:
        gpu: identity of one gpu; null where only the node and a number are known.
        device_id: null where nobody said which.
        expected_gpus: how many the node has (of that device); null where nobody said.
    """

    __tablename__ = "inventory"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    cluster: Mapped[str]
    node: Mapped[str]
    gpu: Mapped[str | None]
    device_id: Mapped[int | None] = mapped_column(RowId, ForeignKey("devices.id"))
    expected_gpus: Mapped[int | None]

    __table_args__ = (UniqueConstraint("cluster", "node", "gpu"), Index(None, "device_id"))
