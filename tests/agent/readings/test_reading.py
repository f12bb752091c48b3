from __future__ import annotations

from typing import Any

import pytest

from fleetridge.report import Environment
from fleetridge_agent.readings.reading import count, model_of, number, reading, switch, text


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
