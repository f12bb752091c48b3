"""What silicon cannot do."""

from __future__ import annotations

import pytest

from fleetridge.report import RoofKey
from fleetridge_server.engine.plausibility import Silicon, flop_per_clock, highest_plausible, is_implausible
from support.judged import BETA, H2D, PI

H100 = Silicon(sm_count=132, sm_clock_max_mhz=1980.0, architecture="sm_90")


def roof(dtype: str) -> RoofKey:
    """A judged compute roof."""
    return PI._replace(dtype=dtype)


def highest(key: RoofKey, silicon: Silicon, published: float | None) -> float | None:
    """The highest value that can be right."""
    bound = highest_plausible(key, silicon, published)
    return None if bound is None else bound.value


def test_a_bound_says_by_what() -> None:
    silicon = Silicon(memory_clock_max_mhz=10501.0, memory_bus_bits=384, architecture="sm_89")
    bounds = [highest_plausible(*own) for own in ((BETA, silicon, None), (PI, H100, None), (PI, Silicon(), 989.0))]
    assert [bound.reason for bound in bounds if bound is not None] == [
        "what memory clock × bus width can do",
        "what multiprocessors × highest clock can do",
        "1.25 × the published peak",
    ]


def test_bandwidth_is_limited_by_memory_clock_and_bus() -> None:
    """RTX 4090: 10501 MHz × 384 bit × 2 / 8 = 1008 GB/s; a cache once showed 3,868."""
    silicon = Silicon(memory_clock_max_mhz=10501.0, memory_bus_bits=384, architecture="sm_89")
    assert highest(BETA, silicon, 1008.0) == pytest.approx(1.05 * 1008.096)
    assert is_implausible(3868.0, BETA, silicon, 1008.0)
    assert not is_implausible(920.0, BETA, silicon, 1008.0)


def test_bandwidth_of_memory_with_another_number_of_transfers_is_held_to_what_is_published() -> None:
    """An MI300X reports 1300 MHz and 8192 bit, which two transfers a cycle would make 2662 GB/s of its 5300."""
    silicon = Silicon(memory_clock_max_mhz=1300.0, memory_bus_bits=8192, architecture="gfx942:sramecc+:xnack-")
    assert highest(BETA, silicon, 5300.0) == 6625.0
    assert not is_implausible(4300.0, BETA, silicon, None)


@pytest.mark.parametrize(
    ("architecture", "sm_count", "boost_mhz", "dtype", "published"),
    [
        ("sm_70", 80, 1530.0, "float16", 125),
        ("sm_70", 80, 1530.0, "float32", 15.7),
        ("sm_75", 40, 1590.0, "float16", 65),
        ("sm_75", 40, 1590.0, "int8", 130),
        ("sm_80", 108, 1410.0, "bfloat16", 312),
        ("sm_80", 108, 1410.0, "tf32", 156),
        ("sm_80", 108, 1410.0, "float64", 19.5),
        ("sm_86", 84, 1740.0, "bfloat16", 149.7),
        ("sm_86", 84, 1740.0, "float32", 37.4),
        ("sm_89", 142, 2520.0, "float8_e4m3fn", 733),
        ("sm_90", 132, 1830.0, "bfloat16", 989.4),
        ("sm_90", 132, 1980.0, "float32", 66.9),
        ("sm_100", 148, 1850.0, "bfloat16", 2250),
        ("sm_120", 188, 2617.0, "float16", 503.8),
        ("gfx908", 120, 1502.0, "float16", 184.6),
        ("gfx90a", 110, 1700.0, "bfloat16", 191.5),
        ("gfx942", 304, 2100.0, "float8_e4m3fn", 2614.9),
        ("gfx950", 256, 2400.0, "bfloat16", 2516.6),
    ],
)
def test_units_times_clock_gives_the_published_peak(
    architecture: str, sm_count: int, boost_mhz: float, dtype: str, published: float
) -> None:
    silicon = Silicon(sm_count=sm_count, sm_clock_max_mhz=boost_mhz, architecture=architecture)
    assert silicon.pi_tflops(dtype) == pytest.approx(published, rel=0.02)


def test_pi_is_limited_by_units_and_the_highest_clock() -> None:
    """H100: 132 SMs × 1980 MHz × 4096 FLOP per clock in bfloat16 = 1070.5 TFLOP/s, more than the published 989."""
    assert highest(PI, H100, 989.0) == pytest.approx(1.05 * 1070.53, rel=1e-4)
    assert not is_implausible(1060.0, PI, H100, 989.0)
    assert is_implausible(1200.0, PI, H100, 989.0)


def test_a_product_under_an_unknown_switch_may_be_as_fast_as_tf32() -> None:
    assert H100.pi_tflops("float32_or_tf32") == H100.pi_tflops("tf32")


def test_a_missing_synchronisation_shows_on_a_consumer_card() -> None:
    """RTX 4090: 128 SMs at 3105 MHz do 102 TFLOP/s in float32, not 3,000."""
    silicon = Silicon(sm_count=128, sm_clock_max_mhz=3105.0, architecture="sm_89")
    assert is_implausible(3000.0, roof("float32"), silicon, None)
    assert not is_implausible(80.0, roof("float32"), silicon, None)


@pytest.mark.parametrize("key", [PI, BETA])
@pytest.mark.parametrize("silicon", [Silicon(sm_count=132), Silicon(132, 0.0, 0.0, 0, "sm_90"), Silicon(8, 1.0)])
def test_the_datasheet_stands_in_with_a_quarter_more(key: RoofKey, silicon: Silicon) -> None:
    assert highest(key, silicon, 1000.0) == 1250.0


def test_where_nothing_is_known_nothing_is_implausible() -> None:
    assert highest(PI, Silicon(), None) is None
    assert highest(H2D, Silicon(memory_clock_max_mhz=1.0, memory_bus_bits=1), 1.0) is None
    assert not is_implausible(1e9, PI, Silicon(), None)


@pytest.mark.parametrize(("architecture", "dtype"), [(None, "bfloat16"), ("sm_61", "float32"), ("sm_70", "bfloat16")])
def test_what_is_not_listed_is_not_known(architecture: str | None, dtype: str) -> None:
    assert flop_per_clock(architecture, dtype) is None
