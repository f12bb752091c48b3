"""`fleetridge-agent run`: measures every gpu of the node and delivers the reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from fleetridge.report import Report, RunKind
from fleetridge_agent.busy.admission import idle_first, refuse_if_busy
from fleetridge_agent.check.last_verdict import keep_verdicts, read_last
from fleetridge_agent.check.reference import bands_for, fleet_reference, now
from fleetridge_agent.check.rule import PASSING_REASONS, confirmed_by_past, verdict_on
from fleetridge_agent.commands.absences import absences
from fleetridge_agent.commands.context import Context
from fleetridge_agent.commands.node_listing import listing_of
from fleetridge_agent.config import options, resolved
from fleetridge_agent.deliver.dispatch import dispatch, log_tally, spooled
from fleetridge_agent.deliver.retrying_client import Client
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import AlreadyRunningError, DeviceBusyError, ExitCode, NoDeviceError
from fleetridge_agent.gpus.listing import Listing
from fleetridge_agent.gpus.targets import Target, measurable
from fleetridge_agent.lock import node_lock
from fleetridge_agent.output.tables import run_table
from fleetridge_agent.progress import Progress
from fleetridge_agent.sweep.report import Assignment, Measured, combined, lost, refused, start_run
from fleetridge_agent.worker.launcher import Launcher

log = logging.getLogger(__name__)

# With fewer there is nothing to measure at once.
_FEWEST_TOGETHER = 2

# Of gpus that were measured by themselves; those of a second pass share the power and the air of their node.
_STANDARD = "standard"
_METHODS_ALONE = (_STANDARD, "custom")


def run(context: Context) -> ExitCode:
    """
    Measure, put each report on disk before the next gpu is touched, and deliver them all in one call.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    # Timers and orchestrators give a program no terminal; a person has one.
    kind: RunKind = "manual" if context.is_attended else "cron"
    return measure_and_deliver(
        context, kind, show=lambda found: context.emit(run_table([measured.report for measured in found]) + "\n")
    )


def measure_and_deliver(
    context: Context,
    kind: RunKind,
    *,
    show: Callable[[Sequence[Measured]], None],
    is_sent: Callable[[Report], bool] = lambda _: True,
) -> ExitCode:
    """
    One run of the node.

    Args:
        context: the command's.
        kind: of the run.
        show: called with what was found before it is delivered.
        is_sent: whether a report is kept and delivered, or only shown.

    Raises:
        AgentError: with the exit code that the program ends with.
    """
    server = resolved.server_of(context.source)
    listing = listing_of(context)
    assignment = _assignment(context, kind, listing)
    spool = Spool(context.state_dir)
    with Client(server, wait=context.stop.wait) as client:
        found: list[Measured] = []
        outgoing: list[Outgoing] = []
        for measured in _measured_under_lock(context, assignment):
            found.append(measured)
            if is_sent(measured.report):
                outgoing.append(spooled(spool, measured.report))
        show(found)
        tally = dispatch(client.deliver, spool, outgoing, is_stopped=lambda: context.stop.is_asked)
    # Of half of a roofline no band speaks.
    if not context.stop.is_asked and options.MODE.required(context.source) == "all":
        _keep_verdicts(context, [measured.report for measured in found], server, assignment, listing)
    return _code(combined([measured.code for measured in found]), log_tally(tally))


def _assignment(context: Context, kind: RunKind, listing: Listing) -> Assignment:
    source = context.source
    sweep_options, node = resolved.sweep_options(source), resolved.node_of(source)
    return Assignment(
        run=start_run(kind, listing.roster),
        node=node,
        options=sweep_options,
        arguments=resolved.arguments_of("run", source, (*options.MEASURING, options.ALL_AT_ONCE)),
        state_dir=context.state_dir,
        lost=listing.lost_of(resolved.chosen_gpus(source)),
    )


def _measured_under_lock(context: Context, assignment: Assignment) -> Iterator[Measured]:
    """Reports of all gpus, or one of the node where none could be measured."""
    try:
        with node_lock(context.state_dir, assignment.node.name or ""):
            yield from _measured(context, assignment)
    except (AlreadyRunningError, NoDeviceError) as error:
        yield refused(assignment, error)


