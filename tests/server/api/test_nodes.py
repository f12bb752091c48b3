"""One node."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from support.app_client import AppClient
from support.fleet import AS_TEXT, post, read
from support.reports import make_report, make_skipped_report


def run_of(
    gpus: list[str], *, hour: int, listed: list[str] | None = None, complete: bool = True
) -> list[dict[str, Any]]:
    """Reports of one run of node-01: one for each gpu, all with the roster `listed` (those gpus by default)."""
    roster = [{"uuid": gpu, "index": n} for n, gpu in enumerate(gpus if listed is None else listed)]
    return [
        make_report(
            gpu__uuid=gpu,
            gpu__index=n,
            gpu__pci_bus_id=f"0000:{n:02X}:00.0",
            run__roster=roster,
            run__roster_complete=complete,
            measured_from=f"2026-11-20T{hour:02}:00:00Z",
            measured_to=f"2026-11-20T{hour:02}:0{n}:30Z",
        )
        for n, gpu in enumerate(gpus)
    ]


def node_failure(reason: str, *, hour: int, **changes: Any) -> dict[str, Any]:
    """A report about the node as a whole."""
    return make_skipped_report(
        reason,
        outcome="failed",
        gpu=None,
        run__roster=None,
        run__roster_complete=None,
        measured_from=f"2026-11-20T{hour:02}:00:00Z",
        measured_to=f"2026-11-20T{hour:02}:00:01Z",
        **changes,
    )


def test_a_node_lists_its_gpus_with_their_newest_outcome(client: AppClient) -> None:
    """By index."""
    post(client, run_of(["GPU-c", "GPU-b", "GPU-a1"], hour=2))
    busy = make_skipped_report(
        "busy",
        gpu__uuid="GPU-b",
        gpu__index=1,
        measured_from="2026-11-20T03:00:00Z",
        measured_to="2026-11-20T03:00:01Z",
    )
    post(client, [busy])

    node = read(client, "/nodes/node-01")

    assert [(gpu["gpu_id"], gpu["outcome"], gpu["reason"]) for gpu in node["gpus"]] == [
        ("GPU-c", "measured", None),
        ("GPU-b", "skipped", "busy"),
        ("GPU-a1", "measured", None),
    ]
    assert (node["cluster"], node["labels"], node["gpus"][0]["device"]) == ("east", {"rack": "r1"}, "H200")


def test_a_gpu_that_a_newer_complete_roster_does_not_list_is_missing(client: AppClient) -> None:
    """Eight gpus, then seven."""
    gpus = [f"GPU-b{n}" for n in range(8)]
    post(client, run_of(gpus, hour=2))
    post(client, run_of(gpus[:7], hour=3))

    node = read(client, "/nodes/node-01")

    assert node["missing"] == ["GPU-b7"]
    assert [gpu["missing"] for gpu in node["gpus"]] == [False] * 7 + [True]


def lost_gpu(uuid: str, *, hour: int, roster: list[dict[str, Any]]) -> dict[str, Any]:
    """The report of a gpu that its driver has lost, as an agent sends it ahead of the others of its run."""
    return make_skipped_report(
        "gpu_lost",
        outcome="failed",
        gpu={"uuid": uuid, "pci_bus_id": "0000:03:00.0", "index": 3, "device": "NVIDIA H200"},
        run__roster=roster,
        run__roster_complete=True,
        measured_from=f"2026-11-20T{hour:02}:00:00Z",
        measured_to=f"2026-11-20T{hour:02}:00:00Z",
    )


def test_a_gpu_that_the_driver_has_lost_is_missing_at_once(client: AppClient) -> None:
    """It is listed, as lost, and its own report says why."""
    gpus = [f"GPU-b{n}" for n in range(4)]
    post(client, run_of(gpus, hour=2))
    roster = [{"uuid": gpu, "index": n, "state": "lost" if n == 3 else None} for n, gpu in enumerate(gpus)]
    others = [{**report, "run": {**report["run"], "roster": roster}} for report in run_of(gpus[:3], hour=3)]
    post(client, [lost_gpu("GPU-b3", hour=3, roster=roster), *others])

    node = read(client, "/nodes/node-01")
    lost = node["gpus"][3]

    assert node["missing"] == ["GPU-b3"]
    assert (lost["gpu_id"], lost["missing"], lost["outcome"], lost["reason"]) == ("GPU-b3", True, "failed", "gpu_lost")
    assert [entry["state"] for entry in node["roster"]["gpus"]] == [None, None, None, "lost"]
    assert "lost, by what the driver says: GPU-b3" in client.get("/nodes/node-01", headers=AS_TEXT).text


def test_a_state_that_this_server_does_not_know_makes_nothing_missing(client: AppClient) -> None:
    """A later agent may send one."""
    gpus = ["GPU-b0", "GPU-b1"]
    post(client, run_of(gpus, hour=2))
    roster = [{"uuid": gpu, "index": n, "state": "asleep"} for n, gpu in enumerate(gpus)]
    post(client, [{**report, "run": {**report["run"], "roster": roster}} for report in run_of(gpus[:1], hour=3)])

    assert read(client, "/nodes/node-01")["missing"] == []


def test_rosters_that_arrive_in_another_order_give_the_same_answer(client: AppClient) -> None:
    """The newest one counts, not the last to come."""
    gpus = [f"GPU-b{n}" for n in range(4)]
    post(client, run_of(gpus[:3], hour=3))
    post(client, run_of(gpus, hour=2))

    assert read(client, "/nodes/node-01")["missing"] == ["GPU-b3"]


def test_an_incomplete_roster_proves_nothing(client: AppClient) -> None:
    """A container sees a part of the node."""
    gpus = [f"GPU-b{n}" for n in range(4)]
    post(client, run_of(gpus, hour=2, complete=False))
    post(client, run_of(gpus[:1], hour=3, complete=False))

    node = read(client, "/nodes/node-01")

    assert (node["missing"], node["roster"]) == ([], None)


def test_a_gpu_that_reported_after_the_roster_is_not_missing(client: AppClient) -> None:
    """It was put in meanwhile."""
    post(client, run_of(["GPU-b0"], hour=2))
    post(client, run_of(["GPU-b1"], hour=3, complete=False))

    assert read(client, "/nodes/node-01")["missing"] == []


def test_a_gpu_that_moved_is_missing_nowhere(client: AppClient) -> None:
    """Its newest report says where it is."""
    post(client, run_of(["GPU-b0", "GPU-b1"], hour=2))
    elsewhere = make_report(
        gpu__uuid="GPU-b1",
        node__name="node-02",
        run__roster=None,
        measured_from="2026-11-20T03:00:00Z",
        measured_to="2026-11-20T03:00:30Z",
    )
    post(client, [elsewhere, *run_of(["GPU-b0"], hour=4)])

    old, new = read(client, "/nodes/node-01"), read(client, "/nodes/node-02")

    assert ([gpu["gpu_id"] for gpu in old["gpus"]], old["missing"]) == (["GPU-b0"], [])
    assert [gpu["gpu_id"] for gpu in new["gpus"]] == ["GPU-b1"]


def test_a_listed_gpu_that_never_reported_is_shown(client: AppClient) -> None:
    """Seen by the driver, measured by nobody."""
    post(client, run_of(["GPU-b0"], hour=2, listed=["GPU-b0", "GPU-b1"]))

    roster = read(client, "/nodes/node-01")["roster"]

    assert [(entry["gpu_id"], entry["reported"]) for entry in roster["gpus"]] == [("GPU-b0", True), ("GPU-b1", False)]
    assert roster["seen"] == "2026-11-20T02:00:30Z"


def test_reports_about_the_node_are_listed_newest_first(client: AppClient) -> None:
    """And the newest of all is pointed out, for the gpus' outcomes are older."""
    post(client, run_of(["GPU-b0"], hour=2))
    post(client, [node_failure("nvml_unknown_error", hour=4), node_failure("driver_library_mismatch", hour=3)])

    node = read(client, "/nodes/node-01")

    assert [report["reason"] for report in node["reports"]] == ["nvml_unknown_error", "driver_library_mismatch"]
    assert node["notes"] == ["the newest report is about the node as a whole: failed, nvml_unknown_error"]


