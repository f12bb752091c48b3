"""Reports on their way: on disk at once, from the spool to the server, and settled there as the server says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fleetridge.quantities import MIB
from fleetridge.report import MAX_REPORTS, Report
from fleetridge_agent.deliver.retrying_client import Client, Delivery
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import AlreadyRunningError, ExitCode, SpoolError
from fleetridge_agent.lock import spool_lock
from fleetridge_agent.stop import Stop

log = logging.getLogger(__name__)

# Of what the spool has collected over days, this much goes in one call: well below what servers and proxies take, so
# that calls are seldom split, and enough for a day of a large node in a few calls.
_BATCH_BYTES = 8 * MIB


@dataclass(frozen=True, slots=True)
class Tally:
    """
    What became of the reports of one command.

    Attributes:
        waiting: in the spool, for the next run.
        lost: that could be neither delivered nor put on disk.
    """

    delivered: int = 0
    dead: int = 0
    lost: int = 0
    waiting: int = 0


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


def spooled(spool: Spool, report: Report) -> Outgoing:
    """Put a report on disk; one that cannot be put there goes to the server from memory."""
    report_id, body = str(report.report_id), report.canonical_json()
    try:
        return spool.add(report_id, body)
    except SpoolError as error:
        log.warning("%s; trying to deliver this report from memory", error)
        return Outgoing(report_id, body)


def dispatch(
    deliver: Callable[[Sequence[Outgoing]], Delivery],
    spool: Spool,
    fresh: Sequence[Outgoing] | None = None,
    *,
    is_stopped: Callable[[], bool],
) -> Tally:
    """
    Deliver fresh reports in one call, then what earlier runs left behind.

    Ends at the first call that shows that the server is not there or takes no reports, and once `is_stopped` says so;
    what is left waits in the spool.

    Args:
        deliver: posts the reports of one call.
        spool: where reports wait.
        fresh: what was just measured, in memory or on disk; None where the spool alone is to be delivered.
        is_stopped: whether to end after the call under way.

    Raises:
        SpoolError: the spool cannot be listed and it alone was to be delivered; else that is logged.
        AlreadyRunningError: another agent delivers this spool and it alone was to be delivered; else that is logged.
    """
    delivered = dead = lost = 0
    with closing(_calls(spool, fresh)) as calls:
        for batch in calls:
            delivery = deliver(batch)
            delivered, dead = delivered + len(delivery.delivered), dead + len(delivery.dead)
            lost += _settle_all(spool, batch, delivery)
            if not delivery.server_available or is_stopped():
                break
    return Tally(delivered, dead, lost, spool.count())


def log_tally(tally: Tally) -> ExitCode:
    """Log what became of the reports; what that alone would end the program with."""
    log.info("reports delivered: %d", tally.delivered)
    if tally.waiting:
        log.warning("reports that wait in the spool for the next run or `fleetridge-agent flush`: %d", tally.waiting)
    if tally.lost:
        log.error("reports that are lost, neither delivered nor on disk: %d; see the warnings above", tally.lost)
    if tally.dead:
        return ExitCode.DEAD_LETTERED
    return ExitCode.FAILED if tally.lost else ExitCode.DONE


def _calls(spool: Spool, fresh: Sequence[Outgoing] | None) -> Generator[Sequence[Outgoing]]:
    """Reports of each call."""
    if fresh:
        yield fresh
    ids = {report.report_id for report in fresh or ()}
    try:
        with spool_lock(spool.state_dir):
            yield from _batches(report for report in spool.pending() if report.report_id not in ids)
    except (SpoolError, AlreadyRunningError) as error:
        if fresh is None:
            raise
        log.warning("what earlier runs left behind is not delivered: %s", error)


def _settle_all(spool: Spool, reports: Sequence[Outgoing], delivery: Delivery) -> int:
    """Settle the reports of one call; how many are lost."""
    for report in reports:
        _settle(spool, report, delivery)
    kept = [report for report in reports if report.report_id in delivery.kept]
    if kept:
        log.warning("not delivered, %d of %d: %s", len(kept), len(reports), delivery.reason)
    return sum(report.path is None for report in kept)


def _settle(spool: Spool, report: Outgoing, delivery: Delivery) -> None:
    if report.report_id in delivery.delivered:
        spool.remove(report)
    elif report.report_id in delivery.dead:
        problem = delivery.dead[report.report_id]
        log.error("the server will never take report %s: %s", report.report_id, problem)
        spool.move_to_dead_letters(report, problem)


def _batches(reports: Iterable[Outgoing]) -> Iterator[list[Outgoing]]:
    """Lists of bounded size, none with one id twice: a copied file would make an answer that contradicts itself."""
    batch: dict[str, Outgoing] = {}
    size_bytes = 0
    for report in reports:
        is_full = len(batch) == MAX_REPORTS or size_bytes + len(report.body) > _BATCH_BYTES
        if batch and (is_full or report.report_id in batch):
            yield list(batch.values())
            batch, size_bytes = {}, 0
        batch[report.report_id] = report
        size_bytes += len(report.body)
    if batch:
        yield list(batch.values())
