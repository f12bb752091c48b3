"""Names of devices and identities of gpus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import device_names


@pytest.mark.parametrize(
    "raw", ["Tesla V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB", "V100-SXM2-16GB", "NVIDIA Tesla V100-SXM2-16GB"]
)
def test_names_that_differ_in_vendor_and_brand_words_are_one_device(raw: str) -> None:
    """Drivers began to prefix names over the years."""
    assert device_names.canonical_device_name(raw) == "V100-SXM2-16GB"


def test_three_generations_of_geforce_names_are_one_device() -> None:
    """GTX is part of the product's name, GeForce is not."""
    names = ["GTX 970", "GeForce GTX 970", "NVIDIA GeForce GTX 970"]

    assert {"GTX 970"} == {device_names.canonical_device_name(name) for name in names}


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop GPU"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA TITAN RTX", "TITAN RTX"),
        ("Quadro RTX 6000", "Quadro RTX 6000"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        ("NVIDIA NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA Tesla GeForce X", "GeForce X"),
        ("Teslameter", "Teslameter"),
        (" NVIDIA H200 ", "H200"),
    ],
)
def test_nothing_but_one_vendor_and_one_brand_word_is_dropped(raw: str, canonical: str) -> None:
    """Variants stay apart."""
    assert canonical == device_names.canonical_device_name(raw)


def test_a_device_without_a_name_is_called_by_architecture_and_memory() -> None:
    """So that unlike products do not meet under an empty name."""
    gfx908 = device_names.fallback_device_name("gfx908", 32 * 1024**3)
    gfx90a = device_names.fallback_device_name("gfx90a", 64 * 1024**3)

    assert (gfx908, gfx90a) == ("gfx908 32 GiB", "gfx90a 64 GiB")


def test_a_device_of_which_nothing_is_known_still_has_a_name() -> None:
    """It can be listed and read back."""
    assert device_names.fallback_device_name(None, None) == "unknown device"


@given(st.text())
def test_every_slug_is_plain_enough_for_a_url(name: str) -> None:
    """Lower-case letters, digits and dashes, never empty."""
    slug = device_names.device_slug(name)

    assert slug
    assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")


def test_names_with_one_plain_slug_get_distinct_ones() -> None:
    """The longer form carries the name's hash."""
    one, other = device_names.distinct_device_slug("RTX 3060/PCIe"), device_names.distinct_device_slug("RTX 3060 PCIe")

    assert one != other


@pytest.mark.parametrize(
    "uuid",
    [
        None,
        "",
        " ",
        "N/A",
        "[N/A]",
        "ERR!",
        "err!",
        "No UUID",
        "[Unknown Error]",
        "00000000-0000-0000-0000-000000000000",
        "GPU-00000000-0000-0000-0000-0",
        "gpu-00000000-0000-0000-0000-000000000000",
        "MIG-00000000-0000-0000-0000-000000000000",
        "MIG-GPU-00000000-0000-0000-0000-000000000000/1/0",
        "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff",
        "0x0000",
        "GPU-0x0000000000000000",
        "GPU-",
        "0",
    ],
)
def test_zeros_and_absent_words_identify_nothing(uuid: str | None) -> None:
    """Virtual functions report all zeros for every gpu."""
    assert not device_names.is_identity(uuid)


@pytest.mark.parametrize(
    "uuid", ["GPU-00000001", "gpu-00000001", "MIG-12345678", "CPU-abc", "GPU-LH0328", "card-0", "0x01"]
)
def test_anything_else_is_an_identity(uuid: str) -> None:
    """However it is spelled."""
    assert device_names.is_identity(uuid)


def test_two_gpus_of_a_node_without_uuids_are_told_apart_by_bus_id() -> None:
    """All-zero UUIDs never merge two gpus."""
    zeros = "00000000-0000-0000-0000-000000000000"
    first = device_names.gpu_identity(zeros, cluster="c", node="n", pci_bus_id="0000:05:00.0")
    second = device_names.gpu_identity(zeros, cluster="c", node="n", pci_bus_id="0000:15:00.0")

    assert first != second
    assert first.startswith("noid-")


def test_one_place_is_one_identity_however_the_bus_id_is_spelled() -> None:
    """Hexadecimal digits come in both cases."""
    upper = device_names.gpu_identity(None, cluster="c", node="n", pci_bus_id="0000:1A:00.0")
    lower = device_names.gpu_identity(None, cluster="c", node="n", pci_bus_id="0000:1a:00.0")

    assert upper == lower


def test_equal_node_names_in_two_clusters_are_two_places() -> None:
    """A node is named within its cluster."""
    east = device_names.gpu_identity(None, cluster="east", node="n01", pci_bus_id="0000:05:00.0")
    west = device_names.gpu_identity(None, cluster="west", node="n01", pci_bus_id="0000:05:00.0")

    assert east != west


def test_the_index_stands_in_for_a_missing_bus_id() -> None:
    """It is the last thing that tells two gpus of a node apart."""
    ids = {device_names.gpu_identity(None, cluster="c", node="n", pci_bus_id=None, index=index) for index in range(8)}

    assert len(ids) == 8


def test_a_gpu_of_which_nothing_is_known_is_refused_with_the_remedy() -> None:
    """Two such gpus would become one."""
    with pytest.raises(ValueError, match="node name and a PCI bus id"):
        device_names.gpu_identity(None, cluster="c", node=None, pci_bus_id=None)


def test_a_long_uuid_is_kept_whole() -> None:
    """Two MIG ids may agree in their first 45 characters."""
    stem = "MIG-" + "a" * 91
    ids = {device_names.gpu_identity(stem + end, cluster="c", node="n", pci_bus_id=None) for end in "xy"}

    assert {stem + "x", stem + "y"} == ids


@pytest.mark.parametrize("raw", ["b'NVIDIA L4'", 'b"NVIDIA L4"', "NVIDIA L4", " L4 "])
def test_a_name_that_a_tool_printed_as_bytes_is_the_name_in_them(raw: str) -> None:
    assert device_names.canonical_device_name(raw) == "L4"


@pytest.mark.parametrize("raw", ["ERR!", "Unknown", "N/A", "[N/A]", "[GPU is lost]", "unknown error", "", " "])
def test_words_for_no_name_are_none(raw: str) -> None:
    assert device_names.canonical_device_name(raw) == ""
