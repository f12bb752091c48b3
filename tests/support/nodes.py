"""A node as `doctor` meets it: well in every respect, changed where a test needs it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeVar

from fleetridge_agent.config import options
from fleetridge_agent.config.origins import settings_seen
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.doctor.facts import CardFacts, CudaFacts, NoFactsError, NvmlFacts, ServerFacts, TorchFacts
from fleetridge_agent.doctor.probe import Finding, NodeState, Probe
from fleetridge_agent.readings.host import Host

Told = TypeVar("Told", NvmlFacts, CudaFacts, TorchFacts)

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)

CARDS = tuple(
    CardFacts(index=index, uuid=f"GPU-{index}", pci_bus_id=f"0000:{index:02x}:00.0", device="NVIDIA H200")
    for index in range(2)
)

WELL_SERVER = ServerFacts(ready=200, ingest=422, read=200, date=NOW, asked_at=NOW, answered_at=NOW)


@dataclass
class SickNode:
    """
    A node to examine; a string in place of facts is why there are none.

    Attributes:
        root: folder that stands for the root of its file system.
        closed: device nodes that this user may not use.
    """

    root: Path
    nvml: NvmlFacts | str = field(default_factory=lambda: NvmlFacts(driver="580.159.04", cards=CARDS))
    cuda: CudaFacts | str = field(default_factory=lambda: CudaFacts(newest_cuda=13000, gpus=2))
    torch: TorchFacts | str = field(default_factory=lambda: TorchFacts(version="2.11.0+cu130", cuda="13.0"))
    server: ServerFacts = WELL_SERVER
    environ: dict[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()

    def findings(self, probe: Probe, *arguments: str) -> list[Finding]:
        """What one probe finds."""
        return list(probe(self.state(*arguments)))

    def state(self, *arguments: str) -> NodeState:
        """What probes look at, with options as they are typed."""
        parser = argparse.ArgumentParser()
        for setting in options.every_setting():
            if setting not in options.SHOWING:
                setting.add_to(parser)
        state_dir = self.root / "state"
        return NodeState(
            settings=settings_seen(Source(parser.parse_args(arguments), self.environ), state_dir),
            environ=self.environ,
            state_dir=state_dir,
            host=Host(self.root),
            now=lambda: NOW,
            nvml=lambda: _told(self.nvml),
            cuda=lambda: _told(self.cuda),
            torch=lambda: _told(self.torch),
            server=self._looked_at,
            is_allowed=lambda path: path.name not in self.closed,
        )

    def with_device_nodes(self, *names: str) -> SickNode:
        """The same with these in /dev."""
        (self.root / "dev").mkdir(exist_ok=True)
        for name in names:
            (self.root / "dev" / name).touch()
        return self

    def with_file(self, path: str, text: str) -> SickNode:
        """The same with a file."""
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        return self

    def with_gpus_on_bus(self, count: int) -> SickNode:
        """The same with gpus on its PCI bus."""
        for number in range(count):
            self.with_file(f"sys/bus/pci/devices/{number}/vendor", "0x10de")
            self.with_file(f"sys/bus/pci/devices/{number}/class", "0x030200")
        return self

    def _looked_at(self, _: Server) -> ServerFacts:
        return self.server


def severities(findings: list[Finding]) -> list[tuple[str, str]]:
    """What was looked at, and how it is."""
    return [(finding.what, finding.severity) for finding in findings]


def clock_off(seconds: float) -> ServerFacts:
    """A server whose clock this node's is ahead of by so much."""
    return ServerFacts(
        ready=200, ingest=422, read=200, date=NOW - timedelta(seconds=seconds), asked_at=NOW, answered_at=NOW
    )


def _told(facts: Told | str) -> Told:
    if isinstance(facts, str):
        raise NoFactsError(facts)
    return facts
