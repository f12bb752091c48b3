"""Calls to a server that run beside their caller, as nothing else ends a read that waits for a server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from typing import TypeVar

import httpx

T = TypeVar("T")


def aside(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own, which ends with this process at the latest."""
    answer: Future[T] = Future()
    threading.Thread(target=_resolve, args=(answer, call), daemon=True).start()
    return answer


def within(seconds: float, call: Callable[[], T]) -> T:
    """
    What a call gives, if it does so in time.

    A time-out of httpx begins anew with each byte, so that an answer whose headers drip in never runs into one.

    Raises:
        httpx.ReadTimeout: it takes longer, and is left to itself.
    """
    try:
        return aside(call).result(seconds)
    except NotDoneError as error:
        raise httpx.ReadTimeout(f"no whole answer within {seconds:g} s") from error


def _resolve(answer: Future[T], call: Callable[[], T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 # raised again where the answer is waited for
        answer.set_exception(error)
