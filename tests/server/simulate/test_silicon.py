"""Products that can be simulated."""

from __future__ import annotations

import pytest

from fleetridge.peaks import published_beta, published_pi
from fleetridge_server.engine.plausibility import Silicon as Limits
from fleetridge_server.simulate.plan import PRODUCTS, Product, product_named


@pytest.mark.parametrize("silicon", PRODUCTS.values(), ids=PRODUCTS)
def test_a_healthy_one_stays_below_what_is_published(silicon: Product) -> None:
    for dtype in silicon.dtypes:
        peak = published_pi(silicon.device, dtype)
        assert peak is not None
        assert 0.7 < silicon.pi_tflops(dtype) / peak.value < 1
    beta = published_beta(silicon.device)
    assert beta is not None
    assert 0.7 < silicon.beta_gbps / beta.value < 1


@pytest.mark.parametrize("silicon", PRODUCTS.values(), ids=PRODUCTS)
def test_its_memory_can_be_read_as_fast_as_it_says(silicon: Product) -> None:
    limits = Limits(memory_clock_max_mhz=silicon.memory_clock_max_mhz, memory_bus_bits=silicon.memory_bus_bits)
    assert limits.beta_gbps is not None
    assert 0.8 < silicon.beta_gbps / limits.beta_gbps < 1


def test_any_spelling_of_a_drivers_name_finds_the_product_and_nothing_else_does() -> None:
    assert product_named("NVIDIA H200") is product_named("H200")
    assert product_named("H200 NVL") is None
    assert product_named("h200") is None
