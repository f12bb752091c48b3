"""The evaluation that an answer rests on: a stored one, or for an earlier time one that is made for it."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetridge_server.compare.span import Span
from fleetridge_server.evaluating.judging import judged
from fleetridge_server.store.due import Population
from fleetridge_server.store.models import Gpu
from fleetridge_server.store.told import Told, told_of_device
from fleetridge_server.verdict.evaluation import RULE_VERSION

# A second or two of work; for larger fleets somebody is asked to have it done once and stored.
MOST_GPUS_AT_ONCE = 5000


def evaluation_for(session: Session, device_id: int, span: Span, *, explicit: bool) -> Told | None:
    """
    The evaluation that answers for a time; None where there is none and the fleet is too large to make one meanwhile.

    Args:
        session: to read in.
        device_id: of the device.
        span: time and population.
        explicit: whether the time was asked for; for now only a stored evaluation answers.
    """
    found = told_of_device(session, device_id, span, explicit=explicit)
    if found is not None or not explicit or _gpus(session, device_id, span) > MOST_GPUS_AT_ONCE:
        return found
    judgement = judged(session, Population(device_id, span.simulated), span.as_of)
    return Told(
        evaluation_id=None,
        device_id=device_id,
        simulated=span.simulated,
        as_of=span.as_of,
        made_at=None,
        rule_version=RULE_VERSION,
        until=span.as_of,
        is_current=False,
        aside=True,
        body=judgement.body(),
        made={verdict.gpu_id: verdict for verdict in judgement.gpus()},
    )


def _gpus(session: Session, device_id: int, span: Span) -> int:
    of_device = select(func.count()).select_from(Gpu)
    return session.scalar(of_device.where(Gpu.device_id == device_id, Gpu.simulated.is_(span.simulated))) or 0
