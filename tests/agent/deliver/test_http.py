"""Calls that run beside their caller."""

from __future__ import annotations

import threading

import httpx
import pytest

from fleetridge_agent.deliver.http import within


def test_a_call_that_is_done_in_time_gives_what_it_found() -> None:
    assert within(60, lambda: "found") == "found"


def test_a_call_that_never_ends_is_left_to_itself() -> None:
    end = threading.Event()
    with pytest.raises(httpx.ReadTimeout, match="no whole answer"):
        within(0.01, lambda: end.wait(60))
    end.set()


def test_what_breaks_a_call_breaks_it_for_its_caller() -> None:
    def broken() -> None:
        raise httpx.ConnectError("refused")

    with pytest.raises(httpx.ConnectError, match="refused"):
        within(60, broken)
