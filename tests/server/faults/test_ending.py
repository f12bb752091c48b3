"""A server that ends, by a signal or by force, while reports arrive."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.load import kept, load
from support.patience import PATIENCE_S
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.server_process import ServerProcess

pytestmark = pytest.mark.both_databases

LIVES = 2

# Calls between two ends, so that each falls into work.
CALLS_BETWEEN = 3


def killed(server: ServerProcess) -> int:
    """Its exit code upon SIGKILL."""
    server.process.kill()
    return server.process.wait(PATIENCE_S)


def asked_to_end(server: ServerProcess) -> int:
    """Its exit code upon SIGTERM."""
    return server.stop()


@pytest.mark.parametrize(("end", "code"), [(asked_to_end, 0), (killed, -9)])
def test_whatever_a_server_acknowledged_before_its_end_is_stored_once(
    database_url: str, end: Callable[[ServerProcess], int], code: int
) -> None:
    """Two lives on one database, with callers that never pause."""
    codes, addresses = [], [""]
    with ExitStack() as stack:
        server = stack.enter_context(server_process(database_url))
        addresses.append(server.address())
        with load(lambda: addresses[-1]) as made:
            for _ in range(LIVES - 1):
                made.wait_for_calls(CALLS_BETWEEN)
                codes.append(end(server))
                server = stack.enter_context(server_process(database_url))
                addresses.append(server.address())
            made.wait_for_calls(CALLS_BETWEEN)
        codes.append(end(server))

    assert codes == [code] * LIVES
    assert set(made.answers) <= {"200", "503", "no answer"}
    assert made.given_up == 0
    assert made.acknowledged == made.sent
    assert kept(database_url, made).is_right
