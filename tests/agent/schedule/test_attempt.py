"""What a daemon and the process of a round say to each other."""

from __future__ import annotations

import pytest

from fleetridge_agent.schedule.attempt import (
    Attempt,
    AttemptResult,
    Unmeasured,
    attempt_of,
    attempt_text,
    result_of,
    result_text,
)


@pytest.mark.parametrize("order", [Attempt(), Attempt(("GPU-a", "MIG-b"), withholds=True)])
def test_an_order_arrives_as_it_was_given(order: Attempt) -> None:
    assert attempt_of(attempt_text(order)) == order


def test_an_answer_arrives_as_it_was_given_on_one_line() -> None:
    answer = AttemptResult(2, (Unmeasured("GPU-a", "busy"), Unmeasured(None, "cuda_not_ready")), is_cut_short=True)

    assert result_of(result_text(answer).encode()) == answer
    assert result_text(answer).count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"Segmentation fault\n", b"[]", b'{"measured":"many"}'])
def test_a_process_that_broke_has_not_answered(content: bytes) -> None:
    assert result_of(content) is None


@pytest.mark.parametrize("reason", ["busy", "already_running", "preempted", "cuda_not_ready"])
def test_what_passes_within_hours_is_worth_another_try(reason: str) -> None:
    assert AttemptResult(0, (Unmeasured("GPU-a", reason),)).worth_another_try


@pytest.mark.parametrize("reason", ["crashed", "no_driver", "mig_without_slice", "timed_out", "torch_missing"])
def test_what_needs_a_person_waits_for_the_next_round(reason: str) -> None:
    answer = AttemptResult(0, (Unmeasured("GPU-a", reason),))

    assert not answer.worth_another_try
    assert answer.lost_by is None
