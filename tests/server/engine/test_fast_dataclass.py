"""Values that are made by the million."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson

from fleetridge_server.engine.fast_dataclass import fast_dataclass, json_dataclass


@fast_dataclass
class Rate:
    """A record as the engine has them."""

    value: float
    unit: str = "GB/s"


@json_dataclass
class RateShown:
    """A record as answers have them."""

    value: float
    unit: str = "GB/s"


def test_records_with_the_same_fields_are_one() -> None:
    """They are equal and have one hash, so that they can be keys."""
    assert Rate(1.0) == Rate(1.0)
    assert Rate(1.0) != Rate(2.0)
    assert {Rate(1.0), Rate(1.0), Rate(1.0, "TFLOP/s")} == {Rate(1.0), Rate(1.0, "TFLOP/s")}
    assert len({RateShown(1.0), RateShown(1.0)}) == 1


def test_a_record_is_changed_by_making_another() -> None:
    """As any frozen dataclass."""
    rate = Rate(1.0)

    assert (replace(rate, value=2.0), rate) == (Rate(2.0), Rate(1.0))


def test_a_record_takes_little_room() -> None:
    """The engine's have slots; those of answers have none, as they are written from their dictionaries."""
    assert not hasattr(Rate(1.0), "__dict__")
    assert json.loads(orjson.dumps(RateShown(1.0))) == vars(RateShown(1.0)) == {"value": 1.0, "unit": "GB/s"}
