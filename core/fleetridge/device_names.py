"""
Names of devices and identities of gpus.

Nothing is matched fuzzily: two names are one device only if they differ in vendor and brand words that drivers
began to add over the years, and two gpus are one only if they say so.
"""

from __future__ import annotations

import hashlib
import re

from fleetridge.memory_size import nominal_memory_gib

# Cluster of a node that names none.
DEFAULT_CLUSTER = "default"

# NVIDIA's drivers call one product "Tesla V100…", "NVIDIA V100…" or plain "V100…" depending on their age. Only
# brands that add nothing to the model stand here: Quadro, RTX, GTX and TITAN are part of a product's name.
_VENDOR = "NVIDIA "
_BRANDS = ("Tesla ", "GeForce ")

# Spellings of "there is none" that drivers, virtual functions and broken tools give instead of an identity. Whatever
# stands in square brackets is one too.
_NO_IDENTITY = frozenset(
    {
        "",
        "-",
        "n/a",
        "none",
        "null",
        "nil",
        "nan",
        "unknown",
        "err!",
        "error",
        "unknown error",
        "no uuid",
        "not supported",
    }
)
_UUID_SHAPED = re.compile(r"(GPU-|MIG-)?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_PRINTED_BYTES = re.compile(r"b(['\"])(.*)\1")
_BRACKETED = re.compile(r"\[.*\]")

# Digits that are all zero (virtual functions) or all ones (a device that fell off its bus), with or without prefixes
# such as "GPU-", "MIG-GPU-" or "0x", and with or without the instances that older drivers added to a MIG slice's card.
# Behind a prefix a zero or two may be a number that somebody gave: "card-0" beside "card-1".
_VOID_DIGITS = re.compile(r"([a-z]+-)*((0x)?[0-]{3,}|(0x)?f[f-]{7,})?(/[0-9]+)*|(0x)?0*")

# Long enough that a fleet of 100,000 nodes has no chance of two alike (96 bits), short enough to read aloud.
_NOID_HEX_DIGITS = 24

_MIB = 1024**2
_GIB = 1024**3


def canonical_device_name(raw: str) -> str:
    """
    Canonical form of a driver's device name: less one leading "NVIDIA ", then less "Tesla " or "GeForce ".

    "Tesla V100-SXM2-16GB" and "NVIDIA V100-SXM2-16GB" both become "V100-SXM2-16GB". White space at the ends goes;
    everything else stays, so that a laptop part never becomes its desktop sister. Empty where a driver or tool says
    that it knows none ("ERR!", "Unknown", "[N/A]"); bytes that a tool printed as such (b'NVIDIA L4') are the name in
    them.
    """
    printed = _PRINTED_BYTES.fullmatch(raw.strip())
    whole = (printed[2] if printed else raw).strip()
    if whole.casefold() in _NO_IDENTITY or _BRACKETED.fullmatch(whole):
        return ""
    name = whole.removeprefix(_VENDOR)
    for brand in _BRANDS:
        if name.startswith(brand):
            return name.removeprefix(brand).strip()
    return name.strip()


def fallback_device_name(architecture: str | None, memory_bytes: int | None) -> str:
    """
    Name for a device whose driver gives none: architecture and memory, "gfx90a 64 GiB".

    Some drivers report an empty name; one group "" over all of them would compare different products.
    """
    words = [architecture or "unknown device"]
    if memory_bytes is not None:
        words.append(
            f"{nominal_memory_gib(memory_bytes)} GiB" if memory_bytes >= _GIB else f"{memory_bytes // _MIB} MiB"
        )
    return " ".join(words)


def device_slug(canonical_name: str) -> str:
    """
    Form of a device's name that is easy to type in a URL: "RTX 3060/PCIe/SSE2" becomes "rtx-3060-pcie-sse2".

    Two names may share a slug; whoever stores them keeps them apart (see `distinct_device_slug`).
    """
    slug = re.sub(r"[^a-z0-9]+", "-", canonical_name.casefold()).strip("-")
    return slug or "device"


def distinct_device_slug(canonical_name: str) -> str:
    """Slug with a few digits of the name's hash, for a name whose plain slug another device has taken."""
    digest = hashlib.sha256(canonical_name.encode()).hexdigest()
    return f"{device_slug(canonical_name)}-{digest[:8]}"


def is_identity(uuid: str | None) -> bool:
    """
    Whether a reported UUID identifies anything.

    Empty, "N/A", "ERR!" and their like do not, nor do digits that are all zero, whatever prefix they have.
    """
    if uuid is None:
        return False
    word = uuid.strip().casefold()
    return not (word in _NO_IDENTITY or _BRACKETED.fullmatch(word) or _VOID_DIGITS.fullmatch(word))


def folded_identity(gpu_id: str) -> str:
    """
    One spelling of a gpu's id: of ids that have the shape of a UUID, prefix and case do not matter.

    Tools print one card as `GPU-1A2B…`, `1a2b…` and in either case; as different ids it would be its own peers. Slices
    keep their prefix `MIG-`, ids of other shapes are left as they are.
    """
    found = _UUID_SHAPED.fullmatch(gpu_id.strip())
    return gpu_id.strip() if found is None else f"{(found[1] or 'GPU-').upper()}{found[2].lower()}"


def gpu_identity(
    uuid: str | None, *, cluster: str, node: str | None, pci_bus_id: str | None, index: int | None = None
) -> str:
    """
    Identity of one gpu: its UUID, or "noid-" and a hash of where it sits.

    Without a UUID the PCI bus id tells the gpus of a node apart, and where that is missing too, the index does.

    Raises:
        ValueError: neither a UUID nor a place (a node, and a bus id or an index) was given.
    """
    if uuid is not None and is_identity(uuid):
        return folded_identity(uuid)
    slot = pci_bus_id if is_identity(pci_bus_id) else (None if index is None else f"index {index}")
    if not node or slot is None:
        raise ValueError("a gpu without a UUID needs a node name and a PCI bus id (or an index) to be told apart")
    place = "\0".join((cluster, node, str(slot).casefold()))
    return f"noid-{hashlib.sha256(place.encode()).hexdigest()[:_NOID_HEX_DIGITS]}"
