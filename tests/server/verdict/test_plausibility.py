"""What silicon cannot do."""

from __future__ import annotations

import pytest

from fleetridge.report import RoofKey
from fleetridge_server.verdict.plausibility import Silicon, highest_plausible
from support.judged import BETA, H2D, PI


def test_bandwidth_is_limited_by_memory_clock_and_bus() -> None:
    """RTX 4090: 10501 MHz × 384 bit × 2 / 8 = 1008 GB/s; a cache once showed 3,868."""
    highest = highest_plausible(BETA, Silicon(memory_clock_max_mhz=10501.0, memory_bus_bits=384), 1008.0)
    assert highest == pytest.approx(1.05 * 1008.096)


def test_pi_is_limited_by_units_and_clock() -> None:
    """H100: 132 SMs × 1980 MHz × 4096 FLOP per clock in bfloat16 = 1070.5 TFLOP/s."""
    silicon = Silicon(sm_count=132, sm_clock_max_mhz=1980.0, flop_per_clock=4096.0)
    assert highest_plausible(PI, silicon, 989.0) == pytest.approx(1.05 * 1070.53, rel=1e-4)


@pytest.mark.parametrize("roof", [PI, BETA])
def test_the_datasheet_stands_in_with_a_quarter_more(roof: RoofKey) -> None:
    assert highest_plausible(roof, Silicon(sm_count=132), 1000.0) == 1250.0


def test_where_nothing_is_known_nothing_is_implausible() -> None:
    assert highest_plausible(PI, Silicon(), None) is None
    assert highest_plausible(H2D, Silicon(memory_clock_max_mhz=1.0, memory_bus_bits=1), 1.0) is None
