"""What the probes look at: everything that reaches out of this process is a function that a test may replace."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fleetridge_agent.config.settings import Source
from fleetridge_agent.deliver.client import Server
from fleetridge_agent.doctor.facts import CudaFacts, NvmlFacts, TorchFacts
from fleetridge_agent.doctor.server_look import ServerFacts
from fleetridge_agent.node.host import Host


def _readable_and_writable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """
    One node as its agent meets it.

    Attributes:
        nvml, cuda, torch: ask the libraries; each raises NoFactsError where there is no answer, and asks once only.
        server: looks at a server.
        is_allowed: whether this process may use a device node.
    """

    source: Source
    state_dir: Path
    host: Host
    now: Callable[[], datetime]
    nvml: Callable[[], NvmlFacts]
    cuda: Callable[[], CudaFacts]
    torch: Callable[[], TorchFacts]
    server: Callable[[Server], ServerFacts]
    is_allowed: Callable[[Path], bool] = field(default=_readable_and_writable)

    @property
    def is_container(self) -> bool:
        """Whether this looks like the inside of a container."""
        return self.host.is_container(self.source.environ)
