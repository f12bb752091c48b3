"""A check that measures: quick sweeps of the chosen gpus, each held against the fleet's band or a baseline."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fleetridge.report import Report
from fleetridge_agent.check.absence import fewer_than_baseline, lost_verdicts
from fleetridge_agent.check.baseline import Baseline, baseline_of, read_baseline, save_baseline
from fleetridge_agent.check.last_verdict import keep_verdicts
from fleetridge_agent.check.reference import (
    BaselineReference,
    Reference,
    ReferenceBands,
    bands_for,
    fleet_reference,
    now,
)
from fleetridge_agent.check.rule import confirmed, confirmed_by_past, verdict_on
from fleetridge_agent.check.verdict import GpuVerdict, State, emit_verdict_line, log_verdict
from fleetridge_agent.commands.absences import absences
from fleetridge_agent.commands.context import Context
from fleetridge_agent.commands.node_listing import listing_of
from fleetridge_agent.config import options, resolved
from fleetridge_agent.deliver.dispatch import Outbox
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.errors import AgentError, NoDeviceError, UsageError
from fleetridge_agent.gpus.listing import Listing
from fleetridge_agent.gpus.targets import Target, measurable
from fleetridge_agent.progress import Progress
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import Assignment, Measured, lost, refused, start_run
from fleetridge_agent.worker.launcher import Launcher

log = logging.getLogger(__name__)

# For each sweep: six seconds of measuring, and the import of torch, which takes a minute from a cold network drive.
_LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class _Plan:
    """
    What a check that measures was asked for.

    Attributes:
        save_to: where a baseline is to be made; then nothing is held against anything.
    """

    assignment: Assignment
    listing: Listing
    server: Server | None
    baseline: Path | None
    save_to: Path | None


def checked(context: Context) -> State:
    """
    Measure every gpu that was chosen, hold it against its reference, and say how the node is.

    Raises:
        AgentError: nothing could be said.
    """
    plan = _plan(context)
    outbox = Outbox(context.state_dir, plan.server, context.stop)
    sweeps = _Sweeps(context, plan.assignment, outbox)
    try:
        state = (
            _state_of_node(context, plan, sweeps)
            if plan.save_to is None
            else _baseline_made(context, plan, plan.save_to, sweeps)
        )
    except NoDeviceError as error:
        outbox.add(refused(plan.assignment, error).report)
        # Of the others nothing can be told; these are what the driver itself gives up.
        lost = lost_verdicts(plan.assignment.lost, at=now())
        _keep(context, plan, lost, trouble=error.reason)
        state = emit_verdict_line(context.emit, lost, trouble=error.reason)
    _deliver(outbox)
    return state


def _deliver(outbox: Outbox) -> None:
    """Try to deliver; the verdict is out, and whatever goes wrong now neither changes it nor adds a second one."""
    try:
        outbox.deliver_once()
    except AgentError as error:
        log.warning("the reports are not delivered and wait in the spool: %s", error)
    except KeyboardInterrupt:
        log.warning("the reports are not delivered and wait in the spool: interrupted")
    except Exception:
        log.exception("delivering went wrong in a way that nobody expected; please report it with these lines")


def _plan(context: Context) -> _Plan:
    source = context.source
    baseline, save_to = options.BASELINE.value(source), options.SAVE_BASELINE.value(source)
    if baseline is not None and save_to is not None:
        raise UsageError("--baseline, --save-baseline: give one of the two; a baseline is not held against another")
    if save_to is not None and save_to.exists() and not save_to.is_file():
        raise UsageError(f"--save-baseline: {save_to} is no file and would be replaced by one; give another path")
    listing = listing_of(context)
    return _Plan(
        assignment=Assignment(
            run=start_run("check", listing.roster),
            node=resolved.node_of(source),
            # The judged roofs as every profile measures them; options that change how are not even looked at.
            options=SweepOptions(profile="quick", dtypes=options.DTYPE.value(source) or ()),
            arguments=resolved.arguments_of("check", source, options.CHECKED),
            state_dir=context.state_dir,
            lost=listing.lost_of(resolved.chosen_gpus(source)),
        ),
        listing=listing,
        server=None if options.SERVER.given(source) is None else resolved.server_of(source),
        baseline=baseline,
        save_to=save_to,
    )


class _Sweeps:
    """
    Quick sweeps of the gpus that were chosen, each in a process of its own that is ended where it hangs.

    Each report is on disk before the next sweep is begun.
    """

    def __init__(self, context: Context, assignment: Assignment, outbox: Outbox) -> None:
        self._context = context
        self._assignment = assignment
        self.outbox = outbox
        self._prefix = ""
        self._launcher = Launcher(_LIMIT_S, self._show, context.stop)

    def all(self) -> Iterator[tuple[Target, Report]]:
        """
        Every gpu once that is not lost; of those that are there is a report as well.

        Raises:
            NoDeviceError: there is none.
        """
        source, lost_gpus = self._context.source, self._assignment.lost
        for gpu in lost_gpus:
            self._handed_in(lost(self._assignment, gpu))
        unusable, gpus = measurable(
            resolved.device_kind(source), resolved.chosen_gpus(source), [one.gpu for one in lost_gpus]
        )
        for card, error in unusable:
            yield card, self._handed_in(refused(self._assignment, error, card))
        for number, target in enumerate(gpus, start=1):
            self._prefix = f"gpu {number} of {len(gpus)}, "
            yield target, self._one(target)

    def again(self, target: Target) -> Report:
        """Report of one gpu that is measured once more; on disk like the first."""
        self._prefix = "once more, "
        return self._one(target)

    def _one(self, target: Target) -> Report:
        return self._handed_in(self._launcher.measure(target, self._assignment))

    def _handed_in(self, measured: Measured) -> Report:
        self.outbox.add(measured.report)
        return measured.report

    def _show(self, _: Target, progress: Progress) -> None:
        self._context.on_progress(self._prefix)(progress)


def _state_of_node(context: Context, plan: _Plan, sweeps: _Sweeps) -> State:
    baseline = None if plan.baseline is None else read_baseline(plan.baseline)
    reference = _reference(context, plan, baseline)
    verdicts = tuple(_verdict(context, target, report, reference, sweeps) for target, report in sweeps.all())
    verdicts += _absent(context, plan, verdicts)
    _keep(context, plan, verdicts)
    if baseline is not None and resolved.measures_all_gpus(context.source):
        verdicts += fewer_than_baseline(verdicts, len(baseline.gpus), plan.listing, context.source.environ, at=now())
    return emit_verdict_line(context.emit, verdicts)


def _absent(context: Context, plan: _Plan, verdicts: Sequence[GpuVerdict]) -> tuple[GpuVerdict, ...]:
    """Verdicts on gpus of the node that are lost or gone."""
    return absences(
        verdicts,
        plan.assignment,
        plan.listing,
        context.source.environ,
        all_gpus=resolved.measures_all_gpus(context.source),
    )


def _reference(context: Context, plan: _Plan, baseline: Baseline | None) -> Reference:
    if baseline is None or plan.baseline is None:
        return fleet_reference(plan.server, context.state_dir)
    tolerance = options.TOLERANCE.required(context.source)
    return BaselineReference(baseline, path=plan.baseline, tolerance=tolerance, now=now())


def _verdict(context: Context, target: Target, report: Report, reference: Reference, sweeps: _Sweeps) -> GpuVerdict:
    held = bands_for(reference, report)
    sweeps.outbox.is_worth_a_try = sweeps.outbox.is_worth_a_try and held.is_answered
    verdict = _judged(report, held)
    if verdict.state == "degraded" and context.stop.is_asked:
        verdict = confirmed_by_past(verdict, None)
    elif verdict.state == "degraded":
        log.warning("%s is below its band; measuring it once more before saying so", target)
        verdict = confirmed(verdict, _judged(sweeps.again(target), held))
    log_verdict(verdict)
    return verdict


def _judged(report: Report, held: ReferenceBands) -> GpuVerdict:
    return verdict_on(report, held.bands, at=now())


def _baseline_made(context: Context, plan: _Plan, path: Path, sweeps: _Sweeps) -> State:
    reports = [report for _, report in sweeps.all()]
    verdicts = [verdict_on(report, (), at=now()) for report in reports]
    if _absent(context, plan, verdicts):
        log.error("no baseline is saved: it would be one of fewer gpus than this node has")
        return emit_verdict_line(context.emit, (), trouble="no baseline saved")
    try:
        save_baseline(path, baseline_of(reports, at=now(), node=resolved.node_of(context.source).name))
    except ValueError as error:
        log.error("no baseline is saved: %s", error)  # noqa: TRY400 # expected: the sentence says all
        return emit_verdict_line(context.emit, (), trouble="no baseline saved")
    except OSError as error:
        raise UsageError(f"--save-baseline: cannot write {path}: {error.strerror}") from error
    log.info("wrote %s", path)
    context.emit(f"ok: baseline of {len(reports)} {'gpu' if len(reports) == 1 else 'gpus'} saved\n")
    return "ok"


def _keep(context: Context, plan: _Plan, verdicts: Sequence[GpuVerdict], *, trouble: str = "") -> None:
    keep_verdicts(
        verdicts,
        context.state_dir,
        plan.assignment.node.name or "",
        all_gpus=resolved.measures_all_gpus(context.source),
        trouble=trouble,
    )
