"""
One evaluation, from what became due to stored verdicts.

Histories are brought up to date a few gpus at a time, then all are read in one state of the data and judged; what
comes of it is stored in one transaction, so that whoever is killed leaves the evaluation before it whole.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from sqlalchemy.exc import DBAPIError

from fleetridge_server.answer.verdict_schemas import GpuVerdict
from fleetridge_server.answer.verdicts import verdict_json
from fleetridge_server.compare.ranking import Rank, packed_rank, severity
from fleetridge_server.evaluating.alert_causes import accused_roofs, alert_causes
from fleetridge_server.evaluating.collector import collector_held_back
from fleetridge_server.evaluating.judging import Judgement, judged
from fleetridge_server.store.cluster_gpus import ClusterGpus, cluster_gpus
from fleetridge_server.store.columns import packed
from fleetridge_server.store.data_file import DataFileError
from fleetridge_server.store.database import Database
from fleetridge_server.store.due import Population, note_due, take_due
from fleetridge_server.store.evaluations import NO_COURSE, course
from fleetridge_server.store.gpu_histories import GPUS_AT_ONCE, due_gpus, refresh_histories
from fleetridge_server.store.outcomes import (
    Outcome,
    Said,
    Saved,
    digest_of,
    save_aside,
    save_evaluation,
    writing_of,
)
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.verdict.evaluation import RULE_VERSION
from fleetridge_server.verdict.state import GpuState

_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The time by this server's clock."""
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """
    Evaluates devices of one database.

    Attributes:
        schedule: how often each gpu should be measured; None where nobody said.
        now: the clock.
    """

    database: Database
    schedule: timedelta | None = None
    now: Callable[[], datetime] = utc_now

    def continue_course(self, population: Population) -> Saved:
        """
        Judge the gpus of one device as of now, and store what is said of them, with alerts.

        Raises:
            SupersededError: somebody else did meanwhile, or did as of a later time and this server's clock is behind.
        """
        started = time.perf_counter()
        with self.database.writing() as session:
            take_due(session, population)
        try:
            with collector_held_back():
                saved = self._continue_course(population, started)
        except BaseException:
            self._note_again(population)
            raise
        if saved.foretold is not None:
            _log.warning(
                "device %d: what was said as of times until %s, by a clock that was ahead, counts as said by now",
                population.device_id,
                saved.foretold.isoformat(timespec="seconds"),
            )
        return saved

    def _continue_course(self, population: Population, started: float) -> Saved:
        self.bring_up_to_date(population)
        as_of = self.now()
        with self.database.reading() as session:
            before = course(session, population)
            judgement = judged(session, population, as_of, schedule=self.schedule)
            there = cluster_gpus(session, population)
        outcome = outcome_of(population, judgement, made_at=self.now(), there=there)
        writing = writing_of(outcome, before)
        outcome = replace(outcome, took_ms=_took_ms(started))
        with self.database.writing() as session:
            return save_evaluation(session, outcome, writing, after=before.evaluation_id)

    def evaluate_aside(self, population: Population, as_of: datetime) -> int:
        """Judge the gpus of one device as of a time of the past, and store what is said beside the course; its id."""
        started = time.perf_counter()
        with collector_held_back():
            with self.database.reading() as session:
                judgement = judged(session, population, as_of, schedule=self.schedule)
            outcome = outcome_of(population, judgement, made_at=self.now())
            writing = writing_of(outcome, NO_COURSE)
        outcome = replace(outcome, took_ms=_took_ms(started))
        with self.database.writing() as session:
            return save_aside(session, outcome, writing)

    def bring_up_to_date(self, population: Population) -> int:
        """
        Bring the histories of all gpus that are due up to date; how many were.

        Those that become due meanwhile are so afterwards: somebody noted it, and until then their reports are read.
        """
        with self.database.reading() as session:
            due = due_gpus(session, population)
        total = 0
        for gpu_rows in in_chunks(due, GPUS_AT_ONCE):
            with self.database.writing() as session:
                total += refresh_histories(session, population, gpu_rows)
        return total

    def _note_again(self, population: Population) -> None:
        """What was due is so still; where the database is out of reach, whoever evaluates next finds it."""
        with suppress(DBAPIError, DataFileError), self.database.writing() as session:
            note_due(session, [population], self.now())


def _took_ms(started: float) -> float:
    return (time.perf_counter() - started) * 1000


def outcome_of(
    population: Population, judgement: Judgement, *, made_at: datetime, there: Sequence[ClusterGpus] | None = None
) -> Outcome:
    """What is stored of a judgement, which took no time yet; `there` says where the gpus are now."""
    evaluation = judgement.evaluation
    said = [_said(verdict, evaluation.states[verdict.gpu_id]) for verdict in judgement.gpus()]
    return Outcome(
        population=population,
        as_of=evaluation.as_of,
        made_at=made_at,
        took_ms=0.0,
        rule_version=RULE_VERSION,
        counts=dict(Counter(own.state for own in said)),
        body=judgement.body(there).model_dump_json(),
        said=said,
        causes=alert_causes(evaluation, judgement.explanations),
    )


def _said(verdict: GpuVerdict, state: GpuState) -> Said:
    body = packed(verdict_json(verdict))
    return Said(
        identity=verdict.gpu_id,
        state=verdict.state,
        last_state=verdict.last_state,
        reason=verdict.reason,
        loss=verdict.worst_loss,
        rank=_rank(verdict),
        accused="\n".join(accused_roofs(state)),
        body=body,
        digest=digest_of(body),
    )


def _rank(verdict: GpuVerdict) -> bytes:
    loss = verdict.worst_loss
    place = Rank(severity(verdict.state, verdict.last_state), loss is None, -(loss or 0.0), verdict.gpu_id)
    return packed_rank(place)
