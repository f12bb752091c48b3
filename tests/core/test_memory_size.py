"""Nominal sizes of memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.memory_size import memory_bytes_range, nominal_memory_gib

MIB = 1024**2
KB = 1000


@pytest.mark.parametrize(
    ("reported_mib", "gib"),
    [
        ((15_095, 15_360, 16_160, 16_384), 16),  # T4 with and without ECC, V100
        ((22_731, 23_028, 24_564, 24_576), 24),  # A10 with ECC and without, RTX 4090
        ((40_330, 40_384, 40_536, 40_960), 40),  # A100, sizes 0.13 % apart and more
        ((45_487, 46_068, 49_140), 48),  # A40 and L40S with ECC, without
        ((81_079, 81_082, 81_089, 81_090, 81_559, 81_920), 80),  # H100, A100
        ((95_830,), 94),  # H100 NVL
        ((97_871, 97_887), 96),  # GH200, H20, RTX PRO 6000
        ((143_771, 144_384), 141),  # H200
        ((183_359,), 180),  # B200
        ((189_471,), 186),  # GB200
        ((196_592, 196_608), 192),  # MI300X
        ((275_040, 294_896), 288),  # B300, MI355X
        ((600 * 1024, 640 * 1024), 640),  # a machine
    ],
)
def test_what_a_driver_leaves_of_a_product_s_memory_has_the_size_that_was_sold(
    reported_mib: tuple[int, ...], gib: int
) -> None:
    assert {nominal_memory_gib(size * MIB) for size in reported_mib} == {gib}


def test_machines_of_one_product_with_shared_memory_have_one_size() -> None:
    sizes = [128_501_256_192 + offset * KB for offset in (-150, -40, -4, 0, 4, 90, 150)] + [130_663_165_952]
    assert {nominal_memory_gib(size) for size in sizes} == {128}


def test_an_unknown_memory_has_no_size() -> None:
    assert nominal_memory_gib(None) is None


@given(st.integers(0, 2**43))
def test_every_memory_lies_in_the_range_of_its_size(memory_bytes: int) -> None:
    gib = nominal_memory_gib(memory_bytes)
    assert gib is not None
    low, high = memory_bytes_range(gib)
    assert low <= memory_bytes <= high
    assert nominal_memory_gib(low) == nominal_memory_gib(high) == gib
    assert nominal_memory_gib(high + 1) != gib


@given(st.integers(1, 2**43), st.integers(1, 2**43))
def test_more_memory_never_has_a_smaller_size(one: int, other: int) -> None:
    sizes = [nominal_memory_gib(size) or 0 for size in sorted((one, other))]
    assert sizes == sorted(sizes)
