"""All probes, in the order in which one trouble explains the next, and what they amount to."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleetridge_agent.doctor import driver_probes, server_probes, settings_probes, silicon, state_probes, torch_probes
from fleetridge_agent.doctor.finding import Finding, Probe, not_checked
from fleetridge_agent.doctor.surroundings import SettingInForce, Surroundings

log = logging.getLogger(__name__)

PROBES: Mapping[str, Probe] = {
    "device nodes": driver_probes.device_nodes,
    "NVML": driver_probes.nvml,
    "cards": driver_probes.cards,
    "CUDA": driver_probes.cuda,
    "torch": torch_probes.torch,
    "state directory": state_probes.state_dir,
    "spool": state_probes.spool,
    "settings": settings_probes.settings,
    "token file": settings_probes.token_file,
    "server": server_probes.server,
    "untried": silicon.silicon,
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """
    What the probes found, and the settings in force.

    Attributes:
        foreign: variables that are not ours and decide how the server is reached.
    """

    findings: tuple[Finding, ...]
    settings: tuple[SettingInForce, ...]
    foreign: tuple[SettingInForce, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing stands in the way of measuring and delivering."""
        return all(finding.severity != "problem" for finding in self.findings)


def examine(around: Surroundings, probes: Mapping[str, Probe] = PROBES) -> Diagnosis:
    """Look at everything; a probe that breaks costs its own finding and no other's."""
    return Diagnosis(
        findings=tuple(finding for name, probe in probes.items() for finding in _findings(name, probe, around)),
        settings=around.settings.in_force,
        foreign=around.settings.foreign,
    )


def _findings(name: str, probe: Probe, around: Surroundings) -> Iterator[Finding]:
    try:
        yield from probe(around)
    except Exception as error:
        log.debug("probe %s broke", name, exc_info=True)
        yield not_checked(name, f"the probe broke: {type(error).__name__}: {error}", "please report this")
