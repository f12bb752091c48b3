from __future__ import annotations

import platform
import socket
from pathlib import Path

from fleetridge.report import Environment
from fleetridge_agent.readings.host import Host, host_readings, node_name
from fleetridge_agent.readings.reading import model_of


def test_a_node_in_kubernetes_has_the_name_that_kubernetes_gives_it() -> None:
    """The host name there is the pod's, and another one after every restart."""
    assert node_name({"NODE_NAME": "gpu-node-7"}) == "gpu-node-7"


def test_a_node_elsewhere_has_its_host_name() -> None:
    """An empty variable counts as none."""
    assert node_name({}) == socket.gethostname()
    assert node_name({"NODE_NAME": " "}) == socket.gethostname()


def test_readings_of_the_host_come_in_the_words_of_the_report(tmp_path: Path) -> None:
    """What Linux does not say is null."""
    readings = host_readings(Host(tmp_path), {"FLEETRIDGE_CONTAINER_IMAGE": "registry.example/agent:1"})
    environment = model_of(Environment, readings)

    assert readings.keys() <= Environment.model_fields.keys()
    assert environment.python == platform.python_version()
    assert environment.container_image == "registry.example/agent:1"
    assert environment.cpu_model is None
