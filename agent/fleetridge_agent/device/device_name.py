"""Names of slices: the driver appends the profile to the card's name."""

from __future__ import annotations

import re

_SLICE = re.compile(r"(?P<device>.+?)\s+MIG\s+(?P<profile>\S+)")


def without_profile(name: str | None) -> tuple[str | None, str | None]:
    """Device and MIG profile of a name: "NVIDIA A100-SXM4-40GB MIG 1g.5gb" is a 1g.5gb slice of the former."""
    found = _SLICE.fullmatch(name.strip()) if name else None
    return (name, None) if found is None else (found["device"], found["profile"])
