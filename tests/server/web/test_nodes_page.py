"""The page of all nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetridge_server.fleet.expected import ExpectedGpu
from support.app_client import AppClient
from support.databases import Databases
from support.evaluated import SLOW, SOUND, evaluate, expect, runs
from support.fleet import AS_TEXT, post
from support.html_pages import Page, page_of
from support.read_only import fleet_to_read


@pytest.fixture(scope="module")
def racks(databases: Databases) -> Iterator[AppClient]:
    """Three nodes in two racks of one cluster, and one of another cluster; one gpu of n02 is slow."""
    first = [*runs("n01", [SOUND] * 4), *runs("n02", [SOUND] * 3 + [SLOW])]
    others = [*runs("n03", [SOUND] * 4, node__labels={"rack": "r2"}), *runs("w01", [SOUND] * 4, node__cluster="west")]
    with fleet_to_read(databases, first, others) as client:
        yield client


def names(page: Page) -> list[str]:
    """Nodes in the order of the list, without their clusters."""
    return [row[0].split()[0] for row in page.rows if len(row) == 9 and row[0] != "node"]


def test_the_node_with_the_worst_gpu_comes_first(racks: AppClient) -> None:
    page = page_of(racks, "/ui/nodes")

    assert names(page)[0] == "n02"
    assert sorted(names(page)) == ["n01", "n02", "n03", "w01"]
    assert page.row("n02")[1] == "▼ outlier"
    assert page.row("n02")[7] == "1 outlier, 3 ok"
    assert page.links["n02"] == "/ui/nodes/n02?cluster=east"
    assert page.links["gpu 3"] == "/ui/gpus/GPU-n02-3"
    assert "n02" in page_of(racks, page.links["n02"]).text


def test_nodes_are_filtered_by_cluster_rack_and_verdict(racks: AppClient) -> None:
    assert names(page_of(racks, "/ui/nodes?cluster=west")) == ["w01"]
    assert names(page_of(racks, "/ui/nodes?rack=r2")) == ["n03"]
    assert names(page_of(racks, "/ui/nodes?verdict=outlier&cluster=&rack=")) == ["n02"]
    none = page_of(racks, "/ui/nodes?verdict=outlier&rack=r2")
    assert "No node fits these filters." in none.text
    assert none.links["Show all"] == "/ui/nodes"


def test_the_listed_nodes_are_there_as_a_host_list(racks: AppClient) -> None:
    page = page_of(racks, "/ui/nodes?cluster=east")

    assert "n[01-03]" in page.text
    [href] = [own for own in page.addresses if "format=hostlist" in own]
    assert racks.get(href).text == "n[01-03]\n"
    assert "n02" in page_of(racks, "/ui/nodes?cluster=east&verdict=outlier").text


def test_nodes_of_several_clusters_make_no_host_list(racks: AppClient) -> None:
    """A scheduler of one would leave out nodes of the other."""
    assert "No host list: these nodes are in several clusters" in page_of(racks, "/ui/nodes").text


def test_names_that_no_host_could_have_are_left_out_and_counted(client: AppClient, database_url: str) -> None:
    post(client, [*runs("n01", [SOUND]), *runs("a,b", [SOUND])])
    evaluate(database_url)

    page = page_of(client, "/ui/nodes")

    assert "1 name that no host could have is left out." in page.text
    assert "a,b" in names(page)


def test_a_long_list_comes_in_pages_that_show_each_node_once(racks: AppClient) -> None:
    whole = names(page_of(racks, "/ui/nodes"))

    found, url = [], "/ui/nodes?limit=1"
    for _ in whole:
        page = page_of(racks, url)
        found += names(page)
        url = page.links.get("Next page", "")

    assert found == whole
    assert url == ""
    assert page.links["First page"] == "/ui/nodes?limit=1"
    assert "4 nodes listed" in page.text


def test_a_page_after_a_place_in_another_list_is_refused(racks: AppClient) -> None:
    href = page_of(racks, "/ui/nodes?limit=1").links["Next page"]

    assert "not a token of this list" in page_of(racks, f"{href}&verdict=ok", status=422).text


def test_a_node_that_never_reported_is_there_and_its_gpu_leads_nowhere(client: AppClient, database_url: str) -> None:
    """A gpu that the inventory alone knows has no page."""
    post(client, runs("n01", [SOUND] * 4))
    expect(database_url, ExpectedGpu("n09", "GPU-never"))
    evaluate(database_url)

    page = page_of(client, "/ui/nodes")

    assert names(page) == ["n09", "n01"]
    assert page.row("n09")[1] == "○ missing"
    assert [own for own in page.addresses if "GPU-never" in own] == []
    assert [own for own in page_of(client, "/").addresses if "GPU-never" in own] == []


def test_an_expected_node_without_gpus_is_said_to_have_never_reported(client: AppClient, database_url: str) -> None:
    expect(database_url, ExpectedGpu("n09"))

    assert page_of(client, "/ui/nodes").row("n09")[1] == "never reported"


def test_without_nodes_the_page_says_so(empty_server: AppClient) -> None:
    assert "No node has reported yet" in page_of(empty_server, "/ui/nodes").text


def test_the_page_names_its_api_route(racks: AppClient) -> None:
    page = page_of(racks, "/ui/nodes?rack=r1")

    assert racks.get(page.links["/nodes?rack=r1"], headers=AS_TEXT).status_code == 200
