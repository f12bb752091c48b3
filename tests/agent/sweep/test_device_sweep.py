from __future__ import annotations

import pytest

from fleetridge.report import GemmPoint, Roof
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.device.gemm_variants import Fill, Gemm, GemmVariant
from fleetridge_agent.errors import SweepError
from fleetridge_agent.progress import Progress
from fleetridge_agent.readings.evidence import Sample
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.results import SweepResult
from fleetridge_agent.sweep.shapes import reference_gemm
from support.scripted_device import GIB, MIB, ScriptedDevice, described

_BF16 = GemmVariant("bfloat16")
_FEW = SweepOptions(square=(512, 4096), m_sweep=(1, 512))
_JUDGED = SweepOptions(profile="quick")
_REFERENCE = reference_gemm(_BF16, kind="cuda", sm_count=132)


def _roof(result: SweepResult, kernel: str, regime: str = "burst") -> Roof:
    (roof,) = (roof for roof in result.roofs if (roof.kernel, roof.regime) == (kernel, regime))
    return roof


def test_a_sweep_finds_the_roofs_of_the_device() -> None:
    """Both ceilings come out as they are, each with the points that it rests on."""
    result = run_sweep(ScriptedDevice(pi_tflops=800.0, beta_gbps=4400.0), _FEW)

    assert _roof(result, "gemm_reference").value == pytest.approx(800.0)
    assert _roof(result, "gemm_reference", "sustained").value == pytest.approx(800.0)
    assert _roof(result, "gemm_best").value == pytest.approx(800.0)
    for kernel in ("read", "write", "copy", "add", "triad"):
        assert _roof(result, kernel).value == pytest.approx(4400.0)
    assert result.failure is None
    for roof in result.roofs:
        (position,) = roof.points
        point = result.points[position]
        rate = point.derived_tflops if isinstance(point, GemmPoint) else point.derived_gbps
        assert roof.value == rate


def test_points_stand_in_the_order_in_which_people_read_them() -> None:
    """Judged shapes, streams, squares, weights, the best: whatever order they were measured in."""
    result = run_sweep(ScriptedDevice(), _FEW)

    names = [point.label or point.M if isinstance(point, GemmPoint) else point.kernel for point in result.points]
    assert names == [
        *("reference", "reference", "read", "write", "copy", "add", "triad", "h2d", "d2h", 512, 512, 4096),
        # A single row is replayed, hence cold and warm; 512 rows take long enough to be timed alone in the last two.
        *("fused QKV" for _ in range(4)),
        *("o_proj" for _ in range(4)),
        *("gate+up" for _ in range(3)),
        *("down_proj" for _ in range(3)),
        "best",
    ]


