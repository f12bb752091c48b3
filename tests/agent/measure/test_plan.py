from __future__ import annotations

import pytest

from fleetridge_agent.device.contract import Fill
from fleetridge_agent.errors import UsageError
from fleetridge_agent.measure.plan import BestStep, ReferenceStep, ShapeStep, StreamStep, SweepPlan, plan_sweep
from fleetridge_agent.measure.sweep_options import SweepOptions
from support.scripted_device import GIB, MIB, described

_CPU = described(kind="cpu", default_dtype="float32", cache_bytes=32 * MIB, burst_regime="unspecified")


def _plan(options: SweepOptions | None = None, *, free_bytes: int = 140 * GIB) -> SweepPlan:
    return plan_sweep(options or SweepOptions(), described(), free_bytes=free_bytes)


def _buffer_bytes(plan: SweepPlan) -> int:
    (step,) = (step for step in plan.steps if isinstance(step, StreamStep))
    return step.buffer_bytes


def test_the_judged_roofs_come_before_everything_else() -> None:
    """Judged roofs are measured in the same state of the device, whatever else was asked for."""
    kinds = [type(step) for step in _plan().steps]

    assert kinds[:2] == [ReferenceStep, StreamStep]
    assert set(kinds[2:-1]) == {ShapeStep}
    assert kinds[-1] is BestStep


def test_every_profile_measures_the_judged_roofs_alike() -> None:
    """The same products, buffers and pace in all three profiles."""
    plans = [_plan(SweepOptions(profile=profile, dtypes=("bfloat16",))) for profile in ("quick", "standard", "full")]

    assert len({plan.steps[:2] for plan in plans}) == 1
    assert len({plan.pace for plan in plans}) == 1


def test_a_quick_sweep_measures_the_judged_roofs_only() -> None:
    """No shapes, and no search for the best of them."""
    assert [type(step) for step in _plan(SweepOptions(profile="quick")).steps] == [ReferenceStep, StreamStep]


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


def test_without_options_a_gpu_is_measured_from_small_to_large() -> None:
    """Squares from 512 to 16384, and one to 16384 rows through the four weights of Llama-3.1-8B."""
    plan = _plan()

    assert [step.gemm.m for step in plan.shapes if step.label is None] == [512, 1024, 2048, 4096, 8192, 16384]
    assert {step.gemm.m for step in plan.shapes if step.label == "down_proj"} >= {1, 345, 16384}
    assert len(plan.shapes) == 6 + 4 * 12


def test_shapes_are_measured_in_an_order_that_the_seed_decides() -> None:
    """No shape always follows the same other one hot, yet a run can be repeated exactly."""
    first, again, other = (_plan(SweepOptions(fill=Fill(seed=seed))).steps for seed in (1, 1, 2))

    assert first == again
    assert first != other
    assert set(first) == set(other)


def test_splitting_a_model_over_gpus_splits_its_shapes() -> None:
    """With two gpus each has half of the columns of the first weight and half of the rows of the second."""
    plan = _plan(SweepOptions(square=(), m_sweep=(1,), tensor_parallel=2))

    assert [(step.gemm.k, step.gemm.n) for step in plan.shapes[:2]] == [(4096, 3072), (2048, 4096)]


def test_float8_is_measured_with_and_without_fast_accumulation() -> None:
    """They are roofs of their own, never one under the other's name."""
    plan = _plan(SweepOptions(dtypes=("float8_e4m3fn",), profile="quick", mode="gemm"))

    assert [step.product.fast_accumulation for step in plan.steps if isinstance(step, ReferenceStep)] == [False, True]


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
    ("cache_mib", "free_gib", "buffer_mib"),
    [(60, 140, 4096), (512, 140, 8192), (60, 8, 2048), (4, 1, 256)],
)
def test_stream_buffers_exceed_the_cache_many_times_and_leave_memory_to_others(
    cache_mib: int, free_gib: int, buffer_mib: int
) -> None:
    """4 GiB, or 16 times the cache where that is more, but never more than a quarter of what is free."""
    description = described(cache_bytes=cache_mib * MIB)

    plan = plan_sweep(SweepOptions(), description, free_bytes=free_gib * GIB)

    assert _buffer_bytes(plan) == buffer_mib * MIB


def test_the_user_may_choose_the_size_of_stream_buffers() -> None:
    """Exactly as given, and reported."""
    plan = _plan(SweepOptions(buffer_mib=1000))

    assert _buffer_bytes(plan) == plan.wire.buffer_bytes == 1000 * MIB


def test_a_cpu_is_measured_with_sizes_that_it_can_do() -> None:
    """Everything is much smaller than on a gpu, and of the dtype that CPUs are built for."""
    plan = plan_sweep(SweepOptions(), _CPU, free_bytes=16 * GIB)

    assert {step.gemm.product.dtype for step in plan.shapes} == {"float32"}
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
    ("options", "method"),
    [
        (SweepOptions(), "standard"),
        (SweepOptions(reps=25, warmup=10), "standard"),
        (SweepOptions(fill=Fill(seed=7)), "standard"),
        (SweepOptions(square=(64,), m_sweep=(1,), dtypes=("float16",), profile="full", mode="gemm"), "standard"),
        (SweepOptions(reps=5), "custom"),
        (SweepOptions(warmup=0), "custom"),
        (SweepOptions(buffer_mib=1024), "custom"),
        (SweepOptions(fill=Fill("zeros")), "custom"),
    ],
)
def test_only_options_that_touch_a_judged_roof_make_the_method_custom(options: SweepOptions, method: str) -> None:
    """Results with changed repetitions, buffers or operands are never mixed with the others."""
    assert options.method == method


def test_the_report_says_what_was_asked_for() -> None:
    """Including what stood in for options that were not given, and the fill of the operands with its seed."""
    wire = _plan(SweepOptions(fill=Fill(seed=3), reps=7)).wire

    assert (wire.profile, wire.dtypes, wire.reps, wire.warmup) == ("standard", ("bfloat16",), 7, 10)
    assert (wire.fill, wire.seed, wire.buffer_bytes) == ("normal", 3, 4 * GIB)
    assert wire.square[-1] == 16384


def test_the_report_lists_no_shapes_that_were_not_asked_for() -> None:
    """A quick sweep has none, and none were measured where the user gave none."""
    assert _plan(SweepOptions(profile="quick")).wire.square == ()
    assert _plan(SweepOptions(square=(), m_sweep=(1,))).wire.square == ()
