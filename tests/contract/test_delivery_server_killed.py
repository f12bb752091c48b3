"""A server that is killed (SIGKILL) at any moment of a call, and started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from fleetridge_agent.deliver.retrying_client import Client, Delivery
from fleetridge_agent.deliver.server_address import server_at
from fleetridge_agent.deliver.spool import Spool
from support.fault_proxy import CALM, FAULTS, Call, Fault, FaultProxy, fault_proxy
from support.patience import PATIENCE_S
from support.server_process import ServerProcess, server_process
from support.soak import measured, stored_ids

pytestmark = pytest.mark.both_databases

# So many reports that a server is at work on them for some tenths of a second.
REPORTS = 24

Moment = Callable[[Callable[[], None], Call], None]


class MortalServer:
    """A server on one database that can be killed and started again."""

    def __init__(self, database_url: str, lives: ExitStack) -> None:
        self._database_url = database_url
        self._lives = lives
        self.start()

    def start(self) -> None:
        """Start it, at an address of its own."""
        self._server: ServerProcess = self._lives.enter_context(server_process(self._database_url))
        self.address = self._server.address()

    def kill(self) -> None:
        """End it as a power cut ends a process."""
        self._server.process.kill()
        self._server.process.wait(PATIENCE_S)

    @property
    def is_dead(self) -> bool:
        """Whether it was killed."""
        return self._server.process.poll() is not None


def before_the_call(kill: Callable[[], None], _: Call) -> None:
    kill()


def within_the_call(kill: Callable[[], None], call: Call) -> None:
    call.passed_on(up_to=0.6, on_sent=kill)


def as_the_call_ends(kill: Callable[[], None], call: Call) -> None:
    call.passed_on(on_sent=kill)


def at_work(seconds: float) -> Moment:
    def moment(kill: Callable[[], None], call: Call) -> None:
        def after_a_while() -> None:
            time.sleep(seconds)
            kill()

        call.passed_on(on_sent=after_a_while)

    return moment


def before_the_agent_has_the_answer(kill: Callable[[], None], call: Call) -> None:
    call.passed_on()
    kill()


def after_the_agent_has_the_answer(kill: Callable[[], None], call: Call) -> None:
    call.say(call.passed_on())
    kill()


MOMENTS: Mapping[str, Moment] = {
    "before the call": before_the_call,
    "within the call": within_the_call,
    "as the call ends": as_the_call_ends,
    **{f"{ms} ms into its work": at_work(ms / 1000) for ms in (10, 40, 120)},
    "before the agent has the answer": before_the_agent_has_the_answer,
    "after the agent has the answer": after_the_agent_has_the_answer,
}


@contextmanager
def mortal_server(database_url: str) -> Iterator[tuple[MortalServer, FaultProxy]]:
    """A server, and a proxy before it that kills it at one moment after the other, with a calm call after each."""
    with ExitStack() as lives:
        server = MortalServer(database_url, lives)
        deaths: dict[str, Fault] = {name: partial(moment, server.kill) for name, moment in MOMENTS.items()}
        script = [name for moment in MOMENTS for name in (moment, CALM)]
        yield server, lives.enter_context(fault_proxy(server.address, script, {**FAULTS, **deaths}))


def test_a_server_killed_at_any_moment_of_a_call_has_what_it_acknowledged_and_nothing_twice(
    database_url: str, tmp_path: Path
) -> None:
    spool = Spool(tmp_path)
    sent: list[str] = []
    with mortal_server(database_url) as (server, proxy):

        def revive(seconds: float) -> bool:
            if seconds and server.is_dead:
                server.start()
                proxy.upstream = server.address
            return False

        for moment in MOMENTS:
            fresh = [measured(spool, moment, gpu) for gpu in range(REPORTS)]
            ids = {report.report_id for report in fresh}
            with Client(server_at(proxy.address, token=None), wait=revive) as client:
                acknowledged = client.deliver(fresh)
            sent += ids

            assert acknowledged == Delivery(delivered=frozenset(ids)), moment
            assert stored_ids(database_url) == sorted(sent), moment
            revive(1)

    assert proxy.counts == {**dict.fromkeys(MOMENTS, 1), CALM: len(MOMENTS) - 1}
