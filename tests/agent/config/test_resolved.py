"""What settings add up to."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from fleetridge_agent.config.resolved import default_state_dir, node_name_of, node_of
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.errors import UsageError

HOME = Path("/home/someone")


def test_root_keeps_state_for_the_whole_host() -> None:
    assert default_state_dir({"XDG_STATE_HOME": "/x"}, is_root=True, home=HOME) == Path("/var/lib/fleetridge")


def test_a_user_keeps_state_where_xdg_says() -> None:
    assert default_state_dir({"XDG_STATE_HOME": "/x"}, is_root=False, home=HOME) == Path("/x/fleetridge")


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_a_user_without_an_absolute_xdg_directory_keeps_state_at_home(environ: dict[str, str]) -> None:
    assert default_state_dir(environ, is_root=False, home=HOME) == HOME / ".local/state/fleetridge"


def source(environ: dict[str, str] | None = None, **options: object) -> Source:
    return Source(argparse.Namespace(**options), environ or {})


def test_what_the_user_says_of_the_node_wins() -> None:
    """Cluster, name and labels."""
    node = node_of(source({"NODE_NAME": "x"}, cluster="east", node="n01", label=["rack=r1"]))

    assert (node.cluster, node.name, node.labels) == ("east", "n01", {"rack": "r1"})


def test_a_node_without_a_cluster_is_in_the_default_one() -> None:
    """So that a single cluster needs no setting."""
    assert node_of(source()).cluster == "default"


@pytest.mark.parametrize("name", ["n01", "gpu-7.rack_3.example", "Knoten 7", "n" * 250, "ä"])
def test_the_name_alone_is_that_of_the_node(name: str) -> None:
    assert node_name_of(source(node=name)) == node_of(source(node=name)).name == name


@pytest.mark.parametrize("options", [{"node": "n" * 5000}, {"cluster": "c" * 5000}, {"label": ["rack=" + "r" * 5000]}])
def test_the_name_alone_is_refused_where_the_node_is(options: dict[str, object]) -> None:
    for of in (node_of, node_name_of):
        with pytest.raises(UsageError, match="--cluster, --node, --label"):
            of(source({"NODE_NAME": "n01"}, **options))
