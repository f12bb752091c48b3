"""Evaluations of a fleet in a database, at times that a test chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import select

from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Device, Gpu
from fleetridge_server.db.verdict_tables import Alert, CurrentVerdict, StoredEvaluation, VerdictChange
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.intake.examine import Accepted, examined
from fleetridge_server.intake.store import write_reports
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody
from fleetridge_server.verdicts.save import SavedEvaluation
from fleetridge_server.verdicts.series import DeviceGroup
from fleetridge_server.verdicts.stored import current_evaluations, verdicts_of
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict
from support.reports import make_report

NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def a_report(gpu: str, pi_tflops: float | None = 845.0, *, at: datetime = NOON, **changes: Any) -> dict[str, Any]:
    """A report of one gpu made at a time; its node says nothing of other gpus."""
    moment = at.isoformat()
    quiet: dict[str, Any] = {"run__roster": None, "run__roster_complete": False}
    own: dict[str, Any] = {"gpu__uuid": gpu, "gpu__pci_bus_id": None, "pi_tflops": pi_tflops, "node__labels": {}}
    return make_report(**{**quiet, **own, "measured_from": moment, "measured_to": moment, **changes})


def a_fleet(
    slow: Mapping[str, float] | None = None, *, gpus: int = 8, days: int = 3, until: datetime = NOON, **changes: Any
) -> list[dict[str, Any]]:
    """Daily reports of gpus "GPU-0", "GPU-1", …; `slow` says the losses of some."""
    losses = slow or {}
    return [
        a_report(gpu, 845.0 * (1 - losses.get(gpu, 0.0)) + number * 0.01, at=until - day * DAY, **changes)
        for day in reversed(range(days))
        for number, gpu in enumerate(f"GPU-{place}" for place in range(gpus))
    ]


@dataclass
class Fleet:
    """A database with a clock, and what evaluations said in it."""

    database: Database
    now: datetime = NOON + HOUR
    evaluator: Evaluator = field(init=False)

    def __post_init__(self) -> None:
        self.evaluator = Evaluator(self.database, now=lambda: self.now)

    def store(self, reports: Iterable[dict[str, Any]], *, received_at: datetime | None = None) -> None:
        """Store reports, which arrive now unless the test says otherwise."""
        items = [examined(own, sent_at=None, received_at=received_at or self.now) for own in reports]
        accepted = [item for item in items if isinstance(item, Accepted)]
        assert len(accepted) == len(items), [item for item in items if item not in accepted]
        assert set(write_reports(self.database, accepted)) <= {"created"}

    def device_group(self, *, simulated: bool = False) -> DeviceGroup:
        """The only device there is."""
        with self.database.reading() as session:
            return DeviceGroup(session.scalars(select(Device.id)).one(), simulated)

    def evaluate(self, at: datetime | None = None) -> SavedEvaluation:
        """Evaluate the only device as of a time, or as of now."""
        self.now = at or self.now
        return self.evaluator.evaluate_now(self.device_group())

    def states(self) -> dict[str, str]:
        """Current state of each gpu."""
        with self.database.reading() as session:
            rows = session.execute(select(CurrentVerdict.identity, CurrentVerdict.state))
            return dict(sorted((row.identity, row.state) for row in rows))

    def verdicts(self) -> dict[str, GpuVerdict]:
        """What is said of each gpu now."""
        with self.database.reading() as session:
            gpu_ids = session.scalars(select(CurrentVerdict.identity).order_by(CurrentVerdict.identity)).all()
            found: dict[str, GpuVerdict] = {}
            for ref in current_evaluations(session, simulated=False):
                found |= {gpu_id: said.verdict for gpu_id, said in verdicts_of(session, ref, gpu_ids).items()}
        return {gpu_id: found[gpu_id] for gpu_id in gpu_ids}

    def bodies(self) -> list[EvaluationBody]:
        """All stored evaluations, in the order in which they were made."""
        with self.database.reading() as session:
            rows = session.scalars(select(StoredEvaluation).order_by(StoredEvaluation.id)).all()
        return [EvaluationBody.model_validate_json(row.body) for row in rows]

    def changes(self) -> list[VerdictChange]:
        """All changes of verdicts, in their order."""
        with self.database.reading() as session:
            return list(session.scalars(select(VerdictChange).order_by(VerdictChange.id)))

    def alerts(self) -> list[Alert]:
        """All alerts, oldest first."""
        with self.database.reading() as session:
            return list(session.scalars(select(Alert).order_by(Alert.id)))

    def due_gpus(self) -> list[str]:
        """Gpus that reported something that their history does not know."""
        with self.database.reading() as session:
            return sorted(session.scalars(select(Gpu.identity).where(Gpu.is_due)))
