from __future__ import annotations

import gzip
import tracemalloc

import pytest

from fleetridge_server.intake.body import MAX_BODY_BYTES, MAX_WAITING_BYTES, WaitingBodies, inflated
from fleetridge_server.problems import ProblemError


def status_of(raised: pytest.ExceptionInfo[ProblemError]) -> int:
    return raised.value.problem.status


def test_a_body_inflates_to_what_was_packed() -> None:
    """Also where it was packed in several parts, as some clients do while they stream."""
    assert inflated(gzip.compress(b"ab") + gzip.compress(b"cd"), "gzip") == b"abcd"


def test_a_body_may_inflate_up_to_the_limit() -> None:
    """The limit itself is allowed."""
    assert len(inflated(gzip.compress(bytes(MAX_BODY_BYTES)), "gzip")) == MAX_BODY_BYTES


def test_a_bomb_is_refused_before_it_unfolds() -> None:
    """A body that would inflate a thousandfold takes no more memory than the limit and its copy."""
    bomb = gzip.compress(bytes(20 * MAX_BODY_BYTES), compresslevel=9)
    tracemalloc.start()

    with pytest.raises(ProblemError) as raised:
        inflated(bomb, "gzip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert status_of(raised) == 413
    assert peak < 3 * MAX_BODY_BYTES


@pytest.mark.parametrize(
    "body", [b"{}", gzip.compress(b"{}", mtime=0)[:-3], gzip.compress(b"{}" * 999, mtime=0)[:20] + b"x" * 30]
)
def test_what_is_not_gzip_is_refused(body: bytes) -> None:
    """Plain, cut off and damaged bodies are faults of the sender."""
    with pytest.raises(ProblemError) as raised:
        inflated(body, "gzip")

    assert status_of(raised) == 422


def test_bodies_that_wait_are_bounded_together() -> None:
    """More than the server can hold is put off, and what is done makes room again."""
    waiting = WaitingBodies()
    with waiting.place() as first, waiting.place() as second:
        first.add(MAX_WAITING_BYTES)
        with pytest.raises(ProblemError) as raised:
            second.add(1)
    with waiting.place() as third:
        third.add(MAX_WAITING_BYTES)

    assert status_of(raised) == 503
    assert raised.value.headers["Retry-After"]
