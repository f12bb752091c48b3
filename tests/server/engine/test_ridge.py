"""Ridges of gpus, beside those of their peers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from fleetridge.report import Regime, RoofKey
from fleetridge_server.engine.cohort import GpuValue, is_judged
from fleetridge_server.engine.ridge import (
    Compared,
    Filter,
    GpuRoofs,
    HeldAgainst,
    Ridge,
    gpu_roofs,
    listed,
    measured_since,
    too_few,
)
from fleetridge_server.engine.statistics import distribution
from support.readings import BETA, PI, STANDARD, START, gpu_value

SUSTAINED = PI._replace(regime="sustained")
CUSTOM = replace(STANDARD, method="custom")


def roofs_of(values: Iterable[GpuValue], medians: dict[str, float] | None = None) -> GpuRoofs:
    """What a gpu reaches, held against its own values or against some medians by kind of roof."""
    known, judged, others = medians or {}, [], []
    for own in values:
        if is_judged(own.cohort.roof):
            against = HeldAgainst(4, known.get(own.cohort.roof.kind, own.value))
            judged.append(Compared(own, against, distribution([own.value])))
        else:
            others.append(own)
    return gpu_roofs("a", judged, others)


def only_ridge(*values: GpuValue) -> Ridge:
    """The one ridge of a gpu."""
    [ridge] = roofs_of(values).ridges
    return ridge


def beta_of(*values: GpuValue) -> float | None:
    """The beta with which a gpu makes its one ridge."""
    ridge = only_ridge(*values)
    return None if ridge.beta is None else ridge.beta.own.value


def test_the_ridge_is_pi_over_beta() -> None:
    """845 TFLOP/s over 4430 GB/s is 190.7 FLOP/byte."""
    ridge = only_ridge(gpu_value("a", 845.0), gpu_value("a", 4430.0, roof=BETA))

    assert ridge.flop_per_byte == pytest.approx(190.745, abs=1e-3)


def test_without_a_beta_there_is_no_ridge_point() -> None:
    """Pi is still compared."""
    ridge = only_ridge(gpu_value("a", 845.0))

    assert (ridge.flop_per_byte, ridge.pi.own.value) == (None, 845.0)


@pytest.mark.parametrize(
    ("pi", "betas", "taken"),
    [
        (SUSTAINED, ["sustained", "burst", "unspecified"], "sustained"),
        (SUSTAINED, ["unspecified", "burst"], "burst"),
        (SUSTAINED, ["unspecified"], "unspecified"),
        (PI, ["sustained", "unspecified"], "unspecified"),
        (PI, ["sustained"], None),
        (PI._replace(regime="unspecified"), ["burst", "unspecified"], "unspecified"),
        (PI._replace(regime="unspecified"), ["burst"], "burst"),
    ],
)
def test_beta_is_taken_in_the_same_regime_else_burst_else_unspecified(
    pi: RoofKey, betas: list[Regime], taken: Regime | None
) -> None:
    """Whatever the order in which they are stated."""
    rates: dict[Regime, float] = {"burst": 4430.0, "sustained": 4400.0, "unspecified": 4300.0}
    streams = [gpu_value("a", rates[regime], roof=BETA._replace(regime=regime)) for regime in betas]

    assert beta_of(gpu_value("a", 845.0, roof=pi), *streams) == (None if taken is None else rates[taken])


def test_beta_of_the_same_method_is_preferred() -> None:
    """A custom stream with small buffers stands for custom sweeps only."""
    streams = [gpu_value("a", 4430.0, roof=BETA), gpu_value("a", 9000.0, day=1, roof=BETA, conditions=CUSTOM)]

    assert beta_of(gpu_value("a", 845.0), *streams) == 4430.0


def test_beta_of_a_named_kernel_is_preferred() -> None:
    """An import may not say what it streamed."""
    streams = [gpu_value("a", 4500.0, roof=BETA._replace(kernel=None)), gpu_value("a", 4430.0, roof=BETA)]

    assert beta_of(gpu_value("a", 845.0), *streams) == 4430.0


def test_streams_that_are_only_shown_make_no_ridge() -> None:
    """A copy moves its bytes twice, and the last-level cache is not the memory."""
    copy, cache = BETA._replace(kernel="copy"), BETA._replace(level="l2")

    assert beta_of(gpu_value("a", 845.0), gpu_value("a", 4100.0, roof=copy), gpu_value("a", 9e3, roof=cache)) is None


def test_the_best_of_a_search_is_shown_beside_pi() -> None:
    """Of the same dtype, variant, regime and method."""
    best = PI._replace(kernel="gemm_best")
    others = [
        gpu_value("a", 990.0, roof=best._replace(regime="sustained")),
        gpu_value("a", 995.0, roof=best._replace(dtype="float16")),
        gpu_value("a", 999.0, roof=best, conditions=CUSTOM),
    ]

    assert only_ridge(gpu_value("a", 845.0), gpu_value("a", 870.0, roof=best), *others).best_pi_tflops == 870.0


def test_a_gpu_deviates_from_the_median_that_it_is_held_against() -> None:
    """That of its own group, whatever the whole cohort reaches."""
    compared = Compared(gpu_value("d", 8.1), HeldAgainst(4, 13.55), distribution([20.0, 30.0, 8.1]))

    assert compared.deviation == pytest.approx(8.1 / 13.55 - 1)


def test_the_worst_roof_is_the_one_furthest_below_the_peers() -> None:
    """Pi and beta alike."""
    own = [gpu_value("a", 840.0), gpu_value("a", 3000.0, roof=BETA)]

    worst = roofs_of(own, {"compute": 845.0, "memory": 4430.0}).worst

    assert worst is not None
    assert worst.own.cohort.roof == BETA


def test_a_gpu_with_nothing_judged_has_no_worst_roof() -> None:
    """No data is neither good nor bad."""
    roofs = roofs_of([gpu_value("a", 4100.0, roof=BETA._replace(kernel="copy"))])

    assert roofs.worst is None
    assert [value.value for value in roofs.others] == [4100.0]


@pytest.mark.parametrize(
    ("only", "dtypes", "bandwidths"),
    [
        (Filter(), ["bfloat16", "bfloat16"], 1),
        (Filter(regime="burst"), ["bfloat16"], 1),
        (Filter(regime="sustained"), ["bfloat16"], 0),
        (Filter(dtype="bfloat16"), ["bfloat16", "bfloat16"], 0),
        (Filter(dtype="float32"), [], 1),
        (Filter(dtype="int8"), [], 0),
    ],
)
def test_a_filter_chooses_roofs_by_dtype_and_regime(only: Filter, dtypes: list[str], bandwidths: int) -> None:
    """Those left are compared as before."""
    roofs = roofs_of([gpu_value("a", 845.0), gpu_value("a", 700.0, roof=SUSTAINED), gpu_value("a", 4430.0, roof=BETA)])

    found: GpuRoofs = listed(roofs, only)

    assert [ridge.pi.own.cohort.roof.dtype for ridge in found.ridges] == dtypes
    assert len(found.bandwidths) == bandwidths


def test_of_what_was_measured_since_a_time_the_numbers_stay() -> None:
    """A rate is left out, and the ridge of the other keeps the bandwidth that was measured before."""
    old, new = gpu_value("a", 845.0), gpu_value("a", 700.0, day=3, roof=SUSTAINED)
    roofs = roofs_of([old, new, gpu_value("a", 4430.0, day=1, roof=BETA)])

    found = measured_since(roofs, START + timedelta(days=2))

    assert found.ridges == tuple(ridge for ridge in roofs.ridges if ridge.pi.own == new)
    assert found.ridges[0].beta is not None
    assert found.bandwidths == ()


def test_fewer_than_four_peers_are_said_to_be_too_few() -> None:
    """In words, with the number."""
    assert [too_few(n) is None for n in (1, 3, 4, 400)] == [False, False, True, True]
    assert too_few(3) == "too few peers to compare: 3 of at least 4"
