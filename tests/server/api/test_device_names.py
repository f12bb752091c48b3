"""A device is read back by any of its names."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from support.app_client import AppClient
from support.fleet import post
from support.reports import make_report

TRICKY = [
    "NVIDIA GeForce RTX 3060/PCIe/SSE2",
    "a/ridge",
    "b/ridge/ridge",
    "x?dtype=int8",
    "x#y",
    "100 % fast",
    "%2F",
    "a+b&c=d;e",
    "Ünïcode 加速器 🚀",
    "/leading",
    "trailing/",
    "//",
    "\"quoted\" 'name' <b>",
    "back\\slash",
    "..",
    "../../etc/passwd",
    "x" * 256,
]


def called(client: AppClient, name: str) -> str | None:
    """Canonical name of the device that a name in an address finds."""
    answer = client.get(f"/devices/{quote(name, safe='')}/ridge")
    assert answer.status_code in {200, 404}
    return answer.json()["device"]["name"] if answer.status_code == 200 else None


@pytest.mark.parametrize("name", TRICKY)
def test_any_name_that_a_driver_gave_can_be_read_back(client: AppClient, name: str) -> None:
    """Percent-encoded as a whole; a client may resolve dots by itself, then the slug is left."""
    post(client, [make_report(gpu__device=name)])
    [device] = client.get("/devices").json()["devices"]

    found = {called(client, device["slug"])} | ({called(client, name)} if name != ".." else set())

    assert found == {device["name"]}


def test_slashes_may_also_be_written_as_they_are(client: AppClient) -> None:
    """Some proxies decode %2F on the way."""
    post(client, [make_report(gpu__device="NVIDIA GeForce RTX 3060/PCIe/SSE2")])

    answer = client.get("/devices/RTX%203060/PCIe/SSE2/ridge")

    assert answer.status_code == 200


def test_raw_names_canonical_name_and_slug_all_find_the_device(client: AppClient) -> None:
    """Whatever an operator has at hand."""
    post(client, [make_report(gpu__device="Tesla T4"), make_report(gpu__device="NVIDIA T4")])

    assert {called(client, name) for name in ("Tesla T4", "NVIDIA T4", "T4", "t4")} == {"T4"}


@pytest.mark.parametrize("name", ["H20", "h200 ", "H200%", "nvidia h200", "NVIDIA H200 ", "GeForce H200", "H2*", ""])
def test_nothing_is_matched_but_what_was_reported(one_report: AppClient, name: str) -> None:
    """An H20 is no H200."""
    assert called(one_report, name) is None


@pytest.mark.parametrize("name", ["H200\x00", "\x00", "H200\n", "\x1b[31m", "\ud800"])
def test_a_name_that_no_report_can_have_is_not_found(empty_server: AppClient, name: str) -> None:
    """Not even PostgreSQL, which refuses such text, makes an error of it."""
    answer = empty_server.get(f"/devices/{quote(name, safe='', errors='surrogatepass')}/ridge")

    assert answer.status_code == 404


def test_a_raw_name_goes_before_another_devices_canonical_name(client: AppClient) -> None:
    """A card that calls itself "NVIDIA NVIDIA X" is "NVIDIA X" here, and must not take that name from the X."""
    post(client, [make_report(gpu__device="NVIDIA X", gpu__uuid="GPU-1")])
    post(client, [make_report(gpu__device="NVIDIA NVIDIA X", gpu__uuid="GPU-2")])

    assert [called(client, name) for name in ("NVIDIA X", "NVIDIA NVIDIA X")] == ["X", "NVIDIA X"]


def test_two_devices_with_one_slug_stay_apart(client: AppClient) -> None:
    """The second gets another slug."""
    names = ["RTX 3060/PCIe", "RTX-3060 PCIe"]
    post(client, [make_report(gpu__device=name, gpu__uuid=f"GPU-{n + 1}") for n, name in enumerate(names)])

    devices = client.get("/devices").json()["devices"]

    assert {called(client, device["slug"]) for device in devices} == set(names)
