"""What `check` and `run` say of gpus of their node that are lost or gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from fleetridge_agent.check.absence import absent_verdicts, lost_verdicts
from fleetridge_agent.check.last_verdict import read_last, verdict_path
from fleetridge_agent.check.reference import now
from fleetridge_agent.check.verdict import GpuVerdict
from fleetridge_agent.gpus.known_gpus import known_gpus_path
from fleetridge_agent.gpus.listing import Listing
from fleetridge_agent.sweep.report import Assignment

log = logging.getLogger(__name__)


def absences(
    verdicts: Sequence[GpuVerdict],
    assignment: Assignment,
    listing: Listing,
    environ: Mapping[str, str],
    *,
    all_gpus: bool,
) -> tuple[GpuVerdict, ...]:
    """
    Verdicts on gpus that are lost, and on those that the node had before and has no more; logged too.

    Args:
        verdicts: on the gpus that were measured, or could not be.
        assignment: of the run.
        listing: the gpus of the node.
        environ: of this process.
        all_gpus: whether all gpus were asked for; else nobody is missed that was not chosen.
    """
    at, lost = now(), lost_verdicts(assignment.lost, at=now())
    if not all_gpus:
        return lost
    state_dir, node = assignment.state_dir, assignment.node.name or ""
    last = read_last(state_dir, node)
    gone = absent_verdicts((*verdicts, *lost), listing, () if last is None else last.gpus, environ, at=at)
    for verdict in gone:
        if verdict.state == "degraded":
            log.warning(
                "%s (%s) was there and is missing; if it was taken out for good, remove %s and %s",
                verdict.uuid or verdict.name,
                verdict.pci_bus_id or "at an unknown address",
                verdict_path(state_dir, node),
                known_gpus_path(state_dir, node),
            )
        else:
            log.warning("%d gpus that were known on this node are not seen; they may be hidden", verdict.absent)
    return (*lost, *gone)
