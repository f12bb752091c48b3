from __future__ import annotations

from typing import Any

import pytest

from fleetridge.report import Environment
from fleetridge_agent.readings.optional_reading import (
    canonical_bus_id,
    count,
    model_of,
    number,
    reading,
    switch,
    text,
    without_profile,
)


def _raising(error: Exception) -> Any:
    def read() -> None:
        raise error

    return read


def test_a_reading_that_fails_in_any_way_is_missing() -> None:
    """Bindings raise what they like; none of it is worth a sweep."""
    for error in (RuntimeError("unknown"), AttributeError("no such function"), OSError(5, "I/O error")):
        assert reading(_raising(error)) is None


def test_text_that_is_not_utf8_is_kept_with_replacement_characters() -> None:
    """A broken byte costs one character, whether the binding decodes or hands over bytes."""
    broken = b"\xf8NVIDIA A10"

    assert reading(_raising(UnicodeDecodeError("utf-8", broken, 0, 1, "invalid start byte"))) == "\ufffdNVIDIA A10"
    assert reading(lambda: broken) == "\ufffdNVIDIA A10"


@pytest.mark.parametrize("absent", ["[N/A]", "N/A", "[Not Supported]", None, True, float("nan"), float("inf"), b"41"])
def test_what_is_no_number_is_missing_and_never_zero(absent: object) -> None:
    """Words that tools print where there is no reading do not break or fake one."""
    assert number(absent) is None
    assert count(absent) is None


def test_numbers_are_scaled_to_the_unit_that_the_report_has() -> None:
    """Milliwatts become watts."""
    assert number(412_500, scale=1e-3) == 412.5


def test_a_negative_count_is_missing() -> None:
    """Drivers use -1 for not known."""
    assert count(-1) is None
    assert count(0) == 0


def test_a_switch_is_on_off_or_unknown() -> None:
    """Unknown is not off."""
    assert (switch(1), switch(0), switch(2), switch(None)) == (True, False, None, None)


def test_only_text_is_text() -> None:
    """A structure that a broken binding hands over is no name."""
    assert (text("580.159.04"), text(580)) == ("580.159.04", None)


def test_one_bad_reading_costs_nothing_but_itself() -> None:
    """A part of a report takes every value that the contract allows and leaves the others null."""
    environment = model_of(Environment, {"driver": "580\x00", "vbios": "96.00", "power_limit_w": float("inf")})

    assert (environment.driver, environment.vbios, environment.power_limit_w) == (None, "96.00", None)


def test_a_slice_is_told_from_its_card() -> None:
    """The profile goes to a field of its own, so that both have the device's name."""
    assert without_profile("NVIDIA A100-SXM4-40GB MIG 1g.5gb") == ("NVIDIA A100-SXM4-40GB", "1g.5gb")


def test_a_profile_with_its_extras_is_kept_whole() -> None:
    """Media engines are part of the profile."""
    assert without_profile("NVIDIA H100 NVL MIG 1g.12gb+me") == ("NVIDIA H100 NVL", "1g.12gb+me")


def test_a_whole_card_keeps_its_name() -> None:
    """No name and an empty one stay what they are."""
    assert without_profile("NVIDIA H200") == ("NVIDIA H200", None)
    assert without_profile("") == ("", None)
    assert without_profile(None) == (None, None)


@pytest.mark.parametrize("spelling", ["00000000:3B:00.0", "0000:3b:00.0", "3B:00.0", "3b:0", " 0000:3B:00.0 "])
def test_spellings_of_one_address_are_one(spelling: str) -> None:
    """CUDA, NVML and people write it differently."""
    assert canonical_bus_id(spelling) == "0000:3b:00.0"


def test_addresses_in_a_large_domain_keep_it() -> None:
    """Machines with many host bridges and clouds have domains above 0."""
    assert canonical_bus_id("00010000:01:00.0") == "10000:01:00.0"


@pytest.mark.parametrize("other", [None, "", "N/A", "GPU-1", "0000:3b"])
def test_what_is_no_address_is_none(other: str | None) -> None:
    """Nothing is guessed."""
    assert canonical_bus_id(other) is None
