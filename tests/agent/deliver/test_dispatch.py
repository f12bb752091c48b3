"""From the spool to the server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest

from fleetridge_agent.deliver import dispatch as dispatch_room
from fleetridge_agent.deliver.client import Delivery
from fleetridge_agent.deliver.dispatch import Tally, dispatch
from fleetridge_agent.deliver.spool import Outgoing, Spool


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
            return Delivery(kept=frozenset(ids), reason="the server is not there", go_on=False)
        return Delivery(delivered=frozenset(ids))


def add(spool: Spool, count: int, *, padding: int = 0) -> list[Outgoing]:
    ids = [str(uuid4()) for _ in range(count)]
    return [
        spool.add(report_id, json.dumps({"report_id": report_id, "p": "x" * padding}).encode()) for report_id in ids
    ]


def ids(reports: Sequence[Outgoing]) -> list[str]:
    return [report.report_id for report in reports]


def dispatched(server: Server, spool: Spool, fresh: Sequence[Outgoing] = (), *, stopped: bool = False) -> Tally:
    return dispatch(server.deliver, spool, fresh, is_stopped=lambda: stopped)


def test_fresh_reports_go_first_in_a_call_of_their_own(tmp_path: Path) -> None:
    spool, server = Spool(tmp_path), Server()
    waiting = add(spool, 3)
    fresh = add(spool, 2)
    tally = dispatched(server, spool, fresh)

    assert server.calls == [ids(fresh), ids(waiting)]
    assert tally == Tally(delivered=5)


def test_what_waits_goes_in_calls_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_room, "_BATCH_BYTES", 2500)
    spool, server = Spool(tmp_path), Server()
    waiting = add(spool, 5, padding=1000)
    dispatched(server, spool)

    assert server.calls == [ids(waiting[:2]), ids(waiting[2:4]), ids(waiting[4:])]


def test_what_waits_goes_in_calls_of_a_bounded_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_room, "MAX_REPORTS", 2)
    spool, server = Spool(tmp_path), Server()
    add(spool, 5)
    dispatched(server, spool)

    assert [len(call) for call in server.calls] == [2, 2, 1]


def test_a_server_that_is_not_there_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch_room, "MAX_REPORTS", 1)
    spool, server = Spool(tmp_path), Server(fails_from=2)
    add(spool, 4)
    tally = dispatched(server, spool)

    assert len(server.calls) == 2
    assert tally == Tally(delivered=1, waiting=3)


def test_after_a_signal_only_the_fresh_reports_are_tried(tmp_path: Path) -> None:
    spool, server = Spool(tmp_path), Server()
    add(spool, 2)
    fresh = add(spool, 1)
    tally = dispatched(server, spool, fresh, stopped=True)

    assert server.calls == [ids(fresh)]
    assert tally == Tally(delivered=1, waiting=2)


def test_a_report_in_memory_that_is_not_delivered_is_lost(tmp_path: Path) -> None:
    tally = dispatched(Server(fails_from=1), Spool(tmp_path), [Outgoing(str(uuid4()), b"{}")])

    assert tally == Tally(lost=1)
