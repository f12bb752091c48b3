"""Software and host that a device is measured under, the same for every kind of device."""

from __future__ import annotations

import platform
import socket
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata

from fleetridge.report import Node
from fleetridge.report.identity import DEFAULT_CLUSTER
from fleetridge_agent.node.host import Host

# Kubernetes passes the node's name by this variable; the host name in a pod is the pod's and changes every time.
_NODE_NAME = "NODE_NAME"

# Only whoever starts the container knows its image.
IMAGE_VARIABLE = "FLEETRIDGE_CONTAINER_IMAGE"

# Distributions that bring cuBLAS along with torch, newest first; a torch built against the system's has none.
_CUBLAS_DISTRIBUTIONS = ("nvidia-cublas", "nvidia-cublas-cu13", "nvidia-cublas-cu12", "nvidia-cublas-cu11")


def host_readings(host: Host, environ: Mapping[str, str]) -> dict[str, object]:
    """Readings of host and interpreter, by the names of `report.Environment`."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "container_image": environ.get(IMAGE_VARIABLE) or None,
        "cpu_model": host.cpu_model(),
        "cpu_count": host.usable_cores(),
    }


def cublas_version() -> str | None:
    """Version of the cuBLAS that was installed for torch, None where none was."""
    for name in _CUBLAS_DISTRIBUTIONS:
        with suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None


def node_name(environ: Mapping[str, str]) -> str:
    """Name of the node: what Kubernetes says, else the host's own."""
    return environ.get(_NODE_NAME, "").strip() or socket.gethostname()


def node_identity(
    environ: Mapping[str, str],
    *,
    cluster: str | None = None,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Node:
    """The node that a report speaks of; what is not given is found out."""
    return Node(cluster=cluster or DEFAULT_CLUSTER, name=name or node_name(environ), labels=dict(labels or {}))
