"""What becomes of a worker's gpu: the report that it handed in, else one that says how it ended."""

from __future__ import annotations

import logging
import signal

from fleetridge.report import Report
from fleetridge_agent.errors import AgentError, ExitCode, PreemptedError, SweepError, UsageError
from fleetridge_agent.sweep.report import Measured, one_line, refused
from fleetridge_agent.worker.messages import Finished, Job
from fleetridge_agent.worker.process_handle import Worker

log = logging.getLogger(__name__)

_OUT_OF_MEMORY = "out of memory"


def measured_by(worker: Worker, *, limit_s: float) -> Measured:
    """
    Report of the gpu that a worker was to measure, whatever became of the worker.

    Args:
        worker: has ended, or cannot be ended.
        limit_s: time that it had.

    Raises:
        UsageError: the options cannot be carried out on this device.
    """
    output, job = worker.pipes.output, worker.job
    if output.usage_rejected is not None:
        raise UsageError(output.usage_rejected.text)
    if output.finished is None:
        return _without_report(worker, limit_s=limit_s)
    mismatch = _mismatch(output.finished.report, job)
    if mismatch is not None:
        return _refused(job, SweepError(f"its process handed in a report {mismatch}; see to the versions installed"))
    handed_in = _named(output.finished, job)
    if worker.end_reason == "timed_out" and handed_in.is_cut_short:
        return _timed_out(handed_in, job, limit_s=limit_s)
    return handed_in


def _without_report(worker: Worker, *, limit_s: float) -> Measured:
    if worker.end_reason == "timed_out":
        detail = _too_long(worker.job, limit_s=limit_s, exit_code=worker.exit_code)
        return _refused(worker.job, SweepError(detail, reason="timed_out"))
    if worker.end_reason == "preempted":
        error = PreemptedError("the run was ended by a signal before this gpu had a result; run it again")
        return _refused(worker.job, error)
    return _refused(worker.job, _crash(worker))


def _crash(worker: Worker) -> SweepError:
    output = worker.pipes.output
    seen = [_how(worker.exit_code)]
    if output.last_stderr_line:
        seen.append(f"its last words: {output.last_stderr_line}")
    if output.invalid_line is not None:
        seen.append(f"what it said is no report: {output.invalid_line}")
    reason = "out_of_memory" if _OUT_OF_MEMORY in output.last_stderr_line.casefold() else "crashed"
    return SweepError(f"the process that measured it {'; '.join(seen)}", reason=reason)


def _how(exit_code: int | None) -> str:
    """How a process ended, and where to look for the cause."""
    if exit_code == -signal.SIGKILL:
        return "was killed by somebody else, as the kernel does where memory runs out; look into `dmesg`"
    if exit_code is not None and exit_code < 0:
        return f"was ended by {_signal_name(-exit_code)}; look for Xid errors in `dmesg`"
    return f"ended with exit code {exit_code} and handed in no report"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _too_long(job: Job, *, limit_s: float, exit_code: int | None) -> str:
    # A check has no such option: nothing but a hang makes a quick sweep take that long.
    raised = "" if job.assignment.run.kind == "check" else ", or raise --limit"
    left_behind = "; its process hangs in the driver and cannot be killed, reboot the node" if exit_code is None else ""
    return f"it took longer than {limit_s:g} s and was ended; see whether the gpu hangs{raised}{left_behind}"


def _mismatch(report: Report, job: Job) -> str | None:
    """What shows that a report is not the one that was asked for, as the end of a sentence."""
    run, gpu = job.assignment.run, job.target.gpu
    if report.run.run_id != run.run_id:
        return "of another run"
    measured = None if report.gpu is None else report.gpu.uuid
    if gpu is not None and gpu.uuid is not None and measured != gpu.uuid:
        return f"on another gpu ({measured})"
    return None


def _named(finished: Finished, job: Job) -> Measured:
    """The report under the identity by which the node knows the gpu, where it has no UUID to be known by."""
    report, known = finished.report, job.target.identity
    if known is not None and known.uuid is None and report.gpu is not None:
        place = known.model_dump(include={"pci_bus_id", "index", "partition"})
        report = report.model_copy(update={"gpu": report.gpu.model_copy(update=place)})
    return Measured(report, finished.code, is_cut_short=finished.is_cut_short)


def _timed_out(handed_in: Measured, job: Job, *, limit_s: float) -> Measured:
    """A report with what was measured until the limit; a gpu that has become so slow is no gpu that made room."""
    detail = _too_long(job, limit_s=limit_s, exit_code=0)
    log.warning("%s: %s", job.target, detail)
    report = handed_in.report.model_copy(
        update={"outcome": "failed", "reason": "timed_out", "detail": one_line(detail)}
    )
    return Measured(report, ExitCode.FAILED)


def _refused(job: Job, error: AgentError) -> Measured:
    return refused(job.assignment, error, job.target, is_together=job.is_together)
