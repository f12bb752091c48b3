from __future__ import annotations

import pytest

from fleetridge.report import GemmPoint, Roof
from fleetridge_agent.device.contract import Fill, ForeignUse, Sample
from fleetridge_agent.device.product import Gemm, Product
from fleetridge_agent.errors import SweepError
from fleetridge_agent.measure.reference_shapes import reference_gemms
from fleetridge_agent.measure.sweep import Progress, SweepResult, run_sweep
from fleetridge_agent.measure.sweep_options import SweepOptions
from support.scripted_device import GIB, MIB, ScriptedDevice, described

_BF16 = Product("bfloat16")
_FEW = SweepOptions(square=(512, 4096), m_sweep=(1, 512))
_JUDGED = SweepOptions(profile="quick")
_FIRST, _SECOND = reference_gemms(_BF16, kind="cuda", sm_count=132)


def _roof(result: SweepResult, kernel: str, dtype: str | None = None) -> Roof:
    (roof,) = (roof for roof in result.roofs if roof.kernel == kernel and dtype in (None, roof.dtype))
    return roof


def test_a_sweep_finds_the_roofs_of_the_device() -> None:
    """Both ceilings come out as they are, each with the points that it rests on."""
    result = run_sweep(ScriptedDevice(pi_tflops=800.0, beta_gbps=4400.0), _FEW)

    assert _roof(result, "gemm_reference").value == pytest.approx(800.0)
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
        *("reference", "reference", "read", "write", "copy", "add", "triad", 512, 4096),
        *("fused QKV", "fused QKV", "o_proj", "o_proj", "gate+up", "gate+up", "down_proj", "down_proj", "best"),
    ]


