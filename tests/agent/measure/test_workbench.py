from __future__ import annotations

from fleetridge_agent.device.contract import Fill
from fleetridge_agent.device.product import Gemm, Product
from fleetridge_agent.measure.evidence import EvidenceLog
from fleetridge_agent.measure.pace import Pace
from fleetridge_agent.measure.timing import BlockTiming, Timing
from fleetridge_agent.measure.workbench import Call, Workbench
from support.scripted_device import ScriptedDevice

_FAST = Gemm(1024, 1024, 1024, Product("bfloat16"))
_SLOW = Gemm(16384, 16384, 16384, Product("float32"))


def _bench(device: ScriptedDevice, pace: Pace | None = None) -> Workbench:
    return Workbench(device, Fill(), pace or Pace(warmup=10, reps=25, budget_ms=2000.0), EvidenceLog(None))


def _measured(device: ScriptedDevice, gemm: Gemm, pace: Pace | None = None) -> Timing:
    with device.gemm(gemm, Fill()) as launch:
        return _bench(device, pace).measure(Call(launch, "phase"))


def _in_blocks(device: ScriptedDevice, gemms: list[Gemm], blocks: int) -> list[BlockTiming]:
    calls = []
    for gemm in gemms:
        with device.gemm(gemm, Fill()) as launch:
            calls.append(Call(launch, "phase"))
    return _bench(device).measure_blocks(calls, blocks=blocks)


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
    _in_blocks(device, [_FAST, _SLOW], blocks=2)

    assert max(queued_ms for _, queued_ms in device.queues) <= 100.0


def test_a_call_that_takes_longer_than_that_is_queued_alone() -> None:
    """It cannot be cut."""
    device = ScriptedDevice(pi_tflops=40.0)
    _measured(device, _SLOW)

    assert {round(queued_ms / 220) for _, queued_ms in device.queues} == {1}


def test_blocks_take_turns_and_every_other_round_goes_backwards() -> None:
    """A slow drift then meets all shapes alike."""
    device = ScriptedDevice()
    small = Gemm(512, 512, 512, Product("bfloat16"))
    _in_blocks(device, [_FAST, small], blocks=3)

    start = device.events.index("rest 0.15")
    timed = [event for event in device.events[start:] if event.startswith("time")]
    sizes = [1024 if "1024" in event else 512 for event in timed]
    assert sizes == [1024, 512, 512, 1024, 1024, 512]


def test_the_device_rests_before_every_block() -> None:
    """So that each block starts from the same clock and power."""
    device = ScriptedDevice()
    _in_blocks(device, [_FAST], blocks=5)

    assert device.events.count("rest 0.15") == 5


def test_the_device_works_for_a_while_before_the_first_block() -> None:
    """An idle gpu needs some 300 ms of work to reach its clock."""
    device = ScriptedDevice()
    _in_blocks(device, [_FAST], blocks=1)

    before = device.events[: device.events.index("rest 0.15")]
    calls = sum(int(event.split()[-1]) for event in before if event.startswith("run"))
    assert calls * 2 * 1024**3 / 800e12 * 1e3 >= 300


def test_a_device_that_slows_down_shows_it_in_its_blocks() -> None:
    """First and last block differ, and the time is that of the middle."""
    slowing = [1.0] * 2 + [1.0] * 25 + [1.1] * 25 + [1.2] * 25
    device = ScriptedDevice(samples={_FAST: slowing})

    (timing,) = _in_blocks(device, [_FAST], blocks=3)

    assert (timing.first_ms, timing.whole.ms, timing.last_ms) == (1.0, 1.1, 1.2)
