"""PCI addresses, which CUDA and NVML spell differently."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?", re.IGNORECASE)


def canonical_bus_id(address: str | None) -> str | None:
    """
    One spelling of a PCI address: "00000000:3B:00.0" and "0000:3b:00.0" both become "0000:3b:00.0".

    Returns:
        None where the text is no PCI address.
    """
    found = _ADDRESS.fullmatch((address or "").strip())
    if found is None:
        return None
    domain, bus, slot, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
