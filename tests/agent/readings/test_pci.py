from __future__ import annotations

import pytest

from fleetridge_agent.readings.reading import canonical_bus_id


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
