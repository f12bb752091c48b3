"""The verdict on a node as `check` and `run` give it: held against the fleet, said in the log, left on disk."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from fleetridge.quantities import quantity, signed_percent
from fleetridge.report import Node, Report
from fleetridge_agent.checking.fleet import ridge_answer
from fleetridge_agent.checking.judging import PASSING_REASONS, confirmed_by_past, judged
from fleetridge_agent.checking.last_verdict import keep, read_last
from fleetridge_agent.checking.subject import subject_of
from fleetridge_agent.checking.verdict import GpuVerdict, RoofVerdict
from fleetridge_agent.checking.yardstick import ByFleet, Held, Yardstick
from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import choices, options
from fleetridge_agent.deliver.client import Server
from fleetridge_agent.measure.targets import ALL

log = logging.getLogger(__name__)

# Of gpus that were measured by themselves; those of a second pass share the power and the air of their node.
_STANDARD = "standard"
_METHODS_ALONE = (_STANDARD, "custom")


def by_fleet(server: Server | None, state_dir: Path) -> ByFleet:
    """The fleet as the server knows it, or as it was kept."""
    return ByFleet(
        None if server is None else partial(ridge_answer, server),
        server=None if server is None else server.url,
        state_dir=state_dir,
        now=now,
        on_trouble=log.warning,
    )


def held_against(yardstick: Yardstick, report: Report) -> Held:
    """What the gpu of a report is held against; said in the log, once."""
    if report.outcome != "measured":
        return Held((), "")
    held = yardstick.for_gpu(subject_of(report), None if report.gpu is None else report.gpu.uuid)
    if held.is_news:
        log.log(logging.INFO if held.is_answered else logging.WARNING, "held against %s", held.origin)
    return held


def keep_verdicts_of_run(context: Context, server: Server, reports: Sequence[Report]) -> None:
    """
    Leave the verdict of a run for `check --max-age`; a run does not fail for it.

    A run measures each gpu once, so that it accuses only those that the last verdict found slow already.

    Args:
        context: the command's.
        server: that is asked for the fleet's band.
        reports: of its gpus, or of the node where none could be measured.
    """
    alone = [report for report in reports if report.agent.method in _METHODS_ALONE]
    trouble = next((report.reason for report in alone if report.gpu is None), None)
    if trouble in PASSING_REASONS or _is_of_its_own(context, alone):
        return
    node, yardstick = choices.node_of(context.source), by_fleet(server, context.state_dir)
    last = read_last(context.state_dir, node.name or "")
    past = {} if last is None else {verdict.identity: verdict for verdict in last.gpus}
    found = [
        judged(report, held_against(yardstick, report).bands, at=now()) for report in alone if report.gpu is not None
    ]
    verdicts = [confirmed_by_past(verdict, past.get(verdict.identity)) for verdict in found]
    keep_verdicts(context, node, verdicts, trouble=trouble or "")


def _is_of_its_own(context: Context, reports: Sequence[Report]) -> bool:
    """Whether the run was asked for something that no band speaks of; the last verdict then stays what it is."""
    return options.MODE.required(context.source) != "all" or any(report.agent.method != _STANDARD for report in reports)


def keep_verdicts(context: Context, node: Node, verdicts: Sequence[GpuVerdict], *, trouble: str = "") -> None:
    """Leave verdicts for `check --max-age`; where that cannot be done it is said."""
    chosen = options.GPUS.value(context.source)
    all_gpus = choices.device_kind(context.source) == "cuda" and (chosen is None or ALL in chosen)
    try:
        keep(context.state_dir, node.name or "", verdicts, all_gpus=all_gpus, trouble=trouble)
    except OSError as error:
        log.warning(
            "the verdict cannot be kept in %s (%s); --max-age will not find it", context.state_dir, error.strerror
        )


def say_verdict(verdict: GpuVerdict) -> None:
    """Put a verdict into the log, with every number that it rests on."""
    who = ", ".join(word for word in (verdict.device, verdict.uuid) if word) or "unnamed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    log.info("%s (%s): %s%s", verdict.name, who, verdict.state, reason)
    for roof in verdict.roofs:
        log.info("  %s", _roof_line(roof))


def now() -> datetime:
    """The time by this node's clock."""
    return datetime.now(timezone.utc)


def _roof_line(roof: RoofVerdict) -> str:
    measured = f"{roof.roof} {quantity(roof.value, roof.unit)}"
    reason = f" ({roof.reason})" if roof.reason else ""
    if roof.median is None:
        return f"{measured}: {roof.state}{reason}"
    whose = "of the baseline" if roof.peers is None else f"of {roof.peers} peers"
    beside = f"{signed_percent(roof.deviation)} of the median {quantity(roof.median, roof.unit)} {whose}"
    return f"{measured}, {beside}, degraded below {quantity(roof.lowest, roof.unit)}: {roof.state}{reason}"
