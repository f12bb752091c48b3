"""Reports of a check on their way: on disk at once, and one try to deliver them when the verdict is out."""

from __future__ import annotations

import logging
from pathlib import Path

from fleetridge.report import Report
from fleetridge_agent.deliver.client import Client, Server
from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import ExitCode, SpoolError
from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)


def spooled(spool: Spool, report: Report) -> Outgoing:
    """Put a report on disk; one that cannot be put there goes to the server from memory."""
    report_id, body = str(report.report_id), report.canonical_json()
    try:
        return spool.add(report_id, body)
    except SpoolError as error:
        log.warning("%s; trying to deliver this report from memory", error)
        return Outgoing(report_id, body)


class Outbox:
    """
    Reports of one check.

    Without a server nothing is kept: nobody asked for it, and a build that checks every hour would fill a disk.

    Attributes:
        is_worth_a_try: whether the server seems to be there.
    """

    def __init__(self, state_dir: Path, server: Server | None, stop: Stop) -> None:
        self._server = server
        self._stop = stop
        self._spool = Spool(state_dir)
        self._outgoing: list[Outgoing] = []
        self.is_worth_a_try = True

    def add(self, report: Report) -> None:
        """Put a report on disk."""
        if self._server is None:
            return
        self._outgoing.append(spooled(self._spool, report))

    def deliver_once(self) -> None:
        """Try once: whoever asked for a verdict waits for this program to end, and the spool waits for the next run."""
        if self._server is None or not self._outgoing:
            return
        if not self.is_worth_a_try:
            log.warning(
                "reports that wait in the spool for the next run or `fleetridge-agent flush`: %d", len(self._outgoing)
            )
            return
        with Client(self._server, wait=self._is_no_pause) as client:
            tally = dispatch(client.deliver, self._spool, self._outgoing, is_stopped=lambda: True)
        log.info("reports delivered: %d", tally.delivered)

    def _is_no_pause(self, seconds: float) -> bool:
        """No pause is made, as one try is all; without one, whether the end was asked for."""
        return seconds > 0 or self._stop.is_asked


def say_tally(tally: Tally) -> ExitCode:
    """Log what became of the reports; what that alone would end the program with."""
    log.info("reports delivered: %d", tally.delivered)
    if tally.waiting:
        log.warning("reports that wait in the spool for the next run or `fleetridge-agent flush`: %d", tally.waiting)
    if tally.lost:
        log.error("reports that are lost, neither delivered nor on disk: %d; see the warnings above", tally.lost)
    if tally.dead:
        return ExitCode.DEAD_LETTERED
    return ExitCode.FAILED if tally.lost else ExitCode.DONE
