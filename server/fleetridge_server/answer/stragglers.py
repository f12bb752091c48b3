"""What a synchronous job loses to its slowest gpu, as it is shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from fleetridge_server.answer.roof_schemas import RoofName
from fleetridge_server.answer.straggler_schemas import StragglerShown, WithoutWorstShown
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.record import record
from fleetridge_server.verdict.straggler import WithoutWorst, straggler_cost

# A job of one gpu waits for nobody.
FEWEST_GPUS = 2


class Worker(NamedTuple):
    """A gpu of a job, and its value in the roof that the job is bound by."""

    gpu_id: str
    value: float


@record
class Job:
    """
    A synchronous job over a group of gpus in one roof.

    Attributes:
        scope: what the gpus are all of; `cluster` and `name` of the rack or node.
        workers: its gpus, at least one.
    """

    scope: Literal["device", "rack", "node"]
    cluster: str | None
    name: str | None
    roof: RoofName
    unit: str
    conditions: Conditions
    workers: Sequence[Worker]

    @property
    def loss(self) -> float:
        """Part of the sum of all rates that waiting costs."""
        values = [worker.value for worker in self.workers]
        return 1 - len(values) * min(values) / sum(values)


def straggler(job: Job) -> StragglerShown:
    """Cost of one job's slowest gpu."""
    cost = straggler_cost([worker.value for worker in job.workers])
    slowest = min(job.workers, key=lambda worker: (worker.value, worker.gpu_id))
    return StragglerShown(
        scope=job.scope,
        cluster=job.cluster,
        name=job.name,
        roof=job.roof,
        unit=job.unit,
        conditions=job.conditions,
        n=cost.n,
        slowest=cost.slowest,
        slowest_gpu_id=slowest.gpu_id,
        loss=cost.loss,
        without=tuple(_without(option) for option in cost.without),
        best=None if cost.best is None else _without(cost.best),
    )


def costliest(jobs: Iterable[Job], most: int) -> list[StragglerShown]:
    """The jobs that lose most, each place once in the roof in which it loses most."""
    worst: dict[tuple[str | None, str | None], tuple[float, Job]] = {}
    for job in jobs:
        if len(job.workers) >= FEWEST_GPUS:
            place, loss = (job.cluster, job.name), job.loss
            held = worst.get(place)
            if held is None or loss > held[0]:
                worst[place] = loss, job
    ordered = sorted(worst.values(), key=lambda own: (-own[0], own[1].cluster or "", own[1].name or ""))
    return [straggler(job) for _, job in ordered[:most]]


def _without(option: WithoutWorst) -> WithoutWorstShown:
    return WithoutWorstShown(option.left_out, option.rate, option.gain)