def test_streams_count_every_byte_that_they_read_or_write() -> None:
    """A copy moves its buffer twice, an addition and a triad three times."""
    result = run_sweep(ScriptedDevice(), SweepOptions(mode="bandwidth", buffer_mib=1024))

    moved = {point.kernel: point.bytes // GIB for point in result.points if not isinstance(point, GemmPoint)}
    assert moved == {"read": 1, "write": 1, "copy": 2, "add": 3, "triad": 3}


def test_a_slow_first_call_does_not_move_a_roof() -> None:
    """2700 ms once and 0.5 ms from then on is a rate from 0.5 ms."""
    device = ScriptedDevice(samples={gemm: [2700.0, 0.5] for gemm in (_FIRST, _SECOND)})

    roof = _roof(run_sweep(device, _JUDGED), "gemm_reference")

    assert roof.value == pytest.approx(2 * 1536 * 11264 * 13568 / 0.5e-3 / 1e12)


def test_the_better_of_the_judged_shapes_is_the_roof() -> None:
    """A library that picks a bad kernel for one of them does not make the gpu look slow."""
    device = ScriptedDevice(pi_tflops=800.0, samples={_FIRST: [5.0]})

    result = run_sweep(device, _JUDGED)

    roof = _roof(result, "gemm_reference")
    assert roof.value == pytest.approx(800.0)
    assert result.points[roof.points[0]].derived_tflops == roof.value  # type: ignore[union-attr] # a product


def test_a_device_that_falls_within_the_run_is_marked_as_falling() -> None:
    """First and last block are kept, and the trend between them."""
    rates_tflops = (6.6, 6.6, 6.5, 5.6, 5.5, 5.5)
    (gemm,) = reference_gemms(Product("float32"), kind="cpu", sm_count=2)
    flops = 2 * gemm.m * gemm.k * gemm.n
    blocks_ms = [[flops / rate * 1e-9] * 25 for rate in rates_tflops[1:]]
    probes_ms = [flops / rates_tflops[0] * 1e-9] * 2
    device = ScriptedDevice(
        described(kind="cpu", default_dtype="float32", gpu=described().gpu.model_copy(update={"sm_count": 2})),
        samples={gemm: [*probes_ms, *(sample for block in blocks_ms for sample in block)]},
    )

    roof = _roof(run_sweep(device, _JUDGED), "gemm_reference")

    assert roof.value == pytest.approx(5.6)
    assert (roof.first_block, roof.last_block) == (pytest.approx(6.6), pytest.approx(5.5))
    assert roof.trend == pytest.approx(-1.1 / 6.6)


def test_the_best_shape_is_measured_once_more_before_it_counts() -> None:
    """The best of many noisy rates is too good to be true: what it gives the second time is the roof."""
    lucky = Gemm(4096, 4096, 4096, _BF16)
    once_ms, again_ms = 2 * 4096**3 / 950e12 * 1e3, 2 * 4096**3 / 820e12 * 1e3
    device = ScriptedDevice(pi_tflops=800.0, samples={lucky: [once_ms] * 27 + [again_ms]})

    result = run_sweep(device, _FEW)

    assert max(point.derived_tflops for point in result.points if isinstance(point, GemmPoint)) == pytest.approx(950.0)
    assert _roof(result, "gemm_best").value == pytest.approx(820.0)
    assert _roof(result, "gemm_reference").value == pytest.approx(800.0)


def test_judged_roofs_of_a_gpu_are_bursts_and_those_of_a_cpu_are_not_called_so() -> None:
    """Nobody keeps a CPU's boost clock apart from its load."""
    gpu = run_sweep(ScriptedDevice(), _JUDGED)
    cpu = run_sweep(ScriptedDevice(described(kind="cpu", default_dtype="float32", burst_regime="unspecified")), _JUDGED)

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
    # Two judged shapes and the streams come first.
    device = ScriptedDevice(out_of_memory_at=frozenset({4}))

    result = run_sweep(device, _FEW)

    assert [note.reason for note in result.notes] == ["out_of_memory"]
    assert len(result.points) == 2 + 5 + 9 + 1
    assert result.failure is None
    assert "release" in device.events


def test_a_shape_that_would_take_most_of_the_memory_is_not_even_tried() -> None:
    """Half of what is free is left to others."""
    device = ScriptedDevice(free=2 * GIB)

    result = run_sweep(device, SweepOptions(mode="gemm", square=(1024, 32768), m_sweep=()))

    assert max(gemm.m for gemm in device.allocations if isinstance(gemm, Gemm)) == 3072
    assert "GiB" in result.notes[0].detail


def test_stream_buffers_that_do_not_fit_are_halved() -> None:
    """The bandwidth is measured with what fits, and the report says with what."""
    device = ScriptedDevice(largest_buffer_bytes=1024 * MIB)

    result = run_sweep(device, SweepOptions(mode="bandwidth"))

    assert _roof(result, "read").value == pytest.approx(4400.0)
    assert result.sweep.buffer_bytes == 1024 * MIB
    assert [note.reason for note in result.notes] == ["out_of_memory"]


def test_stream_buffers_never_shrink_into_the_cache() -> None:
    """Rather no bandwidth than that of the cache."""
    device = ScriptedDevice(largest_buffer_bytes=100 * MIB)

    result = run_sweep(device, SweepOptions(mode="bandwidth"))

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
    assert len(result.points) == 2 + 5 + 1
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
        (SweepError("somebody else needs the gpu", reason="preempted"), "preempted"),
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
    assert len(result.points) == 2 + 5 + 1


def test_a_sweep_says_what_it_is_about_to_do() -> None:
    """Each step once, counted from one."""
    told: list[Progress] = []

    run_sweep(ScriptedDevice(), _JUDGED, told.append)

    assert [(progress.step, progress.steps) for progress in told] == [(1, 2), (2, 2)]
    assert told[0].text == "reference bfloat16"


def test_roofs_carry_the_clock_and_power_under_which_they_were_measured() -> None:
    """Readings are taken inside the timed phases, and each phase is in the evidence."""

    class Steady:
        def sample(self) -> Sample:
            return Sample(sm_clock_mhz=1980.0, power_w=412.5, temperature_c=52.0)

        def throttle_ms(self) -> dict[str, float]:
            return {}

    result = run_sweep(ScriptedDevice(telemetry=Steady()), _JUDGED)

    roof = _roof(result, "gemm_reference")
    assert (roof.sm_clock_mhz, roof.power_w) == (1980.0, 412.5)
    assert {phase.phase for phase in result.evidence.phases} >= {"reference bfloat16", "stream read"}


def test_other_users_of_the_gpu_are_in_the_evidence() -> None:
    """As a count and their memory, and as the word that keeps the result out of every median."""
    device = ScriptedDevice(foreign=ForeignUse(processes=2, bytes=5 * GIB, signals=("processes",)))

    evidence = run_sweep(device, _JUDGED).evidence

    assert (evidence.other_processes, evidence.other_processes_bytes, evidence.contended) == (2, 5 * GIB, True)


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