def test_a_failure_that_is_over_is_history(client: AppClient) -> None:
    """Listed, not pointed out."""
    post(client, [node_failure("nvml_unknown_error", hour=1), *run_of(["GPU-b0"], hour=2)])

    node = read(client, "/nodes/node-01")

    assert (len(node["reports"]), node["notes"]) == (1, [])


def test_a_node_that_never_measured_anything_is_there(client: AppClient) -> None:
    """With its reason and no gpus."""
    post(client, [node_failure("cuda_not_ready", hour=2)])

    node = read(client, "/nodes/node-01")

    assert (node["gpus"], node["reports"][0]["reason"]) == ([], "cuda_not_ready")


def test_two_gpus_in_one_slot_are_pointed_out(client: AppClient) -> None:
    """Two hosts of one name, or a replaced card."""
    post(client, [make_report(gpu__uuid=f"GPU-b{n}", node__name="localhost") for n in range(2)])

    [note] = read(client, "/nodes/localhost")["notes"]

    assert "GPU-b0, GPU-b1 report the same PCI bus id 0000:1A:00.0" in note


def test_slices_of_one_card_share_its_slot(client: AppClient) -> None:
    """That is no clash."""
    post(client, [make_report(gpu__uuid=f"MIG-b{n}", gpu__mig_profile="1g.18gb") for n in range(7)])

    node = read(client, "/nodes/node-01")

    assert (len(node["gpus"]), node["notes"]) == (7, [])


