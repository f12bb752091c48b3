"""An answer as of an earlier time is the answer that was given then."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from fleetridge_server.evaluation import judgement
from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, runs
from support.fleet import gpu_ids, post, post_judged, read, ridge
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof

PAGES: tuple[tuple[str, dict[str, str]], ...] = (
    ("/devices", {}),
    ("/devices/h200/ridge", {}),
    ("/devices/h200/ridge", {"since": "2025-11-03T00:00:00Z"}),
)


def days_reports(day: int) -> list[dict[str, Any]]:
    """Reports of a day of November; a gpu moves, one loses its name, one is new, one is no longer what it was."""
    reports = []
    for gpu in range(1, 6 + (day > 3)):
        moment = f"2025-11-{day:02}T02:0{gpu}:00Z"
        common: dict[str, Any] = {
            "gpu__uuid": f"GPU-{gpu}",
            "measured_from": moment,
            "measured_to": moment,
            "run__roster": None,  # only the newest one is kept, so that who was missing then is not known later
            "run__roster_complete": None,
        }
        if gpu == 2 and day > 2:
            only_the_uuid = {**common, "gpu": {"uuid": "GPU-2"}}
            del only_the_uuid["gpu__uuid"]
            reports.append(make_skipped_report("crashed", outcome="failed", **only_the_uuid))
            continue
        reports.append(
            make_report(
                roofs=[compute_roof(800.0 + 10 * gpu + day), memory_roof(4400.0 - gpu * day)],
                node__name=f"node-{gpu == 3 and day > 3}",
                gpu__device="NVIDIA H200 NVL" if gpu == 4 and day > 4 else "NVIDIA H200",
                gpu__index=gpu,
                gpu__pci_bus_id=f"0000:0{gpu}:00.0",
                **common,
            )
        )
    return reports


def test_the_past_is_answered_as_it_was_answered_then(client: AppClient) -> None:
    """Day by day, while it was the present and after a week of more reports."""
    moments = [f"2025-11-{day:02}T12:00:00Z" for day in range(1, 7)]
    then = []
    for day, moment in enumerate(moments, start=1):
        post(client, days_reports(day))
        then.append([read(client, page, as_of=moment, **params) for page, params in PAGES])
    later = [[read(client, page, as_of=moment, **params) for page, params in PAGES] for moment in moments]

    assert [without_names(answer) for answer in later] == [without_names(answer) for answer in then]


def without_names(value: Any) -> Any:
    """An answer without the names of devices, which have no time."""
    if isinstance(value, dict):
        return {name: without_names(part) for name, part in value.items() if name != "names"}
    return [without_names(part) for part in value] if isinstance(value, list) else value


def test_of_a_large_fleets_past_a_gpu_says_of_itself_what_the_list_says(
    client: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State and loss without the numbers; that nothing more is kept makes nobody unmeasured, and is said everywhere."""
    monkeypatch.setattr(judgement, "MOST_GPUS_AT_ONCE", 0)
    for days in (3, 2):
        post(client, runs("n01", [SOUND] * 7 + [SLOW], until=NOW - days * DAY))
        evaluate(client.database_url, at=NOW - days * DAY)
    past = (NOW - 3 * DAY + HOUR).isoformat()

    listed = ridge(client, as_of=past)
    alone = [read(client, f"/gpus/{row['gpu_id']}", as_of=past) for row in listed["gpus"]]

    short = [
        (own["verdict"]["state"], own["verdict"]["last_state"], own["verdict_since"], own["verdict"]["worst_loss"])
        for own in alone
    ]
    assert short == [
        tuple(row["verdict"][name] for name in ("state", "last_state", "since", "loss")) for row in listed["gpus"]
    ]
    assert [state for state, *_ in short] == ["outlier", *["ok"] * 7]
    assert {tuple(row["flags"]) for row in (*listed["gpus"], *alone)} == {()}
    compared = read(client, "/devices/h200/compare", by="driver", as_of=past)
    assert "no longer kept" in listed["evaluation_note"]
    assert compared["evaluation_note"] == alone[0]["evaluation_note"] == listed["evaluation_note"]


def test_a_failure_that_knows_only_the_uuid_leaves_the_gpu_in_its_device(client: AppClient) -> None:
    """Its row tells of the failure, and its figures stay."""
    post(client, [make_report()])
    failed = make_skipped_report("crashed", outcome="failed", gpu={"uuid": "GPU-00000001"}, **at(3))
    post_judged(client, [failed])

    [row] = ridge(client)["gpus"]
    gpu = read(client, "/gpus/GPU-00000001")

    assert (row["outcome"], row["reason"], row["ridges"][0]["pi_tflops"]) == ("failed", "crashed", 845.0)
    assert (gpu["device"]["name"], gpu["memory_bytes"], gpu["pci_bus_id"]) == ("H200", 150754820096, "0000:1A:00.0")
    assert [device["name"] for device in read(client, "/devices")["devices"]] == ["H200"]


def at(hour: int) -> dict[str, Any]:
    """Times of an hour of the day of `make_report`."""
    return {"measured_from": f"2026-11-20T{hour:02}:00:00Z", "measured_to": f"2026-11-20T{hour:02}:00:20Z"}


