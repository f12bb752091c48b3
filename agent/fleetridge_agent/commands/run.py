"""`fleetridge-agent run`: measures every gpu of the node and delivers the reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fleetridge.report import Report
from fleetridge_agent.commands.context import Context
from fleetridge_agent.config import choices, options
from fleetridge_agent.deliver.client import Client
from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import AlreadyRunningError, ExitCode, NoDeviceError, SpoolError
from fleetridge_agent.lock import node_lock
from fleetridge_agent.measure.measuring import Assignment, Measured, combined, measure, refused, start_run
from fleetridge_agent.measure.targets import ALL, targets
from fleetridge_agent.output.run_table import run_table

log = logging.getLogger(__name__)


def run(context: Context) -> ExitCode:
    """
    Measure, put each report on disk before the next gpu is touched, and deliver them all in one call.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    server = choices.server_of(context.source)
    assignment = _assignment(context)
    spool = Spool(context.state_dir)
    with Client(server, wait=context.stop.wait) as client:
        found: list[Measured] = []
        outgoing: list[Outgoing] = []
        for measured in _measured_under_lock(context, assignment):
            found.append(measured)
            outgoing.append(_spooled(spool, measured.report))
        context.emit(run_table([measured.report for measured in found]) + "\n")
        tally = dispatch(client.deliver, spool, outgoing, is_stopped=lambda: context.stop.is_asked)
    return _code(combined([measured.code for measured in found]), say(tally))


def say(tally: Tally) -> ExitCode:
    """Log what became of the reports; what that alone would end the program with."""
    log.info("reports delivered: %d", tally.delivered)
    if tally.waiting:
        log.warning("reports that wait in the spool for the next run or `fleetridge-agent flush`: %d", tally.waiting)
    if tally.lost:
        log.error("reports that are lost, neither delivered nor on disk: %d; see the warnings above", tally.lost)
    if tally.dead:
        return ExitCode.DEAD_LETTERED
    return ExitCode.FAILED if tally.lost else ExitCode.DONE


def _assignment(context: Context) -> Assignment:
    source = context.source
    kind = choices.device_kind(source)
    sweep_options, node = choices.sweep_options(source), choices.node_of(source)
    return Assignment(
        # Timers and orchestrators give a program no terminal; a person has one.
        run=start_run("manual" if context.is_attended else "cron", kind, source.environ),
        node=node,
        options=sweep_options,
        arguments=choices.arguments_of("run", source),
        state_dir=context.state_dir,
    )


def _measured_under_lock(context: Context, assignment: Assignment) -> Iterator[Measured]:
    """Reports of all gpus, or one of the node where none could be measured."""
    try:
        with node_lock(context.state_dir, assignment.node.name or ""):
            yield from _measured(context, assignment)
    except (AlreadyRunningError, NoDeviceError) as error:
        log.warning("nothing is measured: %s", error)
        yield refused(assignment, error)


def _measured(context: Context, assignment: Assignment) -> Iterator[Measured]:
    source = context.source
    chosen = targets(choices.device_kind(source), options.GPUS.value(source), default=(ALL,))
    for number, target in enumerate(chosen, start=1):
        yield measure(target, assignment, context.on_progress(f"gpu {number} of {len(chosen)}, "))
        if context.stop.is_asked:
            return


def _spooled(spool: Spool, report: Report) -> Outgoing:
    report_id, body = str(report.report_id), report.canonical_json()
    try:
        return spool.add(report_id, body)
    except SpoolError as error:
        log.warning("%s; trying to deliver this report from memory", error)
        return Outgoing(report_id, body)


def _code(measuring: ExitCode, delivering: ExitCode) -> ExitCode:
    """A dead letter matters most, as nothing but a person can help; else what went wrong first."""
    if delivering is ExitCode.DEAD_LETTERED:
        return delivering
    return measuring if measuring is not ExitCode.DONE else delivering
