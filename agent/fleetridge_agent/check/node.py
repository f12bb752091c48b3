"""The verdict on a node as `check` and `run` give it: held against the fleet, said in the log, left on disk."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from fleetridge.report import Report
from fleetridge_agent.check.measured_gpu import measured_gpu
from fleetridge_agent.check.reference import FleetReference, Reference, ReferenceBands, ridge_answer
from fleetridge_agent.check.rule import PASSING_REASONS, confirmed_by_past, verdict_on
from fleetridge_agent.check.verdict import GpuVerdict, keep_last, read_last
from fleetridge_agent.deliver.server_address import Server

log = logging.getLogger(__name__)

# Of gpus that were measured by themselves; those of a second pass share the power and the air of their node.
_STANDARD = "standard"
_METHODS_ALONE = (_STANDARD, "custom")


def fleet_reference(server: Server | None, state_dir: Path) -> FleetReference:
    """The fleet as the server knows it, or as it was kept."""
    return FleetReference(
        None if server is None else partial(ridge_answer, server),
        server=None if server is None else server.url,
        state_dir=state_dir,
        now=now,
        on_trouble=log.warning,
    )


def bands_for(reference: Reference, report: Report) -> ReferenceBands:
    """What the gpu of a report is held against; said in the log, once."""
    if report.outcome != "measured":
        return ReferenceBands((), "")
    held = reference.for_gpu(measured_gpu(report), None if report.gpu is None else report.gpu.uuid)
    if held.is_news:
        log.log(logging.INFO if held.is_answered else logging.WARNING, "held against %s", held.origin)
    return held


def keep_verdicts_of_run(
    reports: Sequence[Report], server: Server, state_dir: Path, node: str, *, all_gpus: bool
) -> None:
    """
    Leave the verdict of a run for `check --max-age`; a run does not fail for it.

    A run measures each gpu once, so that it accuses only those that the last verdict found slow already. Where it was
    asked for something that no band speaks of, the last verdict stays what it is.

    Args:
        reports: of its gpus, or of the node where none could be measured.
        server: that is asked for the fleet's band.
        state_dir: where state is kept.
        node: its name.
        all_gpus: whether the run was of all gpus of the node.
    """
    alone = [report for report in reports if report.agent.method in _METHODS_ALONE]
    trouble = next((report.reason for report in alone if report.gpu is None), None)
    if trouble in PASSING_REASONS or any(report.agent.method != _STANDARD for report in alone):
        return
    reference, last = fleet_reference(server, state_dir), read_last(state_dir, node)
    past = {} if last is None else {verdict.identity: verdict for verdict in last.gpus}
    found = [
        verdict_on(report, bands_for(reference, report).bands, at=now()) for report in alone if report.gpu is not None
    ]
    verdicts = [confirmed_by_past(verdict, past.get(verdict.identity)) for verdict in found]
    keep_verdicts(verdicts, state_dir, node, all_gpus=all_gpus, trouble=trouble or "")


def keep_verdicts(
    verdicts: Sequence[GpuVerdict], state_dir: Path, node: str, *, all_gpus: bool, trouble: str = ""
) -> None:
    """Leave verdicts for `check --max-age`, as `verdict.keep_last` does; where that cannot be done it is said."""
    try:
        keep_last(state_dir, node, verdicts, all_gpus=all_gpus, trouble=trouble)
    except OSError as error:
        log.warning("the verdict cannot be kept in %s (%s); --max-age will not find it", state_dir, error.strerror)


def now() -> datetime:
    """The time by this node's clock."""
    return datetime.now(timezone.utc)