def test_a_gpu_without_a_name_takes_its_real_one_when_it_comes(client: AppClient) -> None:
    """Until then it goes by its memory, and as of then it still does."""
    post(client, [make_report(gpu__device=None, **at(2))])
    post(client, [make_skipped_report("crashed", outcome="failed", gpu={"uuid": "GPU-00000001"}, **at(3))])
    post(client, [make_report(**at(4))])

    names = {
        moment: [device["name"] for device in read(client, "/devices", as_of=moment)["devices"]]
        for moment in ("2026-11-20T03:30:00Z", "2026-11-20T12:00:00Z")
    }

    assert list(names.values()) == [["sm_90 141 GiB"], ["H200"]]


def test_a_history_of_the_past_is_that_of_the_device_of_then(client: AppClient) -> None:
    """As the gpu itself is."""
    post(client, [make_report(gpu__device=None, **at(2))])
    post_judged(client, [make_report(**at(4))])

    then = {"as_of": "2026-11-20T03:30:00Z"}
    gpu, history = read(client, "/gpus/GPU-00000001", **then), read(client, "/gpus/GPU-00000001/history", **then)

    assert history["device"] == gpu["device"]
    assert history["device"]["name"] == "sm_90 141 GiB"
    assert read(client, "/gpus/GPU-00000001/history")["device"]["name"] == "H200"


def test_every_page_of_a_history_of_the_past_says_what_was_said_then(client: AppClient) -> None:
    """Also where the page is asked for by its token alone."""
    falling = [845.0, 845.0, 845.0, 845.0, *(845.0 * 0.985**day for day in range(1, 9))]
    post_judged(
        client,
        [
            make_report(
                pi_tflops=pi if gpu == 0 else 845.0 + gpu,
                gpu__uuid=f"GPU-{gpu}",
                gpu__index=gpu,
                gpu__pci_bus_id=f"0000:0{gpu}:00.0",
                measured_from=f"2026-11-{day:02}T02:00:00Z",
                measured_to=f"2026-11-{day:02}T02:00:20Z",
            )
            for day, pi in enumerate(falling, start=1)
            for gpu in range(8)
        ],
    )
    url = "/gpus/GPU-0/history"

    first = read(client, url, as_of="2026-11-04T12:00:00Z", limit=2)
    second = read(client, url, limit=2, after=first["next"])

    assert read(client, url)["drifts"] != first["drifts"]
    assert (second["as_of"], second["drifts"]) == (first["as_of"], first["drifts"])


def test_a_made_up_gpu_with_a_real_ones_id_changes_nothing_of_it(client: AppClient) -> None:
    """Each is read where it is asked for."""
    post(client, [make_report()])
    before = read(client, "/gpus/GPU-00000001", as_of="2026-11-21T00:00:00Z")
    post(client, [make_report(node__cluster="simulated", gpu__device="Toy", gpu__index=7, pi_tflops=1.0, **at(5))])
    made_up = read(client, "/gpus/GPU-00000001", as_of="2026-11-21T00:00:00Z", cluster="simulated")

    assert read(client, "/gpus/GPU-00000001", as_of="2026-11-21T00:00:00Z") == before
    assert (made_up["device"]["name"], made_up["index"], len(made_up["reports"])) == ("Toy", 7, 1)
    assert gpu_ids(ridge(client)) == gpu_ids(ridge(client, device="toy", cluster="simulated"))
    assert gpu_ids(ridge(client, device="toy")) == []


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_reports_from_the_future_the_one_measured_last_is_the_newest(
    client: AppClient, order: tuple[int, ...]
) -> None:
    """In one list they all count as measured when they came; then the node's own clock decides, not their ids."""
    reports = [
        make_report(
            pi_tflops=800.0 + month,
            node__labels={"month": str(month)},
            gpu__index=month,
            measured_from=f"2106-0{month + 1}-01T00:00:00Z",
            measured_to=f"2106-0{month + 1}-01T00:01:00Z",
        )
        for month in range(3)
    ]
    falling_ids = sorted((report["report_id"] for report in reports), reverse=True)
    reports = [report | {"report_id": report_id} for report, report_id in zip(reports, falling_ids, strict=True)]
    post_judged(client, [reports[place] for place in order])

    gpu, node = read(client, "/gpus/GPU-00000001"), read(client, "/nodes/node-01")

    assert (gpu["index"], gpu["latest"]["measured_to"][:7], node["labels"]) == (2, "2106-03", {"month": "2"})
    assert (gpu["ridges"][0]["pi_tflops"], gpu["ridges"][0]["reports"]) == (801.0, 3)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_reports_from_the_future_are_put_in_order_by_the_senders_clock(
    client: AppClient, order: tuple[int, ...]
) -> None:
    """Posted one by one in any order, each with the time that the node's clock shows."""
    for month in order:
        moment = f"2106-0{month + 1}-01T00:00:00Z"
        report = make_report(gpu__index=month, measured_from=moment, measured_to=moment)
        post(client, [report], sent_at="2106-04-01T00:00:00Z")

    assert read(client, "/gpus/GPU-00000001")["index"] == 2
