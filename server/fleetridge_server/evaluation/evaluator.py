"""
The evaluator: one evaluation of a device, from histories that became due to stored verdicts and alerts.

Histories are brought up to date a few gpus at a time, then all are read in one state of the data and judged; what
comes of it is stored in one transaction, so that whoever is killed leaves the evaluation before it whole.

The collector of cyclic garbage is held back meanwhile. An evaluation of 100,000 gpus makes some ten million objects and
no cycles; looking at them again and again as they become more would take a quarter of its time.
"""

import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from fleetridge_server.db.column_types import packed
from fleetridge_server.db.database import Database
from fleetridge_server.db.rows import in_chunks
from fleetridge_server.engine.gpu_state import GpuState
from fleetridge_server.engine.rule import RULE_VERSION
from fleetridge_server.evaluation.judgement import Judgement, judge_device
from fleetridge_server.evaluation.kept_histories import GPUS_AT_ONCE, due_gpus, refresh_histories
from fleetridge_server.verdicts.alert_causes import accused_roofs, alert_causes
from fleetridge_server.verdicts.fleet_order import packed_column, packed_order
from fleetridge_server.verdicts.record import VerdictRecord
from fleetridge_server.verdicts.save import (
    NewEvaluation,
    NewVerdict,
    SavedEvaluation,
    digest_of,
    rows_of,
    save_evaluation,
    save_historical,
)
from fleetridge_server.verdicts.series import (
    NO_SERIES,
    DeviceGroup,
    KnownVerdict,
    SeriesEnd,
    series_end,
    settle_due,
    take_due,
)

# Objects after which it looks; what others make meanwhile is still collected. A look holds all threads for 0.4 s. After
# a fifth as many, every tenth took that long, too, and all of them together twice the time.
_RARELY = 1_000_000

_lock = threading.Lock()
_held: list[int] = []


@contextmanager
def collector_held_back() -> Iterator[None]:
    """Within it the collector looks rarely; as often as before once nobody is within it any more."""
    with _lock:
        before, *older = gc.get_threshold()
        usual = _held[0] if _held else before
        _held.append(usual)
        gc.set_threshold(max(_RARELY, usual) if usual else 0, *older)
    try:
        yield
    finally:
        with _lock:
            _held.pop()
            if not _held:
                gc.set_threshold(usual, *older)


_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The time by this server's clock."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates devices of one database; `schedule` says how often each gpu should be measured, if anybody said."""

    database: Database
    schedule: timedelta | None = None
    now: Callable[[], datetime] = utc_now

    def evaluate_now(self, device_group: DeviceGroup) -> SavedEvaluation:
        """
        Judge the gpus of one device as of now, and store what is said of them, with alerts.

        Raises:
            SupersededError: somebody else did meanwhile, or did as of a later time and this server's clock is behind.
        """
        started = time.perf_counter()
        with self.database.writing() as session:
            mark = take_due(session, device_group)
        with collector_held_back():
            saved = self._evaluate_now(device_group, started, mark)
        if saved.redated is not None:
            _log.warning(
                "device %d: what was said as of times until %s, by a clock that was ahead, counts as said by now",
                device_group.device_id,
                saved.redated.isoformat(timespec="seconds"),
            )
        return saved

    def _evaluate_now(self, device_group: DeviceGroup, started: float, mark: datetime) -> SavedEvaluation:
        self.bring_up_to_date(device_group)
        as_of = self.now()
        with self.database.reading() as session:
            before = series_end(session, device_group)
            judgement = judge_device(session, device_group, as_of, schedule=self.schedule)
        evaluation = evaluation_of(device_group, judgement, made_at=self.now(), before=before)
        rows = rows_of(evaluation, before)
        evaluation = replace(evaluation, took_ms=_took_ms(started))
        with self.database.writing() as session:
            saved = save_evaluation(session, evaluation, rows, after=before.evaluation_id)
            settle_due(session, device_group, mark)
        return saved

    def evaluate_past(self, device_group: DeviceGroup, as_of: datetime) -> int:
        """Judge the gpus of one device as of a time of the past, and store that beside the series; its id."""
        started = time.perf_counter()
        with collector_held_back():
            with self.database.reading() as session:
                judgement = judge_device(session, device_group, as_of, schedule=self.schedule)
            evaluation = evaluation_of(device_group, judgement, made_at=self.now())
        evaluation = replace(evaluation, took_ms=_took_ms(started))
        with self.database.writing() as session:
            return save_historical(session, evaluation)

    def bring_up_to_date(self, device_group: DeviceGroup) -> int:
        """
        Bring the histories of all gpus that are due up to date; how many were.

        Those that become due meanwhile are so afterwards: somebody noted it, and until then their reports are read.
        """
        with self.database.reading() as session:
            due = due_gpus(session, device_group)
        total = 0
        for gpu_rows in in_chunks(due, GPUS_AT_ONCE):
            with self.database.writing() as session:
                total += refresh_histories(session, device_group, gpu_rows)
        return total


def _took_ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def evaluation_of(
    device_group: DeviceGroup, judgement: Judgement, *, made_at: datetime, before: SeriesEnd = NO_SERIES
) -> NewEvaluation:
    """What is stored of a judgement, which took no time yet, beside what is said already."""
    evaluation = judgement.evaluation
    losses: dict[str, float | None] = {}
    verdicts: list[NewVerdict] = []
    for record in judgement.records():
        losses[record.gpu_id] = record.loss
        known = before.known.get(record.gpu_id)
        verdicts.append(_new_verdict(record, evaluation.states[record.gpu_id], known))
    order = judgement.order(losses)
    columns = (packed_column(column) for column in judgement.columns(order))
    return NewEvaluation(
        device_group=device_group,
        as_of=evaluation.as_of,
        made_at=made_at,
        took_ms=0.0,
        rule_version=RULE_VERSION,
        counts=dict(Counter(own.state for own in verdicts)),
        body=judgement.body.model_dump_json(),
        verdicts=verdicts,
        columns=(packed_order(order), *columns),
        causes=alert_causes(evaluation, judgement.explanations),
    )


def _new_verdict(record: VerdictRecord, state: GpuState, known: KnownVerdict | None) -> NewVerdict:
    digest = digest_of(record.body)
    # Most gpus of a fleet did nothing since, and packing takes as long as all else that is said of one.
    is_known = known is not None and known.digest == digest and not state.is_flagged
    return NewVerdict(
        identity=record.gpu_id,
        state=record.state,
        last_state=record.last_state,
        reason=record.reason,
        loss=record.loss,
        accused="\n".join(accused_roofs(state)),
        text=record.text,
        body=None if is_known else packed(record.body),
        digest=digest,
    )