def test_a_name_in_several_clusters_is_asked_back(client: AppClient) -> None:
    """With the clusters in the answer."""
    post(client, [make_report(gpu__uuid=f"GPU-{at}", node__cluster=at) for at in ("west", "east")])

    answer = client.get("/nodes/node-01")

    assert (answer.status_code, answer.json()["code"]) == (409, "ambiguous_node")
    assert answer.json()["clusters"] == ["east", "west"]
    assert "?cluster=" in answer.json()["detail"]
    assert [gpu["gpu_id"] for gpu in read(client, "/nodes/node-01", cluster="west")["gpus"]] == ["GPU-west"]


def test_a_simulated_node_is_given_only_where_asked_for(client: AppClient) -> None:
    """It does not make a name ambiguous either."""
    post(client, [make_report(gpu__uuid=f"GPU-{at}", node__cluster=at) for at in ("simulated", "east")])
    post(client, [make_report(gpu__uuid="GPU-s", node__cluster="simulated", node__name="s1")])

    assert read(client, "/nodes/node-01")["cluster"] == "east"
    assert read(client, "/nodes/node-01", cluster="simulated")["cluster"] == "simulated"
    assert client.get("/nodes/s1").status_code == 404


@pytest.mark.parametrize(
    "url", ["/nodes/node-02", "/nodes/NODE-01", "/nodes/", "/nodes/%00", "/nodes/node-01?cluster=x"]
)
def test_an_unknown_node_is_a_problem_that_says_where_to_look(one_report: AppClient, url: str) -> None:
    """Nothing is guessed."""
    answer = one_report.get(url)

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_node")
    assert "GET /devices" in answer.json()["detail"]


@pytest.mark.parametrize("name", ["rack 1/node 1", "n?1", "n#1", "100%", "ノード"])
def test_any_name_can_be_read_back(client: AppClient, name: str) -> None:
    """Percent-encoded as a whole."""
    post(client, [make_report(node__name=name)])

    assert read(client, f"/nodes/{quote(name, safe='')}")["name"] == name


def test_the_text_form_lists_whole_ids_and_what_is_missing(client: AppClient) -> None:
    """So that a gpu can be asked for by its id."""
    gpus = ["GPU-8a7d43b5-7863-3074-b797-0386fee29476", "GPU-795b929e-9a9a-80fd-ea7b-5bf55eb561a4"]
    post(client, run_of(gpus, hour=2))
    post(client, [*run_of(gpus[:1], hour=3, listed=[gpus[0], "GPU-new"]), node_failure("cuda_not_ready", hour=4)])

    text = client.get("/nodes/node-01", headers=AS_TEXT).text

    for expected in (*gpus, "rack=r1", "2 × H200", "never reported: GPU-new", "cuda_not_ready"):
        assert expected in text
    [gone] = [line for line in text.splitlines() if line.startswith(gpus[1])]
    assert "missing" in gone
