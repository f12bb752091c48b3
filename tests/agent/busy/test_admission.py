"""Waiting for gpus that somebody uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from fleetridge_agent.busy.admission import idle_first
from fleetridge_agent.gpus.cuda_driver import CudaGpu
from fleetridge_agent.gpus.targets import Target

A, B, C = (Target("cuda", CudaGpu(number, f"GPU-{number}", None, "NVIDIA H200", None)) for number in range(3))
HALF_HOUR_S = 1800.0


@dataclass(slots=True)
class Node:
    """
    Gpus that are idle from some time on; a look takes two seconds and a sweep a minute.

    Attributes:
        ends_at_s: when somebody asks for the end.
    """

    idle_from_s: Mapping[Target, float]
    ends_at_s: float = float("inf")
    now_s: float = 0.0
    looks: list[tuple[Target, float]] = field(default_factory=list)

    def is_idle(self, target: Target) -> bool:
        """Take a look."""
        self.looks.append((target, self.now_s))
        self.now_s += 2
        return self.now_s >= self.idle_from_s[target]

    def wait(self, seconds: float) -> bool:
        """Let time pass."""
        self.now_s = min(self.now_s + seconds, self.ends_at_s)
        return self.now_s >= self.ends_at_s

    def measured(self, *targets: Target, limit_s: float = HALF_HOUR_S) -> list[tuple[Target, float]]:
        """Each gpu, and when its sweep began."""
        found = []
        for target in idle_first(targets, self.is_idle, limit_s=limit_s, wait=self.wait, now=lambda: self.now_s):
            found.append((target, self.now_s))
            self.now_s += 60
        return found


def test_idle_gpus_are_measured_first_and_busy_ones_as_soon_as_they_are_idle() -> None:
    node = Node({A: 300, B: 0, C: 0})
    found = node.measured(A, B, C)

    assert [target for target, _ in found] == [B, C, A]
    assert 300 <= found[-1][1] < 320


def test_a_gpu_that_becomes_idle_while_others_are_measured_need_not_wait_any_longer() -> None:
    node = Node({A: 30, B: 0, C: 0})

    assert [target for target, _ in node.measured(A, B, C)] == [B, A, C]


def test_gpus_that_stay_busy_come_last_when_the_time_is_up() -> None:
    """Whoever measures them then finds them busy and says so."""
    node = Node({A: 1e9, B: 0})
    found = node.measured(A, B)

    assert [target for target, _ in found] == [B, A]
    assert HALF_HOUR_S <= found[-1][1] < HALF_HOUR_S + 10


def test_without_time_to_wait_nobody_looks_twice() -> None:
    node = Node({A: 1e9, B: 0})

    assert [target for target, _ in node.measured(A, B, limit_s=0)] == [A, B]
    assert not node.looks


def test_looks_at_a_busy_gpu_are_some_seconds_apart() -> None:
    node = Node({A: 1e9})
    node.measured(A)
    at_s = [when for _, when in node.looks]

    assert min(later - sooner for sooner, later in pairwise(at_s)) >= 10


def test_whoever_asks_for_the_end_need_not_wait() -> None:
    node = Node({A: 1e9, B: 0}, ends_at_s=100)

    assert [target for target, _ in node.measured(A, B)] == [B]
    assert node.now_s == 100
