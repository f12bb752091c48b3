from __future__ import annotations

import platform
import socket
from pathlib import Path

from fleetridge.report import Environment
from fleetridge_agent.readings.host import Host, host_readings, node_identity
from fleetridge_agent.readings.reading import model_of


def test_a_node_in_kubernetes_has_the_name_that_kubernetes_gives_it() -> None:
    """The host name there is the pod's, and another one after every restart."""
    assert node_identity({"NODE_NAME": "gpu-node-7"}).name == "gpu-node-7"


def test_a_node_elsewhere_has_its_host_name() -> None:
    """An empty variable counts as none."""
    assert node_identity({}).name == socket.gethostname()
    assert node_identity({"NODE_NAME": " "}).name == socket.gethostname()


def test_what_the_user_says_of_the_node_wins() -> None:
    """Cluster, name and labels."""
    node = node_identity({"NODE_NAME": "x"}, cluster="east", name="n01", labels={"rack": "r1"})

    assert (node.cluster, node.name, node.labels) == ("east", "n01", {"rack": "r1"})


def test_a_node_without_a_cluster_is_in_the_default_one() -> None:
    """So that a single cluster needs no setting."""
    assert node_identity({}).cluster == "default"


def test_readings_of_the_host_come_in_the_words_of_the_report(tmp_path: Path) -> None:
    """What Linux does not say is null."""
    readings = host_readings(Host(tmp_path), {"FLEETRIDGE_CONTAINER_IMAGE": "registry.example/agent:1"})
    environment = model_of(Environment, readings)

    assert readings.keys() <= Environment.model_fields.keys()
    assert environment.python == platform.python_version()
    assert environment.container_image == "registry.example/agent:1"
    assert environment.cpu_model is None
