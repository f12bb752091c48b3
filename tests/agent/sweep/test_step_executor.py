"""The canary at the end of a sweep."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleetridge_agent.device.gemm_variants import GemmVariant
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.shapes import reference_gemm
from fleetridge_agent.sweep.step_executor import remeasured
from support.scripted_device import ScriptedDevice

_LOOKS = (8, 16, 32)


def _sung(before: float, *again: float) -> tuple[float, str | None]:
    rates = iter(again)
    verdict = remeasured(before, lambda _: next(rates), lambda rate: rate, looks=_LOOKS, what="read")
    return verdict.kept, None if verdict.note is None else verdict.note.reason


def test_a_device_that_is_still_what_it_was_is_stable() -> None:
    """Within one per cent, and it is not asked again."""
    assert _sung(4400.0, 4360.0) == (4400.0, None)


def test_two_that_agree_outvote_one() -> None:
    """The first measurement was disturbed; what the canary and the repetition say counts, and it is told."""
    assert _sung(4200.0, 4400.0, 4410.0) == (4410.0, "unstable")


def test_a_repetition_that_agrees_with_nobody_changes_nothing() -> None:
    """The measurement in the standard state stays."""
    assert _sung(4400.0, 4200.0, 4000.0) == (4400.0, "unstable")


def test_the_repetition_is_a_full_measurement() -> None:
    """And the canary itself a short one."""
    asked: list[Sequence[int]] = []

    def again(looks: Sequence[int]) -> float:
        asked.append(looks)
        return 4000.0

    remeasured(4400.0, again, lambda rate: rate, looks=_LOOKS, what="read")

    assert asked == [(3,), _LOOKS]


def test_a_sweep_of_a_steady_device_says_that_it_is_stable() -> None:
    """The evidence has the word either way."""
    assert run_sweep(ScriptedDevice(), SweepOptions(profile="quick")).evidence.unstable is False


@pytest.mark.parametrize("work", ["read", "reference"])
def test_a_device_that_has_changed_by_the_end_is_unstable(work: str) -> None:
    """The report says so, with the rates; the roof keeps a value."""
    gemm = reference_gemm(GemmVariant("bfloat16"), kind="cuda", sm_count=132)
    key = "read" if work == "read" else gemm
    # Probes, then eight blocks at the first time, then whatever comes later at the second.
    first = [1.0] * (2 + 8 * 10)
    device = ScriptedDevice(samples={key: [*first, 1.05]})

    result = run_sweep(device, SweepOptions(profile="quick"))

    assert result.evidence.unstable is True
    assert [note.reason for note in result.notes] == ["unstable"]
    assert result.failure is None
