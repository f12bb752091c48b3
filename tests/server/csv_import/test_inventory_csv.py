"""A CSV file of what is expected."""

from __future__ import annotations

import pytest

from fleetridge_server.csv_import.inventory import BadInventoryError, expectations
from fleetridge_server.csv_import.lines import HeaderError
from fleetridge_server.fleet.expected import ExpectedGpu


def expected(*lines: str, cluster: str = "east") -> dict[str, list[ExpectedGpu]]:
    return dict(expectations(lines, cluster))


def faults(*lines: str) -> list[tuple[int, str]]:
    """Line and column of each fault."""
    with pytest.raises(BadInventoryError) as raised:
        expected(*lines)
    return [(row.line, error.field) for row in raised.value.bad for error in row.errors]


def test_a_line_is_about_a_gpu_or_about_a_node() -> None:
    found = expected("node,gpu,device,gpus", "n1,GPU-1,NVIDIA H200,", "n1,GPU-2,NVIDIA H200,", "n2,,H200,8", "n3,,,")
    assert found == {
        "east": [
            ExpectedGpu("n1", "GPU-1", "H200"),
            ExpectedGpu("n1", "GPU-2", "H200"),
            ExpectedGpu("n2", None, "H200", 8),
            ExpectedGpu("n3", None, None, None),
        ]
    }


def test_columns_stand_in_any_order_between_any_usual_signs_and_others_are_left_alone() -> None:
    assert expected("owner;gpus;node", "me;8;n1") == {"east": [ExpectedGpu("n1", None, None, 8)]}


def test_gpus_that_are_known_by_their_place_are_counted() -> None:
    """By name each would be missing as soon as its driver tells a UUID."""
    found = expected("node,pci_bus_id,index", "n1,0000:1A:00.0,", "n1,0000:2A:00.0,", "n2,,0")
    assert found == {"east": [ExpectedGpu("n1", None, None, 2), ExpectedGpu("n2", None, None, 1)]}


def test_gpus_with_and_without_a_uuid_are_counted_together() -> None:
    found = expected("node,gpu,index", "n1,GPU-1,0", "n1,,1")
    assert found == {"east": [ExpectedGpu("n1", "GPU-1"), ExpectedGpu("n1", None, None, 2)]}


def test_two_names_of_one_device_are_one() -> None:
    found = expected("node,index,device", "n1,0,NVIDIA H200", "n1,1,H200")
    assert found == {"east": [ExpectedGpu("n1", None, "H200", 2)]}


def test_a_node_may_have_gpus_of_two_devices() -> None:
    found = expected("node,device,gpus", "n1,H200,4", "n1,L4,2")
    assert found == {"east": [ExpectedGpu("n1", None, "H200", 4), ExpectedGpu("n1", None, "L4", 2)]}


def test_a_file_may_be_about_several_clusters() -> None:
    found = expected("cluster,node,gpus", "west,n1,8", ",n1,8")
    assert found == {"west": [ExpectedGpu("n1", None, None, 8)], "east": [ExpectedGpu("n1", None, None, 8)]}


def test_a_header_alone_expects_nothing() -> None:
    assert expected("node,gpus", "", "  ") == {"east": []}


@pytest.mark.parametrize("header", ["", "gpu,device", "Node Name,gpus", "node,node", "no\0de", "Node"])
def test_a_file_without_a_right_header_is_refused(header: str) -> None:
    with pytest.raises(HeaderError):
        expected(header, "n1")


@pytest.mark.parametrize(
    ("line", "column"),
    [
        (",GPU-1,,", "node"),
        ("n1,GPU-00000000-0000-0000-0000-000000000000,,", "gpu"),
        ("n1,ERR!,,", "gpu"),
        ("n1,,x,", "index"),
        ("n1,,,0", "gpus"),
        ("n1,,,1000", "gpus"),
        ("n1,,,-1", "gpus"),
        ("n1,GPU-1,,8", "gpus"),
        ("n1,,0,8", "gpus"),
        ("n\x1b1,,,", "node"),
        ("n1", ""),
        ('"n1,,,', ""),
    ],
)
def test_a_line_that_is_no_expectation_is_told_by_its_number_and_column(line: str, column: str) -> None:
    assert faults("node,gpu,index,gpus", "n0,,,8", line) == [(3, column)]


def test_every_bad_line_is_told() -> None:
    assert faults("node,gpus", "n1,x", "n2,8", "", ",8") == [(2, "gpus"), (5, "node")]


@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("n1,GPU-1,,,", "n2,GPU-1,,,", "gpu"),
        ("n1,,0000:1A:00.0,,", "n1,,0000:1a:00.0,,", "pci_bus_id"),
        ("n1,GPU-1,,0,", "n1,GPU-2,,0,", "index"),
        ("n1,,,,8", "n1,,,,4", "node"),
    ],
)
def test_what_stands_there_twice_is_told_with_the_line_of_the_first(first: str, second: str, column: str) -> None:
    with pytest.raises(BadInventoryError) as raised:
        expected("node,gpu,pci_bus_id,index,gpus", first, second)
    [row] = raised.value.bad
    assert (row.line, row.errors[0].field) == (3, column)
    assert "line 2" in row.errors[0].problem


def test_the_same_place_in_two_nodes_is_two_gpus() -> None:
    assert len(expected("node,index", "n1,0", "n2,0")["east"]) == 2
