"""Published figures beside what gpus reach."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetridge.peaks import published_beta, published_pi
from fleetridge_server.verdicts.roof_shapes import published_beta_gbps, published_roofs
from support.readings import STANDARD


def test_a_known_device_has_published_roofs_and_their_ridge() -> None:
    """The same figures as in the table of peaks."""
    pi, beta = published_pi("H200", "bfloat16"), published_beta("H200")
    assert pi is not None
    assert beta is not None

    published = published_roofs("H200", "bfloat16", STANDARD)

    assert (published.pi_tflops, published.beta_gbps) == (pi.value, beta.value)
    assert published.ridge_flop_per_byte == pytest.approx(pi.value / beta.value * 1e3)


def test_an_unknown_device_has_none() -> None:
    """Never a default, never that of a device with a similar name."""
    published = published_roofs("Z999 1TB", "bfloat16", STANDARD)

    assert (published.pi_tflops, published.beta_gbps, published.ridge_flop_per_byte) == (None, None, None)


def test_an_unknown_dtype_has_a_bandwidth_only() -> None:
    """A float32 whose TF32 switch is unknown has no peak."""
    published = published_roofs("H200", "float32_or_tf32", STANDARD)

    assert published.pi_tflops is None
    assert published.beta_gbps is not None
    assert published.ridge_flop_per_byte is None


@pytest.mark.parametrize("part", [replace(STANDARD, mig_profile="1g.18gb"), replace(STANDARD, partition="CPX/NPS4")])
def test_a_part_of_a_card_has_none(part: object) -> None:
    """A slice at a seventh of the datasheet is healthy."""
    assert published_beta_gbps("H200", part) is None  # type: ignore[arg-type] # parametrised


def test_a_card_in_one_partition_is_whole() -> None:
    """SPX is how AMD calls an unsplit card."""
    assert published_beta_gbps("H200", replace(STANDARD, partition="SPX/NPS1")) is not None
