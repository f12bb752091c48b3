"""Pages by key."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.app_client import AppClient
from support.databases import Databases
from support.fleet import fleet, gpu_ids, post, ridge
from support.read_only import fleet_to_read
from support.reports import make_report

RATES = [845.0, 600.0, 850.0, 700.0, 845.0, 840.0, 845.0]


def pages(client: AppClient, url: str, entries: str, limit: int) -> list[list[Any]]:
    """All pages of a list, read one after the other."""
    found: list[list[Any]] = []
    after: dict[str, str] = {}
    while True:
        answer = client.get(url, params={"limit": limit, **after}).json()
        found.append(answer[entries])
        if answer["next"] is None:
            return found
        after = {"after": answer["next"]}


@pytest.fixture(scope="module")
def rated(databases: Databases) -> Iterator[AppClient]:
    """Gpus with those rates, another device, and nothing can be written."""
    with fleet_to_read(databases, [*fleet(RATES), make_report(gpu__device="L4", gpu__uuid="GPU-l4")]) as client:
        yield client


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7, 8])
def test_pages_of_gpus_make_up_the_whole_list(rated: AppClient, limit: int) -> None:
    """Nothing twice, nothing left out, no empty page at the end."""
    found = pages(rated, "/devices/h200/ridge", "gpus", limit)

    assert [row["gpu_id"] for page in found for row in page] == gpu_ids(ridge(rated))
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
    assert len(found[-1]) > 0


def test_pages_go_on_behind_the_gpus_without_a_value(client: AppClient) -> None:
    """They stand last, by their ids."""
    post(client, [*fleet(RATES), *fleet([1.0] * 3, evidence__contended=True, node__name="n2", gpu__uuid=None)])

    found = pages(client, "/devices/h200/ridge", "gpus", 2)

    assert [row["gpu_id"] for page in found for row in page] == gpu_ids(ridge(client))


def test_pages_of_devices_make_up_the_whole_list(client: AppClient) -> None:
    """By name."""
    names = ["H200", "A100-SXM4-80GB", "L4", "a10", "AMD Instinct MI300X"]
    post(client, [make_report(gpu__device=name, gpu__uuid=f"GPU-{name}") for name in names])

    found = pages(client, "/devices", "devices", 2)

    assert [device["name"] for page in found for device in page] == sorted(names)


def test_a_list_goes_on_as_it_was_when_it_began(client: AppClient) -> None:
    """What is measured between two pages changes neither the order nor the medians of the next."""
    post(client, fleet(RATES))
    whole, first = ridge(client), ridge(client, limit=3)
    post(client, fleet([100.0, *RATES[1:]], measured_from="2106-01-01T00:00:00Z", measured_to="2106-01-01T00:00:20Z"))

    second = ridge(client, limit=3, after=first["next"])

    assert second["as_of"] == first["as_of"]
    assert gpu_ids(first) + gpu_ids(second) == gpu_ids(whole)[:6]


def token(**fields: Any) -> str:
    """A token with some fields."""
    return base64.urlsafe_b64encode(json.dumps({"of_list": "0123456789ab"} | fields).encode()).decode()


@pytest.mark.parametrize(
    "after",
    [
        "",
        "0",
        "%%%",
        "é",
        token(),
        token(as_of="2026-01-01T00:00:00Z"),
        token(as_of="yesterday", name="a"),
        token(as_of="2026-01-01T00:00:00Z", name="a", deviation=float("nan")),
        token(as_of="2026-01-01T00:00:00Z", name="a", more=1),
        "A" * 5000,
    ],
)
@pytest.mark.parametrize("url", ["/devices", "/devices/h200/ridge"])
def test_a_token_that_is_not_ours_is_refused_by_name(rated: AppClient, url: str, after: str) -> None:
    """The field is named, and nothing breaks."""
    answer = rated.get(url, params={"after": after})

    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, ["query.after"])


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "many", ""])
def test_a_limit_lies_within_one_and_a_thousand(empty_server: AppClient, limit: str) -> None:
    """Every list is bounded."""
    answer = empty_server.get("/devices", params={"limit": limit})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "query.limit")


@pytest.mark.parametrize(
    ("other", "filters"),
    [("/devices", {}), ("/devices/l4/ridge", {}), ("/devices/h200/ridge", {"dtype": "bfloat16"})],
)
def test_a_token_of_another_list_is_refused(rated: AppClient, other: str, filters: dict[str, str]) -> None:
    """Its place means nothing there, so that entries would be left out unseen."""
    after = ridge(rated, limit=1)["next"]

    answer = rated.get(other, params={**filters, "after": after})

    assert (answer.status_code, [error["field"] for error in answer.json()["errors"]]) == (422, ["query.after"])


@pytest.mark.parametrize("parameter", ["as_of", "since"])
@pytest.mark.parametrize("number", ["2026", "1", "20261120", "-1", "1.5"])
def test_a_number_is_no_time(empty_server: AppClient, parameter: str, number: str) -> None:
    """It would be read as seconds since 1970."""
    answer = empty_server.get("/devices/h200/ridge", params={parameter: number})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, f"query.{parameter}")
    assert "ISO 8601" in answer.json()["detail"]


def test_a_time_before_all_reports_is_refused(empty_server: AppClient) -> None:
    """Answers look back from their time."""
    answer = empty_server.get("/devices", params={"as_of": "1900-01-01T00:00:00Z"})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "query.as_of")
    assert "1970" in answer.json()["detail"]
