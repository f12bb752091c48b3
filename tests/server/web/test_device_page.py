"""The page of a device: charts, lists and filters, all of the same facts as the API's answer."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge.quantities import significant
from fleetridge_server.api import gpu_lists
from fleetridge_server.fleet.expected import ExpectedGpu
from fleetridge_server.web.charts import roofline_curves
from support.app_client import AppClient
from support.evaluated import SOUND, evaluate, expect, gpu_id, runs
from support.fleet import post, read
from support.html_pages import Page, page_of
from support.reports import compute_roof, memory_roof

PAGE = "/ui/devices/h200"


def gpu_rows(page: Page) -> list[list[str]]:
    """Rows of the list of gpus."""
    return [row for row in page.rows if len(row) == 8 and row[0].startswith("n0")]


def test_medians_shares_and_bands_are_those_of_the_api(sick_fleet: AppClient) -> None:
    page, answer = page_of(sick_fleet, PAGE), read(sick_fleet, "/devices/h200/ridge")

    [ridge] = answer["ridges"]
    row = page.row("bfloat16 burst")
    assert row[1:3] == [str(ridge["peers"]), significant(ridge["pi_tflops"]["median"])]
    assert row[5] == significant(ridge["published"]["pi_tflops"])
    band = answer["cohorts"][0]["bands"][0]
    assert f"{significant(band['lowest'])} TFLOP/s" in page.text


def test_gpus_are_listed_as_the_api_lists_them(sick_fleet: AppClient) -> None:
    page, answer = page_of(sick_fleet, PAGE), read(sick_fleet, "/devices/h200/ridge")

    assert [row[0] for row in gpu_rows(page)] == [f"{gpu['node']} gpu {gpu['index']}" for gpu in answer["gpus"]]
    assert page.links["n02 gpu 7"] == f"/ui/gpus/{gpu_id('n02', 7)}"


def test_the_first_table_has_the_gpus_to_look_at_with_reason_and_next_step(sick_fleet: AppClient) -> None:
    page, gpu = page_of(sick_fleet, PAGE), read(sick_fleet, "/devices/h200/ridge")["gpus"][0]

    first = next(row for row in page.rows if row and row[0] == "n02 gpu 7")
    assert first[3] == gpu["verdict"]["reasons"][0]["text"]
    assert first[4] == gpu["verdict"]["next_step"].replace("`", "")


def test_filters_choose_what_is_listed_and_drawn(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, f"{PAGE}?verdict=outlier&dtype=&cluster=&driver=")

    assert "1 gpu listed" in page.text
    assert page.links["Show all"] == PAGE
    assert page.links[f"{PAGE.removeprefix('/ui')}/ridge?verdict=outlier"]
    assert "n01 gpu 0" not in page.text


def test_gpus_that_are_not_judged_yet_are_counted_as_they_are_listed(client: AppClient, database_url: str) -> None:
    post(client, runs("n01", [SOUND] * 4))
    evaluate(database_url)
    post(client, runs("n02", [SOUND] * 2))

    page = page_of(client, PAGE)

    assert len(gpu_rows(page)) == 6
    assert "6 gpus listed" in page.text


def test_a_driver_can_be_chosen(client: AppClient, database_url: str) -> None:
    post(client, [*runs("n01", [SOUND] * 4), *runs("n02", [SOUND] * 4, environment__driver="590.1")])
    evaluate(database_url)

    page = page_of(client, f"{PAGE}?driver=590.1")

    assert "4 gpus listed" in page.text
    assert [gpu["node"] for gpu in read(client, "/devices/h200/ridge", driver="590.1")["gpus"]] == ["n02"] * 4
    options = [own.get("value") for name, own in page.elements if name == "option"]
    assert {"580.159.04", "590.1"} <= set(options)


def test_a_filter_that_takes_nothing_says_so(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, f"{PAGE}?cluster=west")

    assert "No gpu that reported fits these filters." in page.text


def test_a_long_list_has_pages_that_belong_together(sick_fleet: AppClient) -> None:
    first = page_of(sick_fleet, f"{PAGE}?limit=10")
    second = page_of(sick_fleet, first.links["Next page"])

    assert [len(gpu_rows(page)) for page in (first, second)] == [10, 6]
    assert second.links["First page"] == f"{PAGE}?limit=10"


@pytest.mark.parametrize("chart", ["roofline", "strips", "distribution"])
def test_each_chart_is_a_file_as_well(sick_fleet: AppClient, chart: str) -> None:
    href = next(own for own in page_of(sick_fleet, PAGE).addresses if own.startswith(f"{PAGE}/{chart}.svg"))

    answer = sick_fleet.get(href)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml; charset=utf-8")
    assert answer.text.startswith("<svg ")
    assert "style-src 'sha256-" in answer.headers["content-security-policy"]
    assert "n02 gpu 7" in answer.text or chart == "distribution"


def test_a_device_of_one_gpu_is_shown_beside_what_is_published(client: AppClient, database_url: str) -> None:
    post(client, runs("n01", [SOUND]))
    evaluate(database_url)

    page = page_of(client, PAGE)

    assert "few peers" in page.text
    assert "There is only one gpu of this kind here, and nothing to compare it with but what its maker" in page.text
    assert "published 989 TFLOP/s" in page.text


def test_a_device_whose_gpus_were_never_measured_has_no_chart(client: AppClient, database_url: str) -> None:
    failed: dict[str, Any] = {"outcome": "failed", "reason": "timed_out", "roofs": [], "points": [], "sweep": None}
    post(client, runs("n01", [SOUND] * 4, **failed))
    evaluate(database_url)

    page = page_of(client, PAGE)

    assert "<svg" not in page.html
    assert page.row("n01 gpu 0")[1] == "∅ unmeasured"
    assert page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}").text.count("There are none: none of its newest reports") == 1
    assert client.get(f"{PAGE}/distribution.svg").status_code == 404


def test_several_dtypes_are_told_apart(client: AppClient, database_url: str) -> None:
    roofs = [compute_roof(SOUND), compute_roof(1500.0, dtype="float8_e4m3fn"), memory_roof(4430.0)]
    post(client, runs("n01", [SOUND] * 4, roofs=roofs))
    evaluate(database_url)

    page = page_of(client, PAGE)

    assert page.row("float8_e4m3fn burst")[2] == "1500"
    assert "pi float8_e4m3fn burst" in page.text
    assert "float8_e4m3fn" not in {row[0] for row in page_of(client, f"{PAGE}?dtype=bfloat16").rows if row}


def test_an_unknown_device_is_told_on_a_page(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/ui/devices/nope", status=404)

    assert "There is no such device" in page.text
    assert page.links["To the fleet"] == "/"


@pytest.mark.parametrize("only", ["dtype=bfloat16", "regime=burst&dtype=bfloat16"])
def test_beta_stays_on_the_strips_whatever_dtype_is_chosen(sick_fleet: AppClient, only: str) -> None:
    """Each I* rests on it; streams have a dtype of their own that nobody filters by."""
    page = page_of(sick_fleet, f"{PAGE}?{only}")

    assert "beta read burst" in page.text
    assert "median 4430 GB/s · 16 gpus · limit −3.0 %" in page.text


@pytest.mark.parametrize("only", ["", "?verdict=outlier,ok"])
def test_of_a_large_fleet_bars_count_the_gpus_and_the_accused_are_marks(
    sick_fleet: AppClient, monkeypatch: pytest.MonkeyPatch, only: str
) -> None:
    monkeypatch.setattr(gpu_lists, "MOST_DRAWN", 4)
    monkeypatch.setattr(roofline_curves, "MOST_LINES", 4)

    page = page_of(sick_fleet, f"{PAGE}{only}")

    assert "16 gpus listed" in page.text
    assert "gpus in a bar, by number" in page.text
    assert "fr-band" in page.html
    assert "fr-faint" not in page.html
    marks = {own["href"] for name, own in page.elements if name == "a" and own.get("class") == "fr-mark"}
    assert marks == {f"/ui/gpus/{gpu_id('n02', 7)}"}
    assert "beta" in page.text
    assert sick_fleet.get(f"{PAGE}/distribution.svg{only}").text.count("fr-bar") > 0


def test_gpus_that_are_missed_and_never_reported_are_looked_for_on_their_nodes(
    client: AppClient, database_url: str
) -> None:
    post(client, runs("n01", [SOUND] * 4))
    expect(database_url, ExpectedGpu("n09", "GPU-never", "NVIDIA H200"))
    evaluate(database_url)

    page = page_of(client, f"{PAGE}?verdict=missing")

    assert "They never reported" in page.text
    assert "n09" in page_of(client, page.links["their nodes"]).text


def test_choosing_a_filter_loses_nothing_of_the_address(sick_fleet: AppClient) -> None:
    """What no list is there for is sent along, but the place in a list that another filter would make."""
    first = page_of(sick_fleet, f"{PAGE}?limit=10&regime=burst&verdict=ok")

    assert page_of(sick_fleet, first.links["Next page"]).fields() == {"limit": "10", "regime": "burst"}
