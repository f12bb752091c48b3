"""From the spool to the server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from fleetridge_agent.deliver import dispatch as dispatch_module
from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.retrying_client import Delivery
from fleetridge_agent.deliver.spool import Outgoing, Spool
from fleetridge_agent.errors import AlreadyRunningError, SpoolError
from fleetridge_agent.lock import spool_lock
from support.spools import ids, spooled


class Server:
    """Stands for a client: takes every call, or none from some call on."""

    def __init__(self, *, fails_from: int = 1000) -> None:
        self.calls: list[list[str]] = []
        self._fails_from = fails_from

    def deliver(self, reports: Sequence[Outgoing]) -> Delivery:
        """Take or keep all reports of one call."""
        ids = [report.report_id for report in reports]
        self.calls.append(ids)
        if len(self.calls) >= self._fails_from:
            return Delivery(kept=frozenset(ids), reason="the server is not there", server_available=False)
        return Delivery(delivered=frozenset(ids))


def dispatched(
    server: Server, spool: Spool, fresh: Sequence[Outgoing] | None = None, *, stopped: bool = False
) -> Tally:
    return dispatch(server.deliver, spool, fresh, is_stopped=lambda: stopped)


def test_fresh_reports_go_first_in_a_call_of_their_own(tmp_path: Path) -> None:
    spool, server = Spool(tmp_path), Server()
    waiting = spooled(spool, 3)
    fresh = spooled(spool, 2)
    tally = dispatched(server, spool, fresh)

    assert server.calls == [ids(fresh), ids(waiting)]
    assert tally == Tally(delivered=5)


def test_what_waits_goes_in_calls_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_module, "_BATCH_BYTES", 2500)
    spool, server = Spool(tmp_path), Server()
    waiting = spooled(spool, 5, padding=1000)
    dispatched(server, spool)

    assert server.calls == [ids(waiting[:2]), ids(waiting[2:4]), ids(waiting[4:])]


def test_what_waits_goes_in_calls_of_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_module, "MAX_REPORTS", 2)
    spool, server = Spool(tmp_path), Server()
    spooled(spool, 5)
    dispatched(server, spool)

    assert [len(call) for call in server.calls] == [2, 2, 1]


def test_a_server_that_is_not_there_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_module, "MAX_REPORTS", 1)
    spool, server = Spool(tmp_path), Server(fails_from=2)
    spooled(spool, 4)
    tally = dispatched(server, spool)

    assert len(server.calls) == 2
    assert tally == Tally(delivered=1, waiting=3)


def test_after_a_signal_only_the_fresh_reports_are_tried(tmp_path: Path) -> None:
    spool, server = Spool(tmp_path), Server()
    spooled(spool, 2)
    fresh = spooled(spool, 1)
    tally = dispatched(server, spool, fresh, stopped=True)

    assert server.calls == [ids(fresh)]
    assert tally == Tally(delivered=1, waiting=2)


def test_two_files_of_one_report_go_in_calls_of_their_own(tmp_path: Path) -> None:
    spool, server = Spool(tmp_path), Server()
    (report,) = spooled(spool)
    spool.add(report.report_id, report.body + b" ")
    dispatched(server, spool)

    assert server.calls == [[report.report_id], [report.report_id]]


def test_what_another_agent_is_delivering_is_left_to_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool, server = Spool(tmp_path), Server()
    spooled(spool, 2)
    fresh = spooled(spool)
    with spool_lock(tmp_path):
        tally = dispatched(server, spool, fresh)

    assert server.calls == [ids(fresh)]
    assert tally == Tally(delivered=1, waiting=2)
    assert "another fleetridge-agent" in caplog.text


def test_a_flush_that_finds_another_agent_at_it_says_so(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spooled(spool)

    with spool_lock(tmp_path), pytest.raises(AlreadyRunningError, match="delivery"):
        dispatched(Server(), spool)


def test_a_run_that_sends_nothing_itself_leaves_the_spool_to_another_agent_too(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spooled(spool)
    with spool_lock(tmp_path):
        tally = dispatched(Server(), spool, [])

    assert tally == Tally(waiting=1)


def test_a_flush_of_a_spool_that_cannot_be_listed_says_so(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("in the way")

    with pytest.raises(SpoolError, match="--state-dir"):
        dispatched(Server(), Spool(tmp_path))


def test_the_spool_is_free_for_others_once_a_dispatch_has_ended_early(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    spooled(spool)
    dispatched(Server(fails_from=1), spool)

    assert dispatched(Server(), spool) == Tally(delivered=1)


def test_agents_that_share_a_spool_lose_nothing_whoever_delivers(tmp_path: Path) -> None:
    one, other, server = Spool(tmp_path), Spool(tmp_path), Server()
    ours, theirs = spooled(one, 2), spooled(other, 2)
    dispatched(server, one, ours)
    tally = dispatched(server, other, theirs)

    assert {report_id for call in server.calls for report_id in call} == set(ids([*ours, *theirs]))
    assert tally.waiting == 0


def test_a_report_in_memory_that_is_not_delivered_is_lost(tmp_path: Path) -> None:
    tally = dispatched(Server(fails_from=1), Spool(tmp_path), [Outgoing(str(uuid4()), b"{}")])

    assert tally == Tally(lost=1)
