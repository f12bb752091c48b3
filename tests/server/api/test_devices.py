"""The list of devices."""

from __future__ import annotations

import pytest

from support.app_client import AppClient
from support.fleet import AS_TEXT, fleet, post, post_judged, read
from support.reports import make_report, make_skipped_report


def test_an_empty_server_has_an_empty_list(empty_server: AppClient) -> None:
    """200, not an error."""
    answer = read(empty_server, "/devices")

    assert (answer["devices"], answer["next"]) == ([], None)


def test_a_device_is_listed_with_its_names_gpus_and_nodes(client: AppClient) -> None:
    """Gpus and nodes are counted once, however many reports they sent."""
    two_nodes = [*fleet([845.0, 846.0]), make_report(gpu__uuid="GPU-b1", node__name="node-02", gpu__device="H200")]
    post(client, [*two_nodes, *fleet([845.0, 846.0])])

    [device] = read(client, "/devices")["devices"]

    assert (device["name"], device["slug"], device["names"]) == ("H200", "h200", ["H200", "NVIDIA H200"])
    assert (device["gpus"], device["nodes"]) == (3, 2)


def test_nodes_of_one_name_in_two_clusters_count_twice(client: AppClient) -> None:
    """They are two machines."""
    post(client, [make_report(gpu__uuid=f"GPU-{at}", node__cluster=at) for at in ("east", "west")])

    assert read(client, "/devices")["devices"][0]["nodes"] == 2


def test_a_device_shows_what_its_gpus_reach_by_dtype_and_regime(client: AppClient) -> None:
    """Median, spread and published figure."""
    post_judged(client, fleet([840.0, 845.0, 850.0]))

    [ridge] = read(client, "/devices")["devices"][0]["ridges"]

    assert (ridge["dtype"], ridge["regime"], ridge["peers"]) == ("bfloat16", "burst", 3)
    assert ridge["pi_tflops"] == {"n": 3, "median": 845.0, "q1": 842.5, "q3": 847.5, "p5": 840.5, "p95": 849.5}
    assert ridge["pi_share_of_published"] == pytest.approx(845.0 / ridge["published"]["pi_tflops"])


def test_the_newest_report_counts_whatever_its_outcome(client: AppClient) -> None:
    """A fleet that is always busy still reports."""
    busy = make_skipped_report("busy", measured_from="2026-11-21T02:00:00Z", measured_to="2026-11-21T02:00:01Z")
    post(client, [busy, make_report()])

    assert read(client, "/devices")["devices"][0]["newest_report"] == "2026-11-21T02:00:01Z"


def test_as_of_an_earlier_time_only_what_was_known_then_is_there(client: AppClient) -> None:
    """A device that came later is not listed."""
    later = make_report(
        gpu__device="NVIDIA B200",
        gpu__uuid="GPU-b",
        measured_from="2026-11-21T02:00:00Z",
        measured_to="2026-11-21T02:00:01Z",
    )
    post(client, [make_report(), later])

    answer = read(client, "/devices", as_of="2026-11-20T12:00:00Z")

    assert [device["name"] for device in answer["devices"]] == ["H200"]


def test_a_cluster_lists_its_own_devices_and_counts_its_own_gpus(client: AppClient) -> None:
    """Peers are those of everywhere."""
    east = [make_report(gpu__uuid=f"GPU-e{n}", node__cluster="east") for n in range(2)]
    west = [make_report(gpu__uuid="GPU-w", node__cluster="west")]
    post_judged(client, [*east, *west, make_report(gpu__uuid="GPU-l", gpu__device="NVIDIA L4", node__cluster="west")])

    [device] = read(client, "/devices", cluster="east")["devices"]

    assert (device["name"], device["gpus"], device["ridges"][0]["peers"]) == ("H200", 2, 3)


def test_a_cluster_without_gpus_lists_nothing(one_report: AppClient) -> None:
    """A filter that matches nothing is no error."""
    assert read(one_report, "/devices", cluster="north")["devices"] == []


@pytest.mark.parametrize("parameter", ["cluster"])
@pytest.mark.parametrize("value", ["", "a\x00b", "a\x1bb"])
def test_a_filter_that_no_name_can_match_lists_nothing(one_report: AppClient, parameter: str, value: str) -> None:
    """Not even PostgreSQL, which refuses such text, makes an error of it."""
    assert read(one_report, "/devices", **{parameter: value})["devices"] == []


def test_a_parameter_that_is_not_known_is_refused(empty_server: AppClient) -> None:
    """A filter with a slip of the pen must not answer for the whole fleet."""
    answer = empty_server.get("/devices", params={"clutser": "east"})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "query.clutser")


def test_the_text_form_names_every_device_and_its_medians(client: AppClient) -> None:
    """For people."""
    post_judged(client, [*fleet([845.0] * 4), make_report(gpu__device="Z999 1TB", gpu__uuid="GPU-z", pi_tflops=123.0)])

    text = client.get("/devices", headers=AS_TEXT).text

    assert "H200" in text
    assert "Z999 1TB" in text
    assert "123" in text


def test_the_text_form_of_an_empty_list_says_so(empty_server: AppClient) -> None:
    """Not an empty page."""
    assert empty_server.get("/devices", headers=AS_TEXT).text == "no devices\n"
