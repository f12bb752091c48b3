"""Situations that fleets have met, seen from the reading side; each must come out right on both databases."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

import pytest

from support.app_client import AppClient
from support.fleet import fleet, gpu_ids, post, post_judged, read, ridge
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof


def medians(answer: Any) -> dict[tuple[str, int], float]:
    """Median pi by dtype and number of peers."""
    return {(found["dtype"], found["peers"]): found["pi_tflops"]["median"] for found in answer["ridges"]}


def test_names_that_changed_with_the_driver_are_one_group(client: AppClient) -> None:
    """FR-017: three spellings of one card, three reports each; the raw names stay visible."""
    names = ["Tesla V100-SXM2-16GB", "NVIDIA V100-SXM2-16GB", "V100-SXM2-16GB"]
    post_judged(
        client, [make_report(gpu__device=name, gpu__uuid=f"GPU-{n + 1}") for n, name in enumerate(names) for _ in "123"]
    )

    [device] = read(client, "/devices")["devices"]

    assert (device["gpus"], device["ridges"][0]["peers"], device["names"]) == (3, 3, sorted(names))


@pytest.mark.parametrize("name", ["NVIDIA Z999 1TB", "NVIDIA H100 80GB HBM3 Turbo"])
def test_a_model_without_table_entry_still_gets_fleet_comparison(client: AppClient, name: str) -> None:
    """FR-018: what is published stays unknown, never a wrong default."""
    post_judged(client, fleet([845.0, 845.0, 845.0, 700.0], gpu__device=name))

    answer = ridge(client, quote(name))

    assert answer["gpus"][0]["worst"]["deviation"] == pytest.approx(700 / 845 - 1)
    assert answer["ridges"][0]["published"] == {"pi_tflops": None, "beta_gbps": None, "ridge_flop_per_byte": None}
    assert (answer["ridges"][0]["pi_share_of_published"], answer["bandwidths"][0]["share_of_published"]) == (None, None)


def test_the_common_sxm_name_of_an_h100_is_known(client: AppClient) -> None:
    """FR-018: tables that know only "NVIDIA H100" fall back silently."""
    post_judged(client, fleet([700.0] * 4, gpu__device="NVIDIA H100 80GB HBM3"))

    published = ridge(client, "NVIDIA%20H100%2080GB%20HBM3")["ridges"][0]["published"]

    assert (published["pi_tflops"], published["beta_gbps"]) == (989.4, 3350.0)


def test_devices_without_a_name_are_told_apart_by_architecture_and_memory(client: AppClient) -> None:
    """FR-020: never one big group of nameless models."""
    chips = [("gfx908", 32), ("gfx90a", 64)]
    post(
        client,
        [
            make_report(
                gpu__device="", gpu__uuid=f"GPU-{arch}", gpu__architecture=arch, gpu__memory_bytes=gib * 1024**3
            )
            for arch, gib in chips
        ],
    )

    devices = read(client, "/devices")["devices"]

    assert [(device["name"], device["gpus"], device["names"]) for device in devices] == [
        ("gfx908 32 GiB", 1, []),
        ("gfx90a 64 GiB", 1, []),
    ]
    assert ridge(client, "gfx90a%2064%20GiB")["device"]["slug"] == "gfx90a-64-gib"


def test_a_laptop_part_is_no_other_product(client: AppClient) -> None:
    """FR-023: no fuzzy match."""
    names = ["NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090 Laptop GPU"]
    post(client, [make_report(gpu__device=name, gpu__uuid=f"GPU-{n + 1}") for n, name in enumerate(names)])

    assert [device["gpus"] for device in read(client, "/devices")["devices"]] == [1, 1, 1]


@pytest.mark.parametrize("uuid", ["00000000-0000-0000-0000-000000000000", "", "N/A", None])
def test_gpus_without_an_identity_never_merge(client: AppClient, uuid: str | None) -> None:
    """FR-026: virtual cards all report zeros; node and bus id tell them apart."""
    post(client, [make_report(gpu__uuid=uuid, gpu__pci_bus_id=f"0000:{slot}:00.0") for slot in ("05", "15")])

    ids = gpu_ids(ridge(client))

    assert [gpu_id.startswith("noid-") for gpu_id in ids] == [True, True]
    assert {read(client, f"/gpus/{gpu_id}")["pci_bus_id"] for gpu_id in ids} == {"0000:05:00.0", "0000:15:00.0"}


def test_long_identities_are_kept_whole(client: AppClient) -> None:
    """FR-028: two MIG slices that agree in the first 45 characters."""
    ids = [f"MIG-{'8a7d43b5-7863-3074-b797-0386fee29476/' * 2}{n}" for n in (1, 2)]
    post(client, [make_report(gpu__uuid=gpu_id) for gpu_id in ids])

    assert gpu_ids(ridge(client)) == sorted(ids)


def test_pcie_and_sxm_variants_are_separate_groups(client: AppClient) -> None:
    """FR-029: 1,630 GB/s is healthy for the one and would be half of the other."""
    for name, beta in (("NVIDIA H100 PCIe", 1630.0), ("NVIDIA H100 80GB HBM3", 3000.0)):
        post_judged(client, fleet([500.0] * 4, gpu__device=name, beta_gbps=beta, node__name=name, gpu__uuid=None))

    devices = {device["name"]: device for device in read(client, "/devices")["devices"]}

    assert {name: device["bandwidths"][0]["beta_gbps"]["median"] for name, device in devices.items()} == {
        "H100 80GB HBM3": 3000.0,
        "H100 PCIe": 1630.0,
    }
    assert ridge(client, "H100%20PCIe")["gpus"][0]["worst"]["deviation"] == 0


def test_a_mig_slice_is_not_compared_with_whole_cards(client: AppClient) -> None:
    """FR-031: pi a seventh, beta an eighth, and nothing wrong."""
    post_judged(client, fleet([280.0] * 4, gpu__device="NVIDIA A100-SXM4-40GB", beta_gbps=1400.0))
    slice_of_it = make_report(
        gpu__device="NVIDIA A100-SXM4-40GB",
        gpu__uuid="MIG-1",
        gpu__mig_profile="1g.5gb",
        gpu__memory_bytes=5 * 1024**3,
        pi_tflops=40.0,
        beta_gbps=175.0,
    )
    post_judged(client, [slice_of_it])

    answer = ridge(client, "A100-SXM4-40GB")

    assert medians(answer) == {("bfloat16", 4): 280.0, ("bfloat16", 1): 40.0}
    assert [row["worst"]["deviation"] for row in answer["gpus"]] == [0] * 5
    [sliced] = [found for found in answer["ridges"] if found["conditions"]["mig_profile"] == "1g.5gb"]
    assert (sliced["pi_share_of_published"], sliced["note"]) == (None, "too few peers to compare: 1 of at least 4")


def test_partitions_of_a_card_are_not_compared_with_whole_ones(client: AppClient) -> None:
    """FR-033: 64 gpus of one host in CPX, 8 cards in SPX elsewhere."""
    name = "AMD Instinct MI300X"
    post(
        client,
        [
            make_report(
                gpu__device=name,
                gpu__uuid=f"CPX-{n}",
                gpu__partition="CPX/NPS4",
                gpu__sm_count=38,
                pi_tflops=80.0,
                beta_gbps=530.0,
            )
            for n in range(64)
        ],
    )
    post_judged(
        client, fleet([650.0] * 8, gpu__device=name, gpu__partition="SPX/NPS1", gpu__sm_count=304, node__name="n2")
    )

    answer = ridge(client, quote(name), limit=100)

    assert medians(answer) == {("bfloat16", 64): 80.0, ("bfloat16", 8): 650.0}
    assert {row["worst"]["deviation"] for row in answer["gpus"]} == {0}
    assert len(answer["gpus"]) == 72


def test_a_contended_result_moves_no_median(client: AppClient) -> None:
    """FR-040: another process used the gpu; the gpu keeps its figure of before."""
    later = {"measured_from": "2026-11-21T02:00:00Z", "measured_to": "2026-11-21T02:01:00Z"}
    post_judged(client, fleet([845.0] * 4))
    post_judged(client, fleet([250.0] * 3, evidence__contended=True, evidence__other_processes=1, **later))

    answer = ridge(client)

    assert medians(answer) == {("bfloat16", 4): 845.0}
    assert [row["worst"]["deviation"] for row in answer["gpus"]] == [0] * 4


def test_a_gpu_that_only_ever_was_contended_has_no_figure(client: AppClient) -> None:
    """FR-040: and it is listed as unmeasured."""
    post_judged(client, [make_report(evidence__contended=True)])

    [row] = ridge(client)["gpus"]

    assert (row["flags"], row["ridges"]) == (["unmeasured"], [])


@pytest.mark.parametrize("reason", ["nvml_unknown_error", "driver_library_mismatch", "cuda_not_ready"])
def test_a_node_that_lost_its_gpus_is_unmeasured(client: AppClient, reason: str) -> None:
    """FR-046, FR-047, FR-048: the reason is shown, and no zero rates are."""
    post(client, [make_skipped_report(reason, outcome="failed", gpu=None)])

    node = read(client, "/nodes/node-01")

    assert (node["gpus"], node["notes"]) == (
        [],
        [f"the newest report is about the node as a whole: failed, {reason}"],
    )
    assert [entry["reported"] for entry in node["roster"]["gpus"]] == [False]


def test_float32_with_tf32_on_and_off_are_two_groups(client: AppClient) -> None:
    """FR-059, FR-060: 19.5 or 156 TFLOP/s by the default of a version; unknown is a third group."""
    switches: list[tuple[bool | None, float]] = [(True, 120.0), (False, 19.0), (None, 110.0)]
    post_judged(
        client,
        [
            make_report(
                gpu__uuid=f"GPU-{n + 1}",
                gpu__device="NVIDIA A100-SXM4-40GB",
                environment__allow_tf32=allowed,
                roofs=[compute_roof(pi, dtype="float32", out_dtype="float32"), memory_roof(1400.0)],
            )
            for n, (allowed, pi) in enumerate(switches)
        ],
    )

    answer = ridge(client, "A100-SXM4-40GB")

    assert medians(answer) == {("float32", 1): 19.0, ("float32_or_tf32", 1): 110.0, ("tf32", 1): 120.0}
    assert [row["worst"]["deviation"] for row in answer["gpus"]] == [0, 0, 0]


def test_runs_with_another_fill_are_not_mixed_in(client: AppClient) -> None:
    """FR-061: zeros draw less power and run up to 15 % faster."""
    post_judged(client, fleet([660.0] * 8))
    post_judged(client, [make_report(gpu__uuid="GPU-z", pi_tflops=750.0, sweep__fill="zeros")])

    answer = ridge(client)

    assert medians(answer) == {("bfloat16", 8): 660.0, ("bfloat16", 1): 750.0}
    assert {found["conditions"]["fill"] for found in answer["ridges"]} == {"normal", "zeros"}


def test_a_whole_model_below_its_datasheet_accuses_nobody(client: AppClient) -> None:
    """FR-065: 1.1 of 4.8 TB/s on all eight is said of the model."""
    post_judged(client, fleet([500.0] * 8, beta_gbps=1116.0))

    answer = ridge(client)

    assert answer["bandwidths"][0]["share_of_published"] == pytest.approx(1116 / 4800)
    assert answer["gpus"][0]["worst"]["deviation"] == 0


def test_a_name_with_slashes_is_read_back_by_its_address(client: AppClient) -> None:
    """FR-070: %2F in a path."""
    post(client, [make_report(gpu__device="NVIDIA GeForce RTX 3060/PCIe/SSE2")])

    answer = client.get("/devices/NVIDIA%20GeForce%20RTX%203060%2FPCIe%2FSSE2/ridge")

    assert answer.status_code == 200


@pytest.mark.parametrize("ahead", [timedelta(minutes=30), timedelta(days=3), timedelta(days=365 * 80)])
def test_a_clock_that_runs_ahead_is_not_newest_for_ever(client: AppClient, ahead: timedelta) -> None:
    """FR-078: the next report of an honest clock is newer, and the wrong one is flagged."""
    wrong = (datetime.now(timezone.utc) + ahead).isoformat()
    post_judged(client, [make_report(pi_tflops=100.0, measured_from=wrong, measured_to=wrong)])
    [flagged] = ridge(client)["gpus"]
    right = datetime.now(timezone.utc).isoformat()
    post_judged(client, [make_report(pi_tflops=845.0, measured_from=right, measured_to=right)])

    gpu = read(client, "/gpus/GPU-00000001")

    assert flagged["flags"] == ["clock_ahead"]
    assert [report["clock_ahead"] for report in gpu["reports"]] == [False, True]
    assert gpu["ridges"][0]["flags"] == []


def test_some_minutes_of_drift_are_no_matter(client: AppClient) -> None:
    """FR-079: two minutes ahead."""
    moment = (datetime.now(timezone.utc) + timedelta(minutes=2)).isoformat()
    post_judged(client, [make_report(measured_from=moment, measured_to=moment)])

    assert ridge(client)["gpus"][0]["flags"] == []


def test_times_with_and_without_a_zone_sort_together(client: AppClient) -> None:
    """FR-081: stored as UTC, the same on both databases."""
    moments = ["2026-01-01T00:00:00", "2026-01-01T08:00:00+09:00", "2026-01-01T01:00:00Z", "2025-12-31T22:00:00-03:00"]
    post(client, [make_report(measured_from=moment, measured_to=moment) for moment in moments])

    reports = read(client, "/gpus/GPU-00000001")["reports"]

    assert [report["measured_to"] for report in reports] == [
        "2026-01-01T01:00:00Z",
        "2026-01-01T01:00:00Z",
        "2026-01-01T00:00:00Z",
        "2025-12-31T23:00:00Z",
    ]


def test_a_gpu_keeps_one_history_over_restarts_of_its_pod(client: AppClient) -> None:
    """FR-082: the host's name changed; the latest is shown, and both count once more than an hour lies between."""
    hosts = [("agent-abcde", "2026-11-20T01:00:00Z"), ("agent-fghij", "2026-11-20T03:00:00Z")]
    post_judged(
        client, [make_report(node__name=host, measured_from=at, measured_to=at) for host, at in reversed(hosts)]
    )

    [row] = ridge(client)["gpus"]

    assert (row["node"], row["ridges"][0]["reports"]) == ("agent-fghij", 2)


