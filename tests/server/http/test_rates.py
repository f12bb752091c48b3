from __future__ import annotations

from dataclasses import dataclass

import pytest

from fleetridge_server.http.rate_limits import Buckets, CallRate, caller_at


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self) -> float:
        """Time that the test sets."""
        return self.now_s


def test_so_many_at_once_then_so_many_a_second() -> None:
    clock = Clock()
    buckets = Buckets(CallRate(per_s=2.0, at_once=3), clock)

    at_first = [buckets.take("a") for _ in range(4)]
    clock.now_s += 0.5
    later = [buckets.take("a") for _ in range(2)]

    assert at_first == [0, 0, 0, pytest.approx(0.5)]
    assert later == [0, pytest.approx(0.5)]


def test_a_pause_fills_the_bucket_and_no_more() -> None:
    clock = Clock()
    buckets = Buckets(CallRate(per_s=2.0, at_once=3), clock)
    buckets.take("a")
    clock.now_s += 3600

    assert [buckets.take("a") for _ in range(4)][3] > 0


def test_one_caller_costs_no_other() -> None:
    buckets = Buckets(CallRate(per_s=1.0, at_once=1), Clock())

    assert [buckets.take(name) for name in ("a", "b", "a")] == [0, 0, 1]


def test_asking_takes_nothing() -> None:
    buckets = Buckets(CallRate(per_s=1.0, at_once=1), Clock())

    assert [buckets.wait_s("a"), buckets.wait_s("a"), buckets.take("a")] == [0, 0, 0]


def test_without_a_rate_there_is_no_limit() -> None:
    buckets = Buckets(CallRate(per_s=0.0, at_once=1), Clock())

    assert {buckets.take("a") for _ in range(100)} == {0}


def test_a_clock_that_stands_or_a_forgotten_caller_is_no_fault() -> None:
    """However many addresses call, memory stays bounded."""
    buckets = Buckets(CallRate(per_s=1.0, at_once=1), Clock())
    for number in range(30_000):
        assert buckets.take(str(number)) == 0

    assert buckets.take("29999") == 1
    assert buckets.take("0") == 0


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", caller_at("2001:db8:1:2::1")),
        ("fe80::1%eth0", caller_at("fe80::2")),
        (None, "unknown"),
        ("testclient", "testclient"),
    ],
)
def test_a_network_of_one_customer_is_one_caller(address: str | None, caller: str) -> None:
    assert caller_at(address) == caller
    assert caller_at("2001:db8:1:3::1") != caller_at("2001:db8:1:2::1")