def test_streams_count_every_byte_that_they_read_or_write() -> None:
    """A copy moves its buffer twice, an addition and a triad three times."""
    result = run_sweep(ScriptedDevice(), SweepOptions(mode="bandwidth", profile="quick", buffer_mib=1024))

    moved = {point.kernel: point.bytes // GIB for point in result.points if not isinstance(point, GemmPoint)}
    assert moved == {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}


def test_a_slow_first_call_does_not_move_a_roof() -> None:
    """2700 ms once and 0.5 ms from then on is a rate from 0.5 ms."""
    device = ScriptedDevice(samples={_REFERENCE: [2700.0, 0.5]})

    roof = _roof(run_sweep(device, _JUDGED), "gemm_reference")

    assert roof.value == pytest.approx(2 * 4608 * 5632 * 13568 / 0.5e-3 / 1e12)


def test_a_wild_sample_in_the_midst_does_not_move_a_roof() -> None:
    """2700 ms once among samples of 0.1 ms."""
    wild = [0.1] * 100 + [2700.0] + [0.1] * 50
    device = ScriptedDevice(samples={_REFERENCE: wild, "read": wild})

    result = run_sweep(device, _JUDGED)

    assert _roof(result, "gemm_reference").converged
    assert _roof(result, "read").value == pytest.approx(4 * GIB / 0.1e-3 / 1e9)


def test_a_roof_carries_its_interval_and_whether_it_converged() -> None:
    """In the unit of its value, around it."""
    roof = _roof(run_sweep(ScriptedDevice(), _JUDGED), "gemm_reference")

    assert (roof.ci_low, roof.ci_high) == (pytest.approx(800.0), pytest.approx(800.0))
    assert roof.converged is True


def test_a_drifting_clock_is_told_in_every_way_that_there_is() -> None:
    """Blocks that slow down by a third of a per cent each: falling, unstable, and the roof where it ended."""
    blocks_ms = [[1.0 + 0.003 * block] * 10 for block in range(32)]
    device = ScriptedDevice(samples={_REFERENCE: [1.0] * 2 + [ms for block in blocks_ms for ms in block]})

    result = run_sweep(device, _JUDGED)

    assert {note.reason for note in result.notes} == {"falling", "unstable"}
    assert result.evidence.unstable is True
    assert _roof(result, "gemm_reference").value == pytest.approx(2 * 4608 * 5632 * 13568 / 1.093e-3 / 1e12)


def test_two_states_of_the_clock_are_both_reported() -> None:
    """Blocks at 0.8 ms and at 1 ms: the value is that of the more frequent, and a sentence has both."""
    slow = [1.0] * 10
    fast = [0.8] * 12
    states = [sample for block in range(32) for sample in (fast if block % 3 == 0 else slow)]
    device = ScriptedDevice(samples={"read": [0.8] * 2 + states})

    result = run_sweep(device, _JUDGED)

    assert _roof(result, "read").value == pytest.approx(4 * GIB / 1e-3 / 1e9)
    (note,) = (note for note in result.notes if note.reason == "two_states")
    assert "5369" in note.detail
    assert "4295" in note.detail


def test_judged_roofs_of_a_gpu_are_bursts_and_those_of_a_cpu_are_not_called_so() -> None:
    """Nobody keeps a CPU's boost clock apart from its load."""
    gpu = run_sweep(ScriptedDevice(), _JUDGED)
    cpu = run_sweep(
        ScriptedDevice(
            described(kind="cpu", burst_regime="unspecified", has_replay=False, has_link=False),
        ),
        _JUDGED,
    )

    assert {roof.regime for roof in gpu.roofs} == {"burst"}
    assert {roof.regime for roof in cpu.roofs} == {"unspecified"}


def test_float32_with_and_without_tf32_are_two_roofs() -> None:
    """And the report says that the switch was off for what is called float32."""
    device = ScriptedDevice()

    result = run_sweep(device, SweepOptions(profile="quick", dtypes=("float32", "tf32")))

    keys = {roof.key for roof in result.roofs if roof.kernel == "gemm_reference"}
    assert {key.dtype for key in keys} == {"float32", "tf32"}
    assert device.description.environment.allow_tf32 is False


def test_both_ways_to_accumulate_float8_are_roofs_of_their_own() -> None:
    """With their output dtype, which is wider than their input."""
    result = run_sweep(ScriptedDevice(), SweepOptions(profile="quick", mode="gemm", dtypes=("float8_e4m3fn",)))

    assert [(roof.fast_accumulation, roof.out_dtype) for roof in result.roofs] == [
        (False, "bfloat16"),
        (True, "bfloat16"),
    ]


def test_operands_are_filled_as_asked_and_the_report_says_how() -> None:
    """Zeros draw less power than random numbers, so they are never mixed silently."""
    device = ScriptedDevice()

    result = run_sweep(device, SweepOptions(profile="quick", fill=Fill("zeros", seed=9)))

    assert device.fills == {Fill("zeros", seed=9)}
    assert (result.sweep.fill, result.sweep.seed) == ("zeros", 9)


def test_a_shape_that_does_not_fit_is_left_out_and_the_sweep_goes_on() -> None:
    """With a note that says which and why, and the memory given back."""
    # The judged shape and the streams come first.
    options = SweepOptions(profile="quick", square=(4096, 8192), m_sweep=())
    device = ScriptedDevice(out_of_memory_at=frozenset({3}))

    result = run_sweep(device, options)

    assert [note.reason for note in result.notes] == ["out_of_memory"]
    assert len(result.points) == 1 + 5 + 1
    assert result.failure is None
    assert "release" in device.events


def test_a_shape_that_would_take_most_of_the_memory_is_not_even_tried() -> None:
    """Half of what is free is left to others."""
    device = ScriptedDevice(free=2 * GIB)

    options = SweepOptions(profile="quick", mode="gemm", square=(1024, 32768), m_sweep=())
    result = run_sweep(device, options)

    assert max(gemm.m for gemm in device.allocations if isinstance(gemm, Gemm)) == 4608
    assert "GiB" in result.notes[0].detail


def test_stream_buffers_that_do_not_fit_are_halved_and_no_standard_measurement() -> None:
    """The bandwidth is measured with what fits, the report says with what, and no fleet median takes it."""
    device = ScriptedDevice(largest_buffer_bytes=1024 * MIB)

    result = run_sweep(device, SweepOptions(mode="bandwidth"))

    assert _roof(result, "read").value == pytest.approx(4400.0)
    assert result.sweep.buffer_bytes == 1024 * MIB
    assert [note.reason for note in result.notes] == ["out_of_memory"]
    assert not result.is_standard


def test_stream_buffers_that_little_free_memory_makes_small_are_no_standard_measurement() -> None:
    """They depend on the day, and the judged ones on the device alone."""
    result = run_sweep(ScriptedDevice(free=8 * GIB), SweepOptions(mode="bandwidth"))

    assert result.sweep.buffer_bytes == 2 * GIB
    assert not result.is_standard


def test_stream_buffers_never_shrink_into_the_cache() -> None:
    """Rather no bandwidth than that of the cache."""
    device = ScriptedDevice(largest_buffer_bytes=100 * MIB)

    result = run_sweep(device, SweepOptions(mode="bandwidth", profile="quick"))

    assert result.points == ()
    assert min(size for size in device.allocations if isinstance(size, int)) >= 4 * 60 * MIB


def test_a_dtype_that_the_device_lacks_is_left_out_once_and_for_all() -> None:
    """One note instead of one for each of its shapes, and nothing under another dtype's name."""
    device = ScriptedDevice(unsupported={"float8_e4m3fn": "sm_80 has no float8 units"})

    result = run_sweep(device, SweepOptions(square=(512,), m_sweep=(), dtypes=("bfloat16", "float8_e4m3fn")))

    assert {note.detail for note in result.notes} == {"sm_80 has no float8 units"}
    assert len(result.notes) == 2  # with and without fast accumulation
    assert {point.dtype for point in result.points if isinstance(point, GemmPoint)} == {"bfloat16"}
    assert result.failure is None


def test_a_broken_device_ends_the_sweep_and_leaves_what_was_measured() -> None:
    """Nothing more is asked of a device that has lost its context."""
    device = ScriptedDevice(fault_at=5)

    result = run_sweep(device, _FEW)

    assert result.failure is not None
    assert result.failure.reason == "ecc_uncorrectable"
    assert _roof(result, "gemm_reference").value == pytest.approx(800.0)
    assert len(result.points) == 1 + 5
    assert len(device.allocations) == 5


def test_a_wrong_product_ends_the_sweep_whatever_its_rate() -> None:
    """A device that multiplies wrongly has no roof."""
    result = run_sweep(ScriptedDevice(wrong=frozenset({"bfloat16"})), _FEW)

    assert result.failure is not None
    assert result.failure.reason == "wrong_output"
    assert result.points == ()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SweepError("the driver broke", reason="device_fault"), "device_fault"),
        (KeyboardInterrupt(), "interrupted"),
        (ZeroDivisionError("division by zero"), "crashed"),
    ],
)
def test_whatever_ends_a_sweep_early_leaves_what_was_measured(
    error: BaseException, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the result says what it was."""

    def break_at_the_fourth(progress: Progress) -> None:
        if progress.step == 4:
            raise error

    with caplog.at_level("CRITICAL"):
        result = run_sweep(ScriptedDevice(), _FEW, break_at_the_fourth)

    assert result.failure is not None
    assert result.failure.reason == reason
    assert len(result.points) == 1 + 5 + 1


def test_a_sweep_says_what_it_is_about_to_do() -> None:
    """Each step once, counted from one."""
    told: list[Progress] = []

    run_sweep(ScriptedDevice(), _JUDGED, told.append)

    assert [(progress.step, progress.steps) for progress in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[0].text == "reference bfloat16"


def test_roofs_carry_the_clock_and_power_under_which_they_were_measured() -> None:
    """Readings are taken inside the timed phases, and each phase is in the evidence."""

    class Steady:
        def sample(self) -> Sample:
            return Sample(sm_clock_mhz=1980.0, power_w=412.5, temperature_c=52.0)

        def throttle_ms(self) -> dict[str, float]:
            return {}

    result = run_sweep(ScriptedDevice(telemetry=Steady()), SweepOptions(m_sweep=()))

    sustained, burst = _roof(result, "gemm_reference", "sustained"), _roof(result, "gemm_reference")
    assert (sustained.sm_clock_mhz, sustained.power_w) == (1980.0, 412.5)
    # A sensor of power needs longer than a burst lasts, and a wrong figure is worse than none.
    assert (burst.sm_clock_mhz, burst.power_w) == (1980.0, None)
    assert {phase.phase for phase in result.evidence.phases} >= {"reference bfloat16", "stream read"}


_SOMEBODY = ForeignUse(processes=2, bytes=5 * GIB, signals=("processes",))


def test_in_forced_company_a_gpu_is_measured_and_marked() -> None:
    """As a count and memory, and as the word that keeps the result out of every median."""
    result = run_sweep(ScriptedDevice(foreign=_SOMEBODY), SweepOptions(profile="quick", force=True))

    evidence = result.evidence
    assert result.failure is None
    assert (evidence.other_processes, evidence.other_processes_bytes, evidence.contended) == (2, 5 * GIB, True)


def test_company_that_only_showed_before_the_gpu_was_opened_is_marked_too() -> None:
    """Whoever could be seen by memory or utilization only."""
    result = run_sweep(ScriptedDevice(), SweepOptions(profile="quick", force=True), is_contended=True)

    assert result.evidence.contended is True


@pytest.mark.parametrize("queues", [3, 20, 40])
def test_when_somebody_arrives_nothing_more_is_queued_and_memory_is_given_back(
    monkeypatch: pytest.MonkeyPatch, queues: int
) -> None:
    """The sweep ends where it is, keeps what it has, and says why."""
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    device = ScriptedDevice(arrives_after=queues)

    result = run_sweep(device, SweepOptions())

    assert result.failure is not None
    assert result.failure.reason == "preempted"
    assert result.evidence.contended is True
    # What was queued in one piece when they came was still waited for.
    assert len(device.queues) <= queues + 1
    assert device.events[-1] == "release"


_ALL_JUDGED = ["gemm_reference", "read"]


def _judged_kernels(result: SweepResult) -> list[str | None]:
    return [roof.kernel for roof in result.roofs if roof.kernel in _ALL_JUDGED and roof.regime == "burst"]


def _queues_of_judged_roofs() -> int:
    """Queues of work that a device is given until all judged burst and memory roofs are found."""
    device, queues = ScriptedDevice(), [0]
    run_sweep(
        device, SweepOptions(), lambda progress: queues.append(len(device.queues)) if progress.step == 3 else None
    )
    return queues[-1]


def test_judged_roofs_that_were_whole_before_somebody_came_are_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody shared the gpu with them; that the rest was given up is noted."""
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    nobody = ForeignUse(processes=0, bytes=0, signals=("processes",))
    device = ScriptedDevice(arrives_after=_queues_of_judged_roofs() + 5, foreign=nobody)

    result = run_sweep(device, SweepOptions())

    assert (result.failure, result.is_cut_short) == (None, True)
    assert _judged_kernels(result) == _ALL_JUDGED
    assert (result.evidence.contended, result.evidence.other_processes) == (False, 0)
    assert [(note.what, note.reason) for note in result.notes] == [("the rest of the sweep", "preempted")]
    assert "given up: somebody else" in result.notes[0].detail
    assert device.events[-1] == "release"


def test_a_judged_roof_behind_whose_last_block_somebody_is_found_does_not_count() -> None:
    """They may have come while it was measured, between two looks."""
    device = ScriptedDevice(arrives_after=_queues_of_judged_roofs(), foreign=ForeignUse(0, 0, ("processes",)))

    result = run_sweep(device, SweepOptions())

    assert result.failure is not None
    assert result.failure.reason == "preempted"
    assert _judged_kernels(result) == ["gemm_reference"]
    assert result.evidence.contended is True


def test_a_product_that_the_chip_does_not_have_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """All judged roofs that there are were found."""
    monkeypatch.setattr("fleetridge_agent.busy.foreign_use._WATCH_INTERVAL_S", 0.0)
    device = ScriptedDevice(
        arrives_after=_queues_of_judged_roofs() + 5, unsupported={"int8": "the chip has no such product"}
    )

    result = run_sweep(device, SweepOptions(dtypes=("bfloat16", "int8")))

    assert result.failure is None
    assert _judged_kernels(result) == _ALL_JUDGED


def test_memory_is_given_back_at_the_end() -> None:
    """Nothing stays allocated for whoever comes next to miss."""
    device = ScriptedDevice()
    run_sweep(device, _JUDGED)

    assert device.events[-1] == "release"


def test_time_runs_forward_through_a_sweep() -> None:
    """The report's end never lies before its beginning."""
    result = run_sweep(ScriptedDevice(), _JUDGED)

    assert result.measured_from <= result.measured_to
    assert result.measured_from.tzinfo is not None
