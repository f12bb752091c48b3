"""The process of one try of a round: an attempt and the options of `run` on its command line, its result on stdout."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from functools import partial

from fleetridge.report import Report
from fleetridge_agent import cli
from fleetridge_agent.commands.context import Context
from fleetridge_agent.commands.run import measure_and_deliver
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.schedule.attempt import Attempt, AttemptResult, Unmeasured, attempt_of, is_passing, result_text
from fleetridge_agent.sweep.report import Measured
from fleetridge_agent.worker.child_main import die_with_parent


def main() -> int:
    """Make the attempt that the command line begins with."""
    # A daemon that is killed must not leave somebody behind who measures on; what was measured is kept.
    die_with_parent(signal.SIGTERM)
    return cli.main(("run", *sys.argv[2:]), partial(_make, attempt_of(sys.argv[1])))


def _make(attempt: Attempt, context: Context) -> ExitCode:
    def show(found: Sequence[Measured]) -> None:
        """Write the result of the attempt to stdout, where the daemon reads it."""
        reports = [measured.report for measured in found]
        context.emit(result_text(_result(reports, is_cut_short=context.stop.is_asked)))

    def is_sent(report: Report) -> bool:
        """Whether a report is kept and delivered: not where a later try may still measure its gpu."""
        return bool(report.points) or not (attempt.withholds and is_passing(report.reason))

    return measure_and_deliver(context, "daemon", show=show, is_sent=is_sent)


def _result(reports: Sequence[Report], *, is_cut_short: bool) -> AttemptResult:
    unmeasured = tuple(
        Unmeasured(None if report.gpu is None else report.gpu.uuid, report.reason or report.outcome)
        for report in reports
        if report.outcome != "measured"
    )
    return AttemptResult(len(reports) - len(unmeasured), unmeasured, is_cut_short)


if __name__ == "__main__":
    sys.exit(main())
