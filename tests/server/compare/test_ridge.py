"""Ridges of gpus, beside those of their peers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from fleetridge.report import Regime, RoofKey
from fleetridge_server.compare.cohort import Reading, current_values
from fleetridge_server.compare.ridge import Filter, GpuRoofs, Ridge, compare_one, listed, too_few
from support.readings import BETA, PI, STANDARD, reading

SUSTAINED = PI._replace(regime="sustained")
CUSTOM = replace(STANDARD, method="custom")


def compared(readings: Iterable[Reading]) -> dict[str, GpuRoofs]:
    """What some gpus reach, from their readings."""
    values = current_values(readings)
    return {value.gpu_id: compare_one(value.gpu_id, values) for value in values}


def only_ridge(*readings: Reading) -> Ridge:
    """The one ridge of gpu "a"."""
    [ridge] = compared(readings)["a"].ridges
    return ridge


def beta_of(*readings: Reading) -> float | None:
    """The beta with which gpu "a" makes its one ridge."""
    ridge = only_ridge(*readings)
    return None if ridge.beta is None else ridge.beta.own.value


def test_the_ridge_is_pi_over_beta() -> None:
    """845 TFLOP/s over 4430 GB/s is 190.7 FLOP/byte."""
    ridge = only_ridge(reading("a", 845.0), reading("a", 4430.0, roof=BETA))

    assert ridge.flop_per_byte == pytest.approx(190.745, abs=1e-3)


def test_without_a_beta_there_is_no_ridge_point() -> None:
    """Pi is still compared."""
    ridge = only_ridge(reading("a", 845.0))

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
    streams = [reading("a", rates[regime], roof=BETA._replace(regime=regime)) for regime in betas]

    assert beta_of(reading("a", 845.0, roof=pi), *streams) == (None if taken is None else rates[taken])


def test_beta_of_the_same_method_is_preferred() -> None:
    """A custom stream with small buffers stands for custom sweeps only."""
    streams = [reading("a", 4430.0, roof=BETA), reading("a", 9000.0, day=1, roof=BETA, conditions=CUSTOM)]

    assert beta_of(reading("a", 845.0), *streams) == 4430.0


def test_beta_of_a_named_kernel_is_preferred() -> None:
    """An import may not say what it streamed."""
    streams = [reading("a", 4500.0, roof=BETA._replace(kernel=None)), reading("a", 4430.0, roof=BETA)]

    assert beta_of(reading("a", 845.0), *streams) == 4430.0


def test_streams_that_are_only_shown_make_no_ridge() -> None:
    """A copy moves its bytes twice, and the last-level cache is not the memory."""
    copy, cache = BETA._replace(kernel="copy"), BETA._replace(level="l2")

    assert beta_of(reading("a", 845.0), reading("a", 4100.0, roof=copy), reading("a", 9e3, roof=cache)) is None


def test_the_best_of_a_search_is_shown_beside_pi() -> None:
    """Of the same dtype, variant, regime and method."""
    best = PI._replace(kernel="gemm_best")
    others = [
        reading("a", 990.0, roof=best._replace(regime="sustained")),
        reading("a", 995.0, roof=best._replace(dtype="float16")),
        reading("a", 999.0, roof=best, conditions=CUSTOM),
    ]

    assert only_ridge(reading("a", 845.0), reading("a", 870.0, roof=best), *others).best_pi_tflops == 870.0


def test_the_best_of_a_search_moves_no_median() -> None:
    """It is the luckiest of many candidates."""
    best = PI._replace(kernel="gemm_best")

    ridge = only_ridge(reading("a", 845.0), reading("b", 900.0, roof=best), reading("b", 855.0))

    assert ridge.pi.peers.median == 850.0


def test_a_gpu_deviates_from_the_median_of_its_peers_itself_included() -> None:
    """Four gpus, one at 0.6 of the rest."""
    pis = {"a": 13.6, "b": 13.7, "c": 13.5, "d": 8.1}

    roofs = compared(reading(gpu_id, pi) for gpu_id, pi in pis.items())

    assert roofs["d"].ridges[0].pi.deviation == pytest.approx(8.1 / 13.55 - 1)
    assert roofs["d"].ridges[0].pi.peers.n == 4


def test_the_worst_roof_is_the_one_furthest_below_the_peers() -> None:
    """Pi and beta alike."""
    healthy = [each for gpu in "bcd" for each in (reading(gpu, 845.0), reading(gpu, 4430.0, roof=BETA))]

    worst = compared([*healthy, reading("a", 840.0), reading("a", 3000.0, roof=BETA)])["a"].worst

    assert worst is not None
    assert worst.own.cohort.roof == BETA


def test_a_gpu_with_nothing_judged_has_no_worst_roof() -> None:
    """No data is neither good nor bad."""
    roofs = compared([reading("a", 4100.0, roof=BETA._replace(kernel="copy"))])

    assert roofs["a"].worst is None
    assert [value.value for value in roofs["a"].others] == [4100.0]


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
    roofs = compared([reading("a", 845.0), reading("a", 700.0, roof=SUSTAINED), reading("a", 4430.0, roof=BETA)])

    found: GpuRoofs = listed(roofs["a"], only)

    assert [ridge.pi.own.cohort.roof.dtype for ridge in found.ridges] == dtypes
    assert len(found.bandwidths) == bandwidths


def test_fewer_than_four_peers_are_said_to_be_too_few() -> None:
    """In words, with the number."""
    assert [too_few(n) is None for n in (1, 3, 4, 400)] == [False, False, True, True]
    assert too_few(3) == "too few peers to compare: 3 of at least 4"
