from __future__ import annotations

from fleetridge_agent.busy.foreign_use import ForeignUseWatch
from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.readings.evidence import EvidenceLog
from fleetridge_agent.sweep.call_timer import Call, CallTimer, Pace
from fleetridge_agent.sweep.timing_statistics import BlockTiming, Timing
from support.scripted_device import ScriptedDevice

_FAST = Gemm(1024, 1024, 1024, GemmVariant("bfloat16"))
_SLOW = Gemm(16384, 16384, 16384, GemmVariant("float32"))


def _call_timer(device: ScriptedDevice, pace: Pace | None = None) -> CallTimer:
    pace = pace or Pace(warmup=10, reps=25, budget_ms=2000.0)
    return CallTimer(device, Fill(), pace, EvidenceLog(None), ForeignUseWatch(device.foreign_use))


def _measured(device: ScriptedDevice, gemm: Gemm, pace: Pace | None = None) -> Timing:
    with device.gemm(gemm, Fill()) as launch:
        return _call_timer(device, pace).measure(Call(launch, "phase"))


def _in_blocks(device: ScriptedDevice, gemms: list[Gemm], *looks: int) -> list[BlockTiming]:
    calls = []
    for gemm in gemms:
        with device.gemm(gemm, Fill()) as launch:
            calls.append(Call(launch, "phase"))
    return _call_timer(device).measure_blocks(calls, looks=looks)


def test_warm_up_is_left_out_of_the_time() -> None:
    """The calls that find out how long one takes are slow here, and none of them enters the result."""
    device = ScriptedDevice(samples={_FAST: [2700.0, 900.0, 0.1]})

    assert _measured(device, _FAST, Pace(warmup=10, reps=25, budget_ms=1e6)).ms == 0.1


def test_as_many_calls_are_timed_as_asked_for() -> None:
    """25 calls of a millisecond fit into any budget."""
    assert _measured(ScriptedDevice(), _FAST).reps == 25


def test_long_calls_are_repeated_less_often() -> None:
    """Ten calls of 220 ms would not fit into two seconds; nine do."""
    device = ScriptedDevice(pi_tflops=40.0)

    assert _measured(device, _SLOW).reps == 9


def test_a_number_of_calls_that_the_user_gave_is_kept_however_long_it_takes() -> None:
    """The option means what it says."""
    pace = Pace(warmup=2, reps=40, budget_ms=10.0, is_reps_fixed=True, is_warmup_fixed=True)

    assert _measured(ScriptedDevice(pi_tflops=40.0), _SLOW, pace).reps == 40


def test_no_more_than_a_tenth_of_a_second_of_work_is_ever_queued() -> None:
    """Unless a single call takes longer: whoever needs the gpu waits no longer than that."""
    device = ScriptedDevice(pi_tflops=300.0)
    _measured(device, _SLOW)
    _in_blocks(device, [_FAST, _SLOW], 2)

    assert max(queued_ms for _, queued_ms in device.queues) <= 100.0


def test_a_call_that_takes_longer_than_that_is_queued_alone() -> None:
    """It cannot be cut."""
    device = ScriptedDevice(pi_tflops=40.0)
    _measured(device, _SLOW)

    assert {round(queued_ms / 220) for _, queued_ms in device.queues} == {1}


def test_blocks_take_turns_and_every_other_round_goes_backwards() -> None:
    """A slow drift then meets all shapes alike."""
    device = ScriptedDevice()
    small = Gemm(512, 512, 512, GemmVariant("bfloat16"))
    _in_blocks(device, [_FAST, small], 3)

    start = device.events.index("rest 0.1")
    timed = [event for event in device.events[start:] if event.startswith("time")]
    sizes = [1024 if "1024" in event else 512 for event in timed]
    assert sizes == [1024, 512, 512, 1024, 1024, 512]


def test_the_device_rests_before_every_block() -> None:
    """So that each block starts from the same clock and power."""
    device = ScriptedDevice()
    _in_blocks(device, [_FAST], 5)

    assert device.events.count("rest 0.1") == 5


def test_the_device_works_for_a_while_before_the_first_block() -> None:
    """An idle gpu needs some work to reach its clock, and too much would heat it."""
    device = ScriptedDevice()
    _in_blocks(device, [_FAST], 1)

    before = device.events[: device.events.index("rest 0.1")]
    calls = sum(int(event.split()[-1]) for event in before if event.startswith("run"))
    assert 50 <= calls * 2 * 1024**3 / 800e12 * 1e3 <= 60


def test_a_device_that_slows_down_shows_it_in_its_blocks() -> None:
    """First and last block differ, and the time is that of the middle."""
    slowing = [1.0] * 2 + [1.0] * 10 + [1.1] * 10 + [1.2] * 10
    device = ScriptedDevice(samples={_FAST: slowing})

    (timing,) = _in_blocks(device, [_FAST], 3)

    assert (timing.first_ms, timing.whole.ms, timing.last_ms) == (1.0, 1.1, 1.2)


def test_a_device_whose_blocks_agree_is_asked_for_eight() -> None:
    """The first look is the last."""
    (timing,) = _in_blocks(ScriptedDevice(), [_FAST], 8, 16, 32)

    assert timing.has_converged
    assert timing.whole.reps == 8 * 25


def test_a_noisy_device_is_asked_for_more_blocks_and_at_last_given_as_it_is() -> None:
    """Blocks that never agree end at the third look, with a value and the word that it has not converged."""
    noisy = [1.0] * 2 + [scale for block in range(32) for scale in [1.0 + 0.02 * (block % 7)] * 10]
    device = ScriptedDevice(samples={_FAST: noisy})

    (timing,) = _in_blocks(device, [_FAST], 8, 16, 32)

    assert timing.has_converged is False
    assert timing.whole.reps == 32 * 10
    assert 1.0 < timing.whole.ms < 1.12


def test_a_block_is_no_longer_than_keeps_the_boost_clock() -> None:
    """Ten milliseconds, unless fewer than three calls fit."""
    device = ScriptedDevice(samples={_FAST: [1.0], _SLOW: [20.0]})
    timings = _in_blocks(device, [_FAST, _SLOW], 8)

    assert [timing.whole.reps // 8 for timing in timings] == [10, 3]


def test_unbroken_work_is_queued_ahead_for_a_tenth_of_a_second_at_most() -> None:
    """And what is queued is waited for when enough has been seen."""
    device = ScriptedDevice()
    timer = _call_timer(device)
    with device.gemm(_SLOW, Fill()) as launch, timer.unbroken(Call(launch, "phase"), 11.0) as windows:
        next(windows)

    assert device.queues[-1][1] <= 100.0
    assert device.events[-1] == "windows closed"
