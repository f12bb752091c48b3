"""Pages show names that nobody vouches for, run and load nothing of others, and change nothing for other sites."""

from __future__ import annotations

from typing import Any

import pytest

from support.app_client import AppClient
from support.evaluated import SLOW, SOUND, evaluate, runs
from support.fleet import post, read
from support.html_pages import page_of, parsed

HOSTILE = """<script>alert(1)</script>"'><img src=x onerror=alert(2)>&{{7*7}}"""
PAGES = (
    "/",
    "/ui/devices/{slug}",
    "/ui/devices/{slug}/compare?by=driver",
    "/ui/gpus/{gpu}",
    "/ui/nodes/{node}",
    "/ui/alerts",
)


@pytest.fixture
def hostile(client: AppClient, database_url: str) -> dict[str, str]:
    """A fleet whose every name is markup; addresses of its pages."""
    names: dict[str, Any] = {
        "gpu__device": f"NVIDIA {HOSTILE}",
        "node__cluster": HOSTILE,
        "node__labels": {"rack": HOSTILE},
        "environment__driver": HOSTILE,
        "gpu__pci_bus_id": HOSTILE,
    }
    post(client, runs(HOSTILE, [SOUND] * 7 + [SLOW], **names))
    evaluate(database_url)
    mark = {"kind": "accepted", "reason": HOSTILE, "author": HOSTILE, "cluster": HOSTILE}
    assert client.post("/marks", json=mark).status_code == 201
    [device] = read(client, "/devices")["devices"]
    gpu = read(client, f"/devices/{device['slug']}/ridge")["gpus"][0]["gpu_id"]
    return {"slug": device["slug"], "gpu": quoted(gpu), "node": quoted(HOSTILE)}


def quoted(name: str) -> str:
    """A name as part of an address."""
    return "".join(f"%{byte:02X}" for byte in name.encode())


def test_hostile_names_are_text_and_nothing_else(client: AppClient, hostile: dict[str, str]) -> None:
    for url in PAGES:
        page = page_of(client, url.format(**hostile))

        assert HOSTILE in page.text, url
        tags = [name for name, _ in page.elements]
        assert "img" not in tags
        assert tags.count("script") == 1
        assert [own for _, own in page.elements if any(name.startswith("on") or name == "style" for name in own)] == []


def test_a_page_loads_and_links_nothing_of_another_host(client: AppClient, hostile: dict[str, str]) -> None:
    for url in PAGES:
        page = page_of(client, url.format(**hostile))

        assert page.addresses
        assert [own for own in page.addresses if not own.startswith(("/", "#", "?")) or own.startswith("//")] == []
        assert "data:" not in page.html
        assert "<style" not in page.html


def test_a_strict_policy_lets_a_page_use_its_own_files_alone(client: AppClient, hostile: dict[str, str]) -> None:
    for url in (*PAGES, "/ui/sign-in", "/ui/gpus/none"):
        policy = parsed(client.get(url.format(**hostile))).headers["content-security-policy"]

        parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
        assert parts["default-src"] == "'none'"
        assert {parts[name] for name in ("script-src", "style-src", "img-src", "form-action")} == {"'self'"}
        assert parts["base-uri"] == parts["frame-ancestors"] == "'none'"
        assert "unsafe" not in policy


def test_the_files_of_pages_are_kept_for_ever_under_an_address_of_their_content(empty_server: AppClient) -> None:
    files = [own for own in page_of(empty_server, "/").addresses if own.startswith("/ui/static/")]

    assert len(files) == 4
    for address in files:
        answer = empty_server.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert "?v=" in address
    assert empty_server.get("/ui/static/../app.py").status_code == 404
    assert empty_server.get("/ui/static/none.js").status_code == 404


def test_a_page_is_never_kept_by_others(empty_server: AppClient) -> None:
    assert page_of(empty_server, "/").headers["cache-control"] == "no-store"


def test_the_api_goes_on_telling_its_problems_to_programs(empty_server: AppClient) -> None:
    assert empty_server.get("/gpus/none").headers["content-type"] == "application/problem+json"
    assert empty_server.get("/ui/gpus/none/history.svg").headers["content-type"] == "application/problem+json"


def test_a_method_that_a_page_does_not_take_is_told_on_a_page(client: AppClient) -> None:
    answer = parsed(client.post("/"))

    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