def _measured(context: Context, assignment: Assignment) -> Iterator[Measured]:
    for gpu in assignment.lost:
        yield lost(assignment, gpu)
    source, gone = context.source, [gpu.gpu for gpu in assignment.lost]
    unusable, gpus = measurable(resolved.device_kind(source), resolved.chosen_gpus(source), gone)
    for card, error in unusable:
        yield refused(assignment, error, card)
    launcher = _launcher(context, gpus)
    measured_alone: list[Target] = []
    for target in _in_turn(context, gpus, assignment):
        measured = launcher.measure(target, assignment)
        yield measured
        if context.stop.is_asked:
            return
        if measured.report.outcome == "measured":
            measured_alone.append(target)
    if options.ALL_AT_ONCE.value(context.source):
        yield from _measured_together(launcher, measured_alone, assignment)


def _in_turn(context: Context, gpus: Sequence[Target], assignment: Assignment) -> Iterator[Target]:
    """Gpus in their order; where there is time to wait, those that somebody uses once they are idle."""

    def is_idle(target: Target) -> bool:
        """Whether nobody else uses a gpu at this moment."""
        try:
            refuse_if_busy(target, force=assignment.options.force, wait=context.stop.wait)
        except DeviceBusyError:
            return False
        return True

    limit_s = 0.0 if assignment.options.force else options.WAIT.required(context.source).total_seconds()
    return idle_first(gpus, is_idle, limit_s=limit_s, wait=context.stop.wait)


def _measured_together(launcher: Launcher, gpus: Sequence[Target], assignment: Assignment) -> Iterator[Measured]:
    """Once more, at the same time, those that were measured by themselves, as only they can be held against that."""
    if len(gpus) < _FEWEST_TOGETHER:
        log.warning("no second pass with all gpus at once: fewer than %d were measured", _FEWEST_TOGETHER)
        return
    yield from launcher.measure_together(gpus, assignment)


def _launcher(context: Context, gpus: Sequence[Target]) -> Launcher:
    numbers = {target: number for number, target in enumerate(gpus, start=1)}

    def show(target: Target, progress: Progress) -> None:
        """Put a step on the progress line, behind the number of its gpu."""
        context.on_progress(f"gpu {numbers[target]} of {len(gpus)}, ")(progress)

    return Launcher(options.LIMIT.required(context.source).total_seconds(), show, context.stop)


def _code(measuring: ExitCode, delivering: ExitCode) -> ExitCode:
    """A dead letter matters most, as nothing but a person can help; else what went wrong first."""
    if delivering is ExitCode.DEAD_LETTERED:
        return delivering
    return measuring if measuring is not ExitCode.DONE else delivering


def _keep_verdicts(
    context: Context, reports: Sequence[Report], server: Server, assignment: Assignment, listing: Listing
) -> None:
    """
    Leave the verdict of a run for `check --max-age`; a run does not fail for it.

    A run measures each gpu once, so that it accuses only those that the last verdict found slow already. Where it was
    asked for something that no band speaks of, the last verdict stays what it is.

    Args:
        context: the command's.
        reports: of its gpus, or of the node where none could be measured.
        server: that is asked for the fleet's band.
        assignment: of the run.
        listing: the gpus of the node.
    """
    state_dir, node = assignment.state_dir, assignment.node.name or ""
    all_gpus = resolved.measures_all_gpus(context.source)
    alone = [report for report in reports if report.agent.method in _METHODS_ALONE]
    trouble = next((report.reason for report in alone if report.gpu is None), None)
    if trouble in PASSING_REASONS or any(report.agent.method != _STANDARD for report in alone):
        return
    reference, last = fleet_reference(server, state_dir), read_last(state_dir, node)
    past = {} if last is None else {verdict.identity: verdict for verdict in last.gpus}
    lost_gpus = [one.gpu for one in assignment.lost]
    found = [
        verdict_on(report, bands_for(reference, report).bands, at=now())
        for report in alone
        if report.gpu is not None and report.gpu not in lost_gpus
    ]
    verdicts = [confirmed_by_past(verdict, past.get(verdict.identity)) for verdict in found]
    # Where nothing could be measured nobody can tell what is missing; what the driver gives up is known even then.
    verdicts += absences(verdicts, assignment, listing, context.source.environ, all_gpus=all_gpus and trouble is None)
    keep_verdicts(verdicts, state_dir, node, all_gpus=all_gpus, trouble=trouble or "")
