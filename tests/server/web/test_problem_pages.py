"""Problems as people see them."""

from __future__ import annotations

from typing import Any

import pytest

from fleetridge_server.web import fleet
from support.app_client import AppClient
from support.html_pages import page_of, parsed

AS_A_BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_an_error_of_our_own_is_a_page_with_the_id_of_the_request(
    client: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of the inside; the log has the particulars under that id."""

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret of the inside")

    monkeypatch.setattr(fleet, "fleet_page", broken)

    page = parsed(client.get("/"))

    assert page.status == 500
    assert "Internal error" in page.text
    assert page.headers["x-request-id"] in page.text
    assert "secret" not in page.html
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"


def test_a_file_that_is_not_there_is_told_to_people_on_a_page_and_to_programs_as_json(empty_server: AppClient) -> None:
    for path in ("/ui/gpus/none/history.svg", "/ui/gpus/none/evidence.zip", "/ui/devices/none/compare.svg"):
        assert "There is no such" in page_of(empty_server, path, status=404, headers=AS_A_BROWSER).text
        assert empty_server.get(path).headers["content-type"] == "application/problem+json"


def test_an_address_below_the_pages_that_is_none_is_told_on_a_page(empty_server: AppClient) -> None:
    for path in ("/ui", "/ui/", "/ui/none"):
        assert "There is nothing at this address" in page_of(empty_server, path, status=404).text


@pytest.mark.parametrize(
    "path",
    [
        "/ui/devices/h200?limit=99999999999",
        "/?as_of=yesterday",
        "/?as_of=0001-01-01T00:00:00Z",
        "/?days=0",
        "/ui/nodes?verdict=bogus",
        "/ui/nodes?limit=0",
        "/ui/alerts?kind=bogus",
        "/ui/devices/h200/compare?by=bogus",
        "/ui/devices/h200?colour=red",
    ],
)
def test_a_parameter_that_makes_no_sense_is_told_with_its_name(empty_server: AppClient, path: str) -> None:
    page = page_of(empty_server, path, status=422)

    assert f"query.{path.partition('?')[2].partition('=')[0]}: " in page.text.replace("Query.", "query.")


def test_a_problem_on_a_simulated_page_leads_back_to_the_simulated_fleet(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/ui/gpus/none?cluster=simulated", status=404)

    assert page.links["To the fleet"] == "/?cluster=simulated"
