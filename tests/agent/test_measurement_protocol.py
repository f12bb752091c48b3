from __future__ import annotations

from pathlib import Path

import pytest

from fleetridge import quantities
from fleetridge_agent import measurement_protocol

_PAGE = (Path(__file__).parents[2] / "docs/methodology.md").read_text(encoding="utf-8")
_NAMES = [
    name
    for name in vars(measurement_protocol)
    if name.isupper() and not name.startswith("_") and not hasattr(quantities, name)
]


@pytest.mark.parametrize("name", _NAMES)
def test_every_number_of_the_protocol_is_explained_on_the_methods_page(name: str) -> None:
    """With its name, so that a reader of either finds the other."""
    assert f"`{name}`" in _PAGE
