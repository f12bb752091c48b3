from __future__ import annotations

import pytest

from fleetridge_agent.device.gemm_variants import Fill
from fleetridge_agent.errors import UsageError
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.plan import (
    CanaryStep,
    DecodeStep,
    LinkStep,
    ReferenceStep,
    SearchStep,
    ShapeStep,
    StreamStep,
    SustainedStep,
    SweepPlan,
    plan_sweep,
)
from support.scripted_device import GIB, MIB, described

_CPU = described(
    kind="cpu",
    default_dtype="float32",
    cache_bytes=32 * MIB,
    burst_regime="unspecified",
    has_replay=False,
    has_link=False,
)


def _plan(options: SweepOptions | None = None, *, free_bytes: int = 140 * GIB) -> SweepPlan:
    return plan_sweep(options or SweepOptions(), described(), free_bytes=free_bytes)


def _buffer_bytes(plan: SweepPlan) -> int:
    (step,) = (step for step in plan.steps if isinstance(step, StreamStep))
    return step.buffer_bytes


def _kinds(options: SweepOptions) -> list[type]:
    return [type(step) for step in _plan(options).steps]


def test_the_judged_roofs_of_rested_devices_come_before_everything_else() -> None:
    """Judged roofs are measured in the same state of the device, whatever else was asked for."""
    for profile in ("quick", "standard", "full"):
        options = SweepOptions(profile=profile, dtypes=("bfloat16", "float16"))
        assert _kinds(options)[:3] == [ReferenceStep, ReferenceStep, StreamStep]


def test_every_profile_measures_what_it_shares_with_another_alike() -> None:
    """The same products, buffers and pace in all three profiles."""
    plans = [_plan(SweepOptions(profile=profile, dtypes=("bfloat16",))) for profile in ("quick", "standard", "full")]

    assert len({plan.steps[:2] for plan in plans}) == 1
    assert plans[1].steps[2:5] == plans[2].steps[2:5]
    assert len({plan.pace for plan in plans}) == 1


def test_a_quick_sweep_measures_the_judged_roofs_of_a_rested_device_and_looks_again() -> None:
    """No shapes, no search, nothing sustained."""
    assert _kinds(SweepOptions(profile="quick")) == [ReferenceStep, StreamStep, CanaryStep]


def test_a_standard_sweep_adds_the_fastest_shape_the_sustained_roof_and_decode_steps() -> None:
    """One step for each of the four weights of a layer, in random order."""
    kinds = _kinds(SweepOptions())

    assert kinds[2:5] == [SearchStep, LinkStep, SustainedStep]
    assert kinds[5:] == [DecodeStep] * 4 + [CanaryStep]


def test_a_standard_sweep_has_every_small_batch_of_every_weight() -> None:
    """From one row to 128, each of which is measured with a cold and with a warm cache."""
    rows = {step.gemm.m for step in _plan().shapes}

    assert rows == {1, 2, 4, 8, 16, 32, 64, 128}


def test_shapes_that_are_given_are_measured_in_every_profile() -> None:
    """The option means what it says."""
    plan = _plan(SweepOptions(profile="quick", square=(64,), m_sweep=(512,)))

    assert [step.gemm.m for step in plan.shapes] == [64, 512, 512, 512, 512]


def test_the_decode_steps_of_one_weight_share_its_copies() -> None:
    """Larger batches stand alone."""
    steps = _plan(SweepOptions(square=(), m_sweep=(1, 128, 129))).steps
    decode = [step for step in steps if isinstance(step, DecodeStep)]

    assert all([shape.gemm.m for shape in step.shapes] == [1, 128] for step in decode)
    assert sum(isinstance(step, ShapeStep) for step in steps) == len(decode) == 4


def test_squares_and_the_models_shapes_are_measured_as_given() -> None:
    """Every size once, and every weight with every number of rows, in the order in which people read them."""
    plan = _plan(SweepOptions(square=(64, 32), m_sweep=(1, 8)))

    sizes = [(step.label, step.gemm.m, step.gemm.k, step.gemm.n) for step in plan.shapes]
    assert sizes[:4] == [
        (None, 64, 64, 64),
        (None, 32, 32, 32),
        ("fused QKV", 1, 4096, 6144),
        ("fused QKV", 8, 4096, 6144),
    ]
    assert len(sizes) == 2 + 4 * 2


@pytest.mark.parametrize("options", [SweepOptions(profile="full", dtypes=("bfloat16",)), SweepOptions(all_shapes=True)])
def test_all_shapes_are_those_from_small_to_large(options: SweepOptions) -> None:
    """Squares from 512 to 16384, and one to 16384 rows through the four weights of Llama-3.1-8B."""
    plan = _plan(options)

    assert [step.gemm.m for step in plan.shapes if step.label is None] == [512, 1024, 2048, 4096, 8192, 16384]
    assert {step.gemm.m for step in plan.shapes if step.label == "down_proj"} >= {1, 345, 16384}
    assert len(plan.shapes) == 6 + 4 * 12


def test_shapes_are_measured_in_an_order_that_the_seed_decides() -> None:
    """No shape always follows the same other one hot, yet a run can be repeated exactly."""
    first, again, other = (_plan(SweepOptions(all_shapes=True, fill=Fill(seed=seed))) for seed in (1, 1, 2))
    ordered, reordered = ([step for step in plan.steps if isinstance(step, ShapeStep)] for plan in (first, other))

    assert first == again
    assert ordered != reordered
    assert set(ordered) == set(reordered)


