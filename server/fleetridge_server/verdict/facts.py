"""Readings of a gpu beside its peers', as numbers and as people write them."""

from __future__ import annotations

from typing import NamedTuple

from fleetridge.quantities import signed_percent, significant
from fleetridge_server.verdict.reading_words import reading_words

_UNITS = {
    "power_limit_w": "W",
    "power_w": "W",
    "sm_clock_mhz": "MHz",
    "memory_clock_mhz": "MHz",
    "temperature_c": "°C",
    "per_ghz": "TFLOP/s per GHz",
}

# Readings that a driver gives as whole numbers, or nearly so; of rates every digit counts.
_WHOLE = frozenset({"W", "MHz", "°C", "ms"})


class Fact(NamedTuple):
    """
    A reading beside that of the peers.

    Attributes:
        reading: its name in reports.
        own, peers: as people write them; peers is "" where there is nothing beside it.
        own_value, peers_value: as numbers; None where they are words.
        unit: of the numbers; "" where they have none.
    """

    reading: str
    own: str
    peers: str
    own_value: float | None = None
    peers_value: float | None = None
    unit: str = ""


def number_fact(reading: str, own: float, peers: float | None, unit: str | None = None) -> Fact:
    """A reading that is a number, in the unit that its name says unless another is given."""
    used = _UNITS.get(reading, "") if unit is None else unit
    beside = "" if peers is None else _written(peers, reading, used)
    return Fact(reading, _written(own, reading, used), beside, own, peers, used)


def fact_words(reading: str, own: str, peers: str) -> str:
    """A fact in words: "temperature 89 °C, peers 65 °C"; without the peers where nothing is known of them."""
    return f"{reading_words(reading)} {own}, peers {peers}" if peers else f"{reading_words(reading)} {own}"


def _written(value: float, reading: str, unit: str) -> str:
    if reading == "trend":
        return signed_percent(value)
    return f"{value:.0f} {unit}" if unit in _WHOLE else f"{significant(value)} {unit}".rstrip()
