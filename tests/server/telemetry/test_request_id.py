from __future__ import annotations

from contextvars import copy_context

import pytest

from fleetridge_server.telemetry.logs import current_request_id, enter_request, within_request


def test_a_block_is_done_for_the_request_that_it_is_given() -> None:
    """What is logged in it belongs to that one."""
    with within_request("abc"):
        assert current_request_id() == "abc"
    assert current_request_id() is None


def test_after_the_block_the_request_before_it_is_in_hand_again() -> None:
    """Also where it is done for none."""

    def ids() -> list[str | None]:
        enter_request([(b"x-request-id", b"outer")])
        seen = []
        with within_request("inner"):
            seen.append(current_request_id())
            with within_request(None):
                seen.append(current_request_id())
            seen.append(current_request_id())
        return [*seen, current_request_id()]

    assert copy_context().run(ids) == ["inner", None, "inner", "outer"]


def test_a_block_that_raises_leaves_nothing_behind() -> None:
    """The next one's lines are its own."""
    with pytest.raises(LookupError), within_request("abc"):
        raise LookupError
    assert current_request_id() is None
