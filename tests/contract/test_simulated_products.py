"""What the simulator says of a product is what an agent on it would measure."""

from __future__ import annotations

import pytest

from fleetridge_agent.device.gemm_variants import GemmVariant
from fleetridge_agent.measurement_protocol import LARGEST_BUFFER_BYTES
from fleetridge_agent.sweep.shapes import reference_gemm
from fleetridge_server.simulate import wire
from fleetridge_server.simulate.plan import PRODUCTS
from fleetridge_server.simulate.plan import Product as Silicon


@pytest.mark.parametrize("silicon", PRODUCTS.values(), ids=PRODUCTS)
def test_simulated_gpus_multiply_the_agents_reference_shape(silicon: Silicon) -> None:
    gemm = reference_gemm(GemmVariant("bfloat16"), kind="cuda", sm_count=silicon.sm_count)
    assert silicon.gemm == (gemm.m, gemm.k, gemm.n)


def test_simulated_gpus_read_the_agents_buffer() -> None:
    assert wire._BUFFER_BYTES == LARGEST_BUFFER_BYTES
