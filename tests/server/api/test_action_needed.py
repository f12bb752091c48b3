"""What needs action whatever the rates are, in every answer that tells of a gpu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.app_client import AppClient
from support.databases import Databases
from support.evaluated import SOUND, gpu_id, runs
from support.fleet import AS_TEXT, read
from support.html_pages import page_of
from support.read_only import fleet_to_read
from support.reports import compute_roof, memory_roof

ILL, LINKED, WRONG = gpu_id("n02", 7), gpu_id("n01", 3), gpu_id("n01", 5)


def with_links(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same reports with a link each, slow for one gpu, and what else is wrong with others."""
    for report in reports:
        is_narrow = report["gpu"]["uuid"] == LINKED
        link = memory_roof(3.0 if is_narrow else 55.0, kernel="h2d", level="pcie")
        phases = [{"phase": "link h2d", "pcie_generation": 1 if is_narrow else 5, "pcie_width": 16}]
        report["evidence"] = {**report["evidence"], "phases": phases}
        report["roofs"] = [*report["roofs"], link]
        if report["gpu"]["uuid"] == ILL:
            report["evidence"] |= {"remapped_rows_pending": True, "ecc_uncorrected": 12}
        if report["gpu"]["uuid"] == WRONG:
            report["roofs"] = [compute_roof(4000.0), link]
    return reports


@pytest.fixture(scope="module")
def ill(databases: Databases) -> Iterator[AppClient]:
    """Sixteen fast gpus on two nodes: one waits for a repair, one has a slow link, one measured wrongly."""
    with fleet_to_read(databases, with_links([*runs("n01", [SOUND] * 8), *runs("n02", [SOUND] * 8)])) as client:
        yield client


def text_of(client: AppClient, url: str) -> str:
    """An answer as text, on one line."""
    return " ".join(client.get(url, headers=AS_TEXT).text.split())


def test_a_gpu_that_is_ill_is_ok_and_says_what_to_do(ill: AppClient) -> None:
    verdict = read(ill, f"/gpus/{ILL}")["verdict"]

    assert (verdict["state"], verdict["reasons"], verdict["next_step"]) == ("ok", [], None)
    assert [own["code"] for own in verdict["health"]] == ["repair_pending", "ecc_uncorrected"]
    assert "drain the node and reset the gpu" in verdict["health"][0]["next_step"]
    assert "action needed: a memory repair waits for a reset → drain the node" in text_of(ill, f"/gpus/{ILL}")
    assert "A memory repair waits for a reset: drain the node" in " ".join(page_of(ill, f"/ui/gpus/{ILL}").text.split())


def test_a_slow_link_is_no_outlier_and_stands_once(ill: AppClient) -> None:
    answer = read(ill, f"/gpus/{LINKED}")
    verdict, text = answer["verdict"], text_of(ill, f"/gpus/{LINKED}")

    assert (verdict["state"], verdict["flags"]) == ("ok", ["slow_link"])
    assert verdict["text"].startswith("within the limits of its peers; its link pcie h2d float32 burst 94.5 % below")
    assert [own["code"] for own in verdict["health"]] == ["slow_link"]
    assert verdict["reasons"][0]["text"].startswith("link under load: PCIe generation 1 (peers 5)")
    assert answer["other_roofs"] == []
    assert "outlier" not in text
    assert text.count("→") == 1
    assert "outlier" not in page_of(ill, f"/ui/gpus/{LINKED}").row("pcie h2d float32 burst")


def test_an_implausible_gpu_names_roof_value_and_limit(ill: AppClient) -> None:
    verdict = read(ill, f"/gpus/{WRONG}")["verdict"]

    assert verdict["state"] == "implausible"
    assert verdict["text"].startswith("pi bfloat16 burst 4000 TFLOP/s is above 1237 TFLOP/s, 1.25 × the published peak")
    assert verdict["next_step"].startswith("do not trust its measurements")
    [alert] = [own for own in read(ill, "/alerts")["alerts"] if own["kind"] == "gpu"]
    assert "is above 1237 TFLOP/s" in alert["summary"]


def test_the_fleet_counts_what_needs_action_and_is_not_called_good(ill: AppClient) -> None:
    fleet, text = read(ill, "/fleet"), text_of(ill, "/fleet")

    assert {own["code"]: (own["gpus"], own["nodes"]) for own in fleet["action_needed"]} == {
        "repair_pending": (1, ["n02"]),
        "implausible_rate": (1, ["n01"]),
        "ecc_uncorrected": (1, ["n02"]),
        "slow_link": (1, ["n01"]),
    }
    assert "action needed: 1 repair pending, 1 implausible rate, 1 ecc uncorrected, 1 slow link" in fleet["sentence"]
    assert "action needed: slow link of 1 gpu on n01 → reseat card and riser" in text
    assert "1 gpu on n02. Drain the node" in " ".join(page_of(ill, "/").text.split())


def test_nodes_say_which_of_them_have_such_gpus(ill: AppClient) -> None:
    nodes = {own["name"]: own["action_needed"] for own in read(ill, "/nodes")["nodes"]}

    assert nodes == {
        "n01": {"implausible_rate": 1, "slow_link": 1},
        "n02": {"repair_pending": 1, "ecc_uncorrected": 1},
    }
    assert "n02: action needed: repair pending of 1 gpu" in text_of(ill, "/nodes")
    assert f"{ILL}: action needed: a memory repair waits for a reset" in text_of(ill, "/nodes/n02")
    assert "action needed: repair pending (1)" in page_of(ill, "/ui/nodes").text
    assert "action needed: a memory repair waits for a reset" in page_of(ill, "/ui/nodes/n02").text


def test_a_repair_that_waits_opens_an_alert_of_its_own_kind(ill: AppClient) -> None:
    [alert] = [own for own in read(ill, "/alerts")["alerts"] if own["kind"] == "health"]

    assert (alert["state"], alert["gpu_id"], alert["node"]) == ("repair_pending", ILL, "n02")
    assert "a memory repair waits for a reset; drain the node" in alert["summary"]
