"""Decode steps and other short products, replayed in batches."""

from __future__ import annotations

import pytest

from fleetridge.report import GemmPoint
from fleetridge_agent.device.gemm_variants import Gemm, GemmVariant
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from support.scripted_device import GIB, ScriptedDevice, described

_BF16 = GemmVariant("bfloat16")
_DECODE = SweepOptions(profile="quick", mode="gemm", m_sweep=(1, 16))


def _points(device: ScriptedDevice, options: SweepOptions = _DECODE) -> list[GemmPoint]:
    points = run_sweep(device, options).points
    return [point for point in points if isinstance(point, GemmPoint) and point.label != "reference"]


def test_a_decode_step_has_a_point_with_a_cold_and_one_with_a_warm_cache() -> None:
    """Two rates that differ by a third where the cache holds the weights."""
    points = _points(ScriptedDevice())

    assert [(point.label, point.M, point.l2) for point in points[:4]] == [
        ("fused QKV", 1, "cold"),
        ("fused QKV", 1, "warm"),
        ("fused QKV", 16, "cold"),
        ("fused QKV", 16, "warm"),
    ]
    assert len(points) == 4 * 2 * 2


def test_copies_that_take_turns_exceed_the_cache_four_times() -> None:
    """So that every call finds its weights in memory; and there are several such allocations."""
    device = ScriptedDevice()
    _points(device)

    for event in device.events:
        if event.startswith("copies"):
            count = int(event.split()[-1])
            sizes = next(gemm for gemm in device.allocations if isinstance(gemm, Gemm) and str(gemm) in event)
            assert count * sizes.bytes >= 5 * 4 * 60 * 2**20


def test_a_batch_is_long_enough_to_hide_its_launch() -> None:
    """At least 24 calls."""
    device = ScriptedDevice(pi_tflops=1e6, beta_gbps=4400.0)
    _points(device)

    short = [queued_ms for work, queued_ms in device.queues if isinstance(work, Gemm) and work.m == 1]
    call_ms = 4096 * 4096 * 2 / 4400e9 * 1e3
    assert min(short) >= 24 * call_ms


def test_a_few_allocations_in_bad_places_do_not_move_a_decode_step() -> None:
    """The median over fresh allocations counts, and their spread is told."""
    good = _points(ScriptedDevice())
    bad = _points(ScriptedDevice(placements=(1.0, 1.0, 1.0, 1.0, 1.0, 1.07, 1.0)))

    for one, other in zip(good, bad, strict=True):
        assert other.ms == pytest.approx(one.ms, rel=0.02)
    spreads = [point.spread for point in bad if point.spread is not None]
    assert max(spreads) < 0.07


def test_squares_that_are_shorter_than_their_launch_are_replayed_too() -> None:
    """And those that are not are timed one by one."""
    points = _points(ScriptedDevice(), SweepOptions(profile="quick", mode="gemm", square=(512, 8192), m_sweep=()))

    assert [(point.M, point.l2) for point in points] == [(512, "cold"), (512, "warm"), (8192, "cold")]


def test_where_memory_is_short_fewer_allocations_are_made() -> None:
    """Half of what is free is left to others."""
    device = ScriptedDevice(free=2 * GIB)
    points = _points(device)

    assert {point.label for point in points} == {"fused QKV", "o_proj", "gate+up", "down_proj"}


def test_rows_that_a_dtype_cannot_have_are_left_out_with_the_reason() -> None:
    """Torch multiplies int8 from 17 rows on."""

    class FewRows(ScriptedDevice):
        def require_supported(self, gemm: Gemm) -> None:
            """Refuse as a gpu does."""
            if gemm.m < 17:
                raise UnsupportedError(f"torch multiplies int8 from 17 rows on, not {gemm.m}")

    from fleetridge_agent.device.interface import UnsupportedError  # noqa: PLC0415 # only here

    options = SweepOptions(profile="quick", mode="gemm", dtypes=("int8",), m_sweep=(1, 32))
    result = run_sweep(FewRows(), options)

    decode = {point.M for point in result.points if isinstance(point, GemmPoint) and point.label != "reference"}
    assert decode == {32}
    assert {note.reason for note in result.notes} == {"unsupported"}


def test_a_cpu_times_each_call_behind_a_flush_and_without() -> None:
    """It has no launch gaps to hide, and no graph to replay."""
    cpu = described(kind="cpu", default_dtype="float32", burst_regime="unspecified", has_replay=False, has_link=False)
    device = ScriptedDevice(cpu)
    points = _points(device)

    assert [point.l2 for point in points[:2]] == ["cold", "warm"]
    assert not [event for event in device.events if event.startswith("copies")]
