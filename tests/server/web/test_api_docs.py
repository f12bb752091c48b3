"""The page about the API says all that its description does, to anybody, anywhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from fleetridge_server.db.database import Database
from fleetridge_server.web.api_docs import ApiPage, api_page
from support.app_client import AppClient
from support.describe_api import description
from support.html_pages import Page, page_of, parsed
from support.tokens import bearer, make_token

DESCRIBED: dict[str, Any] = json.loads(description())
OPERATIONS = [
    (method.upper(), path, operation)
    for path, operations in DESCRIBED["paths"].items()
    for method, operation in operations.items()
]
HOSTILE = "<script>alert(1)</script>'\"`"


def anchors(page: Page) -> list[str]:
    return [own["id"] for _, own in page.elements if "id" in own]


def shown(**changes: Any) -> ApiPage:
    return api_page(DESCRIBED | changes, base="http://server", asks_for_token=False)


def routes(page: ApiPage) -> Iterator[Any]:
    for own in page.groups.values():
        yield from own


def test_every_route_of_the_description_is_on_it(empty_server: AppClient) -> None:
    """With what it does, its parameters and its statuses, under an address of its own."""
    page = page_of(empty_server, "/docs")

    for method, path, operation in OPERATIONS:
        assert page.links[f"{method} {path}"] == f"#{operation['operationId']}"
        assert operation["operationId"] in anchors(page)
        first = operation["description"].partition("\n\n")[0].replace("`", "")
        assert " ".join(first.split()) in page.text.replace(" ,", ",").replace(" .", ".").replace(" :", ":")
        for parameter in operation.get("parameters", ()):
            assert any(row[:2] == [parameter["name"], parameter["in"]] for row in page.rows)


def test_every_shape_is_on_it_with_every_field(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/docs")

    for name, schema in DESCRIBED["components"]["schemas"].items():
        assert f"shape-{name}" in anchors(page)
        for field in schema.get("properties", ()):
            assert any(row[0] == field for row in page.rows if row)


def test_every_link_within_it_leads_somewhere(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/docs")

    own = anchors(page)
    assert len(own) == len(set(own))
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(own)


def test_it_needs_no_other_host_and_no_script_of_its_own(empty_server: AppClient) -> None:
    page = page_of(empty_server, "/docs")

    assert [own for own in page.addresses if not own.startswith(("/", "#")) or own.startswith("//")] == []
    assert [own["src"] for name, own in page.elements if name == "script"] == [
        own["src"] for name, own in page_of(empty_server, "/").elements if name == "script"
    ]
    assert not [own for _, own in page.elements if any(name == "style" or name.startswith("on") for name in own)]
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]


def test_it_is_found_from_every_page_and_leads_to_the_description(empty_server: AppClient) -> None:
    assert page_of(empty_server, "/").links["API"] == "/docs"
    assert page_of(empty_server, "/docs").links["/openapi.json"] == "/openapi.json"


def test_where_no_token_is_needed_its_commands_have_none(empty_server: AppClient) -> None:
    assert "Authorization" not in commands(page_of(empty_server, "/docs"))


def test_it_asks_for_a_token_as_the_routes_do(client: AppClient, database: Database) -> None:
    """And offers the form to sign in; its commands then show where the token goes."""
    token, ingest = make_token(database, "read"), make_token(database, "ingest")

    page = page_of(client, "/docs", headers=bearer(token))

    assert "Sign in" in parsed(client.get("/docs")).text
    assert client.get("/docs").status_code == 401
    assert client.get("/docs", headers=bearer(ingest)).status_code == 403
    assert commands(page).count('-H "Authorization: Bearer $(cat token)"') == sum(
        "security" in own for *_, own in OPERATIONS
    )


def commands(page: Page) -> str:
    return "\n".join(word for word in page.words if word.startswith("curl"))


def test_its_commands_name_what_is_needed() -> None:
    found = {(route.method, route.path): route.command for route in routes(shown())}

    compare = shlex.split(found["GET", "/devices/{name}/compare"])
    assert compare == ["curl", "-H", "Accept: text/plain", "http://server/devices/NAME/compare?by=BY"]
    mark = shlex.split(found["POST", "/marks"])
    assert mark[1:] == [
        "-X",
        "POST",
        "-H",
        "Content-Type: application/json",
        "--data",
        "@body.json",
        "http://server/marks",
    ]
    assert found["DELETE", "/marks/{mark_id}"] == "curl -X DELETE http://server/marks/MARK_ID"


def test_a_command_can_be_run_as_it_stands(empty_server: AppClient) -> None:
    """Those without a word in capitals."""
    for route in routes(shown()):
        *_, address = shlex.split(route.command)
        if route.method == "GET" and address == address.lower():
            assert empty_server.get(address.removeprefix("http://server")).status_code == 200


@pytest.mark.parametrize("host", [HOSTILE, "a b;rm -rf x"])
def test_a_hostile_name_of_the_server_is_text_for_the_browser_and_one_word_for_the_shell(host: str) -> None:
    [route] = [
        own for own in routes(api_page(DESCRIBED, base=f"http://{host}", asks_for_token=False)) if own.path == "/fleet"
    ]

    assert shlex.split(route.command)[-1] == f"http://{host}/fleet"


def test_markup_in_a_description_is_text(empty_server: AppClient) -> None:
    """Also where it stands in an address that somebody made up."""
    page = page_of(empty_server, "/docs", headers={"Host": HOSTILE})

    assert [name for name, _ in page.elements].count("script") == 1