def test_two_machines_of_one_name_keep_their_gpus(client: AppClient) -> None:
    """FR-083: told apart by UUID, and the clash is visible."""
    post(client, [make_report(gpu__uuid=f"GPU-{n}", node__name="localhost") for n in (1, 2)])

    node = read(client, "/nodes/localhost")

    assert [gpu["gpu_id"] for gpu in node["gpus"]] == ["GPU-1", "GPU-2"]
    assert len(node["notes"]) == 1


def test_a_short_name_in_two_clusters_is_two_nodes(client: AppClient) -> None:
    """FR-085: the cluster is part of a node's identity."""
    post(client, [make_report(gpu__uuid=f"GPU-{at}", node__name="n01", node__cluster=at) for at in ("east", "west")])

    found = {row["gpu_id"]: (row["cluster"], row["node"]) for row in ridge(client)["gpus"]}

    assert found == {"GPU-east": ("east", "n01"), "GPU-west": ("west", "n01")}
    assert client.get("/nodes/n01").status_code == 409


def test_a_node_that_is_slow_as_a_whole_is_seen(client: AppClient) -> None:
    """FR-098: peers are the whole fleet, not the node."""
    for node in range(10):
        factor = 0.88 if node == 3 else 1.0
        post_judged(
            client,
            [
                make_report(gpu__uuid=f"GPU-{node}-{n}", node__name=f"n{node}", pi_tflops=845.0 * factor)
                for n in range(1, 5)
            ],
        )

    slow = [row["node"] for row in ridge(client)["gpus"] if row["worst"]["deviation"] < -0.03]

    assert slow == ["n3"] * 4
