"""The evaluation that an answer rests on: a stored one, or for an earlier time one that is made for it."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import Span
from fleetridge_server.evaluation.judgement import judged
from fleetridge_server.evaluation.read import EvaluationRef, Unstored, evaluation_at
from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Gpu
from fleetridge_server.verdict.evaluation import RULE_VERSION

# A second or two of work; for larger fleets somebody is asked to have it done once and stored.
MOST_GPUS_AT_ONCE = 5000


def evaluation_for(session: Session, device_id: int, span: Span, *, explicit: bool) -> EvaluationRef | None:
    """
    The evaluation that answers for a time.

    A stored one of which everything is kept; else, of a fleet that is small enough, one that is made for the answer;
    else a stored one of which figures, order and states are kept; None where there is none.

    Args:
        session: to read in.
        device_id: of the device.
        span: time and population.
        explicit: whether the time was asked for; for now only a stored evaluation answers.
    """
    found = evaluation_at(session, device_id, span, explicit=explicit)
    if not explicit or (found is not None and found.has_verdicts):
        return found
    if _gpus(session, device_id, span) > MOST_GPUS_AT_ONCE:
        return found
    return _made(session, Population(device_id, span.simulated), span)


def _made(session: Session, population: Population, span: Span) -> EvaluationRef:
    judgement = judged(session, population, span.as_of)
    records = {record.gpu_id: record for record in judgement.records()}
    order = judgement.order({gpu_id: record.loss for gpu_id, record in records.items()})
    return EvaluationRef(
        evaluation_id=None,
        device_id=population.device_id,
        simulated=population.simulated,
        as_of=span.as_of,
        made_at=None,
        rule_version=RULE_VERSION,
        until=span.as_of,
        is_current=False,
        historical=True,
        body=judgement.body,
        references=judgement.references,
        unstored=Unstored(records, order, judgement.columns(order)),
    )


def _gpus(session: Session, device_id: int, span: Span) -> int:
    of_device = select(func.count()).select_from(Gpu)
    return session.scalar(of_device.where(Gpu.device_id == device_id, Gpu.simulated.is_(span.simulated))) or 0