def test_splitting_a_model_over_gpus_splits_its_shapes() -> None:
    """With two gpus each has half of the columns of the first weight and half of the rows of the second."""
    plan = _plan(SweepOptions(square=(), m_sweep=(1,), tensor_parallel=2))

    assert [(step.gemm.k, step.gemm.n) for step in plan.shapes[:2]] == [(4096, 3072), (2048, 4096)]


def test_float8_is_measured_with_and_without_fast_accumulation() -> None:
    """They are roofs of their own, never one under the other's name."""
    plan = _plan(SweepOptions(dtypes=("float8_e4m3fn",), profile="quick", mode="gemm"))

    references = [step.gemm.variant for step in plan.steps if isinstance(step, ReferenceStep)]
    assert [variant.fast_accumulation for variant in references] == [False, True]


def test_a_full_sweep_measures_every_dtype_the_devices_own_first() -> None:
    """All of them once."""
    dtypes = _plan(SweepOptions(profile="full")).wire.dtypes

    assert dtypes[0] == "bfloat16"
    assert sorted(dtypes) == ["bfloat16", "float16", "float32", "float8_e4m3fn", "int8", "tf32"]


@pytest.mark.parametrize(("mode", "excluded"), [("gemm", StreamStep), ("bandwidth", ReferenceStep)])
def test_half_a_roofline_can_be_measured(mode: str, excluded: type) -> None:
    """A mode leaves the other half out."""
    plan = _plan(SweepOptions(mode=mode, square=(64,), m_sweep=(1,)))  # type: ignore[arg-type] # parametrised

    assert plan.steps
    assert not any(isinstance(step, excluded) for step in plan.steps)


@pytest.mark.parametrize(
    ("cache_mib", "memory_gib", "buffer_mib"),
    [(60, 141, 4096), (512, 141, 8192), (72, 23.5, 2048), (40, 79, 4096), (4, 8, 1024), (60, 4, 960)],
)
def test_stream_buffers_follow_from_the_device_alone(cache_mib: int, memory_gib: float, buffer_mib: int) -> None:
    """4 GiB where six of them fit the memory, else the next power of two; 16 times the cache where that is more."""
    gpu = described().gpu.model_copy(update={"memory_bytes": int(memory_gib * GIB)})

    plan = plan_sweep(SweepOptions(), described(cache_bytes=cache_mib * MIB, gpu=gpu), free_bytes=140 * GIB)

    assert _buffer_bytes(plan) == buffer_mib * MIB


def test_stream_buffers_leave_memory_to_others_and_are_then_not_the_judged_ones() -> None:
    """A quarter of what is free, beside the size that the protocol asks for."""
    (step,) = (step for step in _plan(free_bytes=8 * GIB).steps if isinstance(step, StreamStep))

    assert (step.buffer_bytes, step.standard_bytes) == (2 * GIB, 4 * GIB)


def test_the_user_may_choose_the_size_of_stream_buffers() -> None:
    """Exactly as given, and reported."""
    plan = _plan(SweepOptions(buffer_mib=1000))

    assert _buffer_bytes(plan) == plan.wire.buffer_bytes == 1000 * MIB


def test_a_cpu_is_measured_with_sizes_that_it_can_do() -> None:
    """Everything is much smaller than on a gpu, and of the dtype that CPUs are built for."""
    plan = plan_sweep(SweepOptions(all_shapes=True), _CPU, free_bytes=16 * GIB)

    assert not {SearchStep, LinkStep, SustainedStep} & {type(step) for step in plan.steps}
    assert {step.gemm.variant.dtype for step in plan.shapes} == {"float32"}
    assert max(step.gemm.m for step in plan.shapes) <= 2048
    assert _buffer_bytes(plan) == 512 * MIB


@pytest.mark.parametrize(
    "options",
    [SweepOptions(dtypes=("float23",)), SweepOptions(model="no/such"), SweepOptions(tensor_parallel=3)],
)
def test_what_cannot_be_measured_is_refused_with_what_could(options: SweepOptions) -> None:
    """The message names the choices."""
    with pytest.raises(UsageError, match="choose"):
        _plan(options)


@pytest.mark.parametrize(
    ("options", "is_standard"),
    [
        (SweepOptions(), True),
        (SweepOptions(reps=25, warmup=10), True),
        (SweepOptions(fill=Fill(seed=7)), True),
        (SweepOptions(force=True, all_shapes=True), True),
        (SweepOptions(square=(64,), m_sweep=(1,), dtypes=("float16",), profile="full", mode="gemm"), True),
        (SweepOptions(reps=5), False),
        (SweepOptions(warmup=0), False),
        (SweepOptions(buffer_mib=1024), False),
        (SweepOptions(fill=Fill("zeros")), False),
    ],
)
def test_only_options_that_touch_a_judged_roof_make_the_method_custom(options: SweepOptions, is_standard: bool) -> None:
    """Results with changed repetitions, buffers or operands are never mixed with the others."""
    assert options.is_standard is is_standard


def test_the_report_says_what_was_asked_for() -> None:
    """Including what stood in for options that were not given, and the fill of the operands with its seed."""
    wire = _plan(SweepOptions(fill=Fill(seed=3), reps=7)).wire

    assert (wire.profile, wire.dtypes, wire.reps, wire.warmup) == ("standard", ("bfloat16",), 7, 10)
    assert (wire.fill, wire.seed, wire.buffer_bytes) == ("normal", 3, 4 * GIB)
    assert wire.m_sweep[-1] == 128


def test_the_report_lists_no_shapes_that_were_not_asked_for() -> None:
    """A quick sweep has none, and none were measured where the user gave none."""
    assert _plan(SweepOptions(profile="quick")).wire.square == ()
    assert _plan(SweepOptions(square=(), m_sweep=(1,))).wire.square == ()
