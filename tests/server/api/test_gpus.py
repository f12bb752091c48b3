"""One gpu."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from support.app_client import AppClient
from support.evaluated import evaluate
from support.fleet import AS_TEXT, fleet, post, post_judged, read
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof

SOON = "2026-11-20T12:00:00Z"


def test_a_gpu_says_who_and_where_it_is(client: AppClient) -> None:
    """As its newest report describes it."""
    post(client, [make_report(gpu__mig_profile="1g.18gb")])

    gpu = read(client, "/gpus/GPU-00000001")

    assert gpu["device"] == {"name": "H200", "slug": "h200", "names": ["NVIDIA H200"]}
    assert (gpu["cluster"], gpu["node"], gpu["index"], gpu["pci_bus_id"]) == ("east", "node-01", 0, "0000:1A:00.0")
    assert (gpu["memory_bytes"], gpu["sm_count"], gpu["architecture"]) == (150754820096, 132, "sm_90")
    assert (gpu["mig_profile"], gpu["partition"]) == ("1g.18gb", None)
    assert gpu["first_seen"] == gpu["last_seen"] == "2026-11-20T02:00:20Z"


def test_its_roofs_stand_beside_the_median_of_its_peers(client: AppClient) -> None:
    """With their number."""
    post_judged(client, fleet([845.0, 840.0, 850.0, 600.0]))

    gpu = read(client, "/gpus/GPU-a003")

    [found] = gpu["ridges"]
    assert (found["pi_tflops"], found["pi_median_tflops"], found["peers"]) == (600.0, 842.5, 4)
    assert found["pi_deviation"] == pytest.approx(600.0 / 842.5 - 1)
    assert gpu["worst"]["deviation"] == found["pi_deviation"]
    assert gpu["bandwidths"][0]["beta_median_gbps"] == 4430.0


def test_roofs_that_are_not_compared_are_shown(client: AppClient) -> None:
    """Other streams, the best of a search; a link that is compared stands in the verdict, and there alone."""
    others = [
        memory_roof(4100.0, kernel="copy"),
        memory_roof(55.0, kernel="h2d", level="pcie"),
        compute_roof(871.0, kernel="gemm_best"),
    ]
    post_judged(client, [make_report(roofs=[compute_roof(845.0), *others])])

    answer = read(client, "/gpus/GPU-00000001")
    shown = answer["other_roofs"]

    assert [own["roof"]["kernel"] for own in answer["verdict"]["links"]] == ["h2d"]
    assert [(roof["kernel"], roof["level"], roof["value"], roof["unit"]) for roof in shown] == [
        ("gemm_best", "device", 871.0, "TFLOP/s"),
        ("copy", "device", 4100.0, "GB/s"),
    ]


def test_its_reports_are_listed_newest_first(client: AppClient) -> None:
    """By when they were measured, whatever the order of arrival; those without a time come last."""
    days = ["2026-11-22", "2026-11-20", "2026-11-21"]
    timed = [make_report(measured_from=f"{day}T02:00:00Z", measured_to=f"{day}T02:01:00Z") for day in days]
    timeless = make_report(measured_from=None, measured_to=None, run__kind="import")
    post(client, [timeless, *timed])

    gpu = read(client, "/gpus/GPU-00000001")

    assert [report["measured_to"] for report in gpu["reports"]] == [
        *(f"{day}T02:01:00Z" for day in sorted(days, reverse=True)),
        None,
    ]
    assert gpu["latest"] == gpu["reports"][0]


def test_the_list_of_reports_is_bounded(client: AppClient) -> None:
    """Newest 20, or as many as asked for."""
    post(client, [make_skipped_report("busy") for _ in range(25)])

    assert [len(read(client, "/gpus/GPU-00000001", limit=n)["reports"]) for n in (3, 20, 1000)] == [3, 20, 25]
    assert len(read(client, "/gpus/GPU-00000001")["reports"]) == 20


def test_the_latest_outcome_is_there_also_when_nothing_was_measured(client: AppClient) -> None:
    """With its reason; the figures of before stay."""
    busy = make_skipped_report("busy", measured_from="2026-11-21T02:00:00Z", measured_to="2026-11-21T02:00:01Z")
    post_judged(client, [make_report(), busy])

    gpu = read(client, "/gpus/GPU-00000001")

    assert (gpu["latest"]["outcome"], gpu["latest"]["reason"]) == ("skipped", "busy")
    assert gpu["ridges"][0]["pi_tflops"] == 845.0


def test_a_gpu_that_never_was_measured_is_flagged(client: AppClient) -> None:
    """And has no figures."""
    post_judged(client, [make_skipped_report("mig_without_slice", outcome="unsupported")])

    gpu = read(client, "/gpus/GPU-00000001")

    assert (gpu["flags"], gpu["ridges"], gpu["worst"]) == (["unmeasured"], [], None)


def test_measurements_without_a_time_are_listed_and_never_compared(client: AppClient) -> None:
    """An import that never said when."""
    post(client, [make_report(measured_from=None, measured_to=None, run__kind="import")])

    gpu = read(client, "/gpus/GPU-00000001")

    assert (gpu["ridges"], len(gpu["reports"]), gpu["node"]) == ([], 1, "node-01")


def test_a_gpu_without_a_uuid_is_read_by_its_stand_in(client: AppClient) -> None:
    """Which the list of its device gives."""
    post(client, [make_report(gpu__uuid=None)])
    [row] = client.get("/devices/h200/ridge").json()["gpus"]

    assert row["gpu_id"].startswith("noid-")
    assert read(client, f"/gpus/{row['gpu_id']}")["pci_bus_id"] == "0000:1A:00.0"


@pytest.mark.parametrize("gpu_id", ["MIG-GPU-1/2/3", "GPU-1?x", "GPU-1#x", "GPU 1 %", "GPU-é"])
def test_any_identity_can_be_read_back(client: AppClient, gpu_id: str) -> None:
    """Percent-encoded as a whole."""
    post(client, [make_report(gpu__uuid=gpu_id)])

    assert read(client, f"/gpus/{quote(gpu_id, safe='')}")["gpu_id"] == gpu_id


def test_as_of_an_earlier_time_it_is_where_it_was(client: AppClient) -> None:
    """Cards are moved."""
    moved = make_report(
        node__name="node-02",
        pi_tflops=1.0,
        measured_from="2026-11-21T02:00:00Z",
        measured_to="2026-11-21T02:01:00Z",
    )
    post_judged(client, [make_report(), moved])

    then, now = read(client, "/gpus/GPU-00000001", as_of=SOON), read(client, "/gpus/GPU-00000001")

    assert (then["node"], now["node"]) == ("node-01", "node-02")
    assert (then["ridges"][0]["pi_tflops"], now["ridges"][0]["pi_tflops"]) == (845.0, 423.0)
    assert (len(then["reports"]), len(now["reports"])) == (1, 2)


@pytest.mark.parametrize("gpu_id", ["GPU-2", "gpu-00000001", "", "%00", "GPU-00000001%00"])
def test_an_unknown_gpu_is_a_problem_that_says_where_to_look(one_report: AppClient, gpu_id: str) -> None:
    """Nothing is guessed."""
    answer = one_report.get(f"/gpus/{gpu_id}")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_gpu")
    assert "GET /devices" in answer.json()["detail"]


def test_its_age_is_told_by_our_clock(client: AppClient) -> None:
    """A node's clock may be an hour behind."""
    now = datetime.now(timezone.utc)
    an_hour_behind = now - timedelta(hours=1)
    stamp = an_hour_behind.isoformat()
    post_judged(client, [make_report(measured_from=stamp, measured_to=stamp)], sent_at=stamp)
    evaluate(client.database_url)

    [found] = read(client, "/gpus/GPU-00000001")["ridges"]

    assert datetime.fromisoformat(found["measured_to"].replace("Z", "+00:00")) == an_hour_behind
    assert 0 <= found["age_s"] < 3600


def test_the_text_form_has_identity_figures_and_reports(client: AppClient) -> None:
    """The id of a report is whole, so that it can be asked for."""
    report = make_report()
    post_judged(client, [report, make_skipped_report("busy")])

    text = client.get("/gpus/GPU-00000001", headers=AS_TEXT).text

    for expected in (
        "gpu GPU-00000001",
        "node-01 in cluster east, index 0",
        "140 GiB",
        "845",
        report["report_id"],
        "busy",
    ):
        assert expected in text
