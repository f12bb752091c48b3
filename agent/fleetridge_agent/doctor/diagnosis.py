"""All probes, in the order in which one trouble explains the next, and what they amount to as text and JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from fleetridge.terminal_text import padded, visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH, Column, text_table
from fleetridge_agent.doctor import driver_probes, server_probes, state_probes, torch_probes
from fleetridge_agent.doctor.probe import Finding, NodeState, Probe, SettingInForce, not_checked

log = logging.getLogger(__name__)

PROBES: Mapping[str, Probe] = {
    "device nodes": driver_probes.device_nodes,
    "NVML": driver_probes.nvml,
    "cards": driver_probes.cards,
    "CUDA": driver_probes.cuda,
    "torch": torch_probes.torch,
    "state directory": state_probes.state_dir,
    "spool": state_probes.spool,
    "settings": state_probes.settings,
    "token file": state_probes.token_file,
    "server": server_probes.server,
    "untried": driver_probes.untried,
}

_WELL = "Nothing stands in the way of measuring and delivering."
_UNWELL = "What stands in the way: {}."

_SEVERITY_WIDTH = len("not checked")
_INDENT = " " * (_SEVERITY_WIDTH + 2)

_COLUMNS = (Column("setting"), Column("value", align="left"), Column("from", align="left"))


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


def diagnose(node: NodeState, probes: Mapping[str, Probe] = PROBES) -> Diagnosis:
    """Look at everything; a probe that breaks costs its own finding and no other's."""
    return Diagnosis(
        findings=tuple(finding for name, probe in probes.items() for finding in _findings(name, probe, node)),
        settings=node.settings.in_force,
        foreign=node.settings.foreign,
    )


def diagnosis_text(diagnosis: Diagnosis, *, width: int = DEFAULT_WIDTH) -> str:
    """Findings with their remedies, the settings in force, and a last line that sums up; no newline at the end."""
    lines = [line for finding in diagnosis.findings for line in _finding_lines(finding, width)]
    entries = (*diagnosis.settings, *diagnosis.foreign)
    rows = [[entry.name, entry.value, entry.origin] for entry in entries if entry.value is not None]
    table = text_table(_COLUMNS, rows, title="settings in force", width=width)
    absent = ", ".join(entry.name for entry in entries if entry.value is None)
    return "\n".join(
        [*lines, "", table, *wrapped(f"not set: {absent}", width), "", *wrapped(_summary(diagnosis), width)]
    )


def diagnosis_json(diagnosis: Diagnosis) -> str:
    """One JSON object; no newline at the end."""
    content = {
        "well": diagnosis.is_well,
        "findings": [asdict(finding) for finding in diagnosis.findings],
        "settings": [asdict(entry) for entry in (*diagnosis.settings, *diagnosis.foreign)],
    }
    return json.dumps(content, ensure_ascii=False, indent=1)


def _findings(name: str, probe: Probe, node: NodeState) -> Iterator[Finding]:
    try:
        yield from probe(node)
    except Exception as error:
        log.debug("probe %s broke", name, exc_info=True)
        yield not_checked(name, f"the probe broke: {type(error).__name__}: {error}", "please report this")


def _finding_lines(finding: Finding, width: int) -> Iterator[str]:
    first, *rest = wrapped(visible(f"{finding.what}: {finding.seen}"), width - len(_INDENT))
    yield f"{padded(finding.severity, _SEVERITY_WIDTH)}  {first}"
    for line in rest:
        yield f"{_INDENT}{line}"
    if finding.remedy:
        for number, line in enumerate(wrapped(visible(finding.remedy), width - len(_INDENT) - len("→ "))):
            yield f"{_INDENT}{'  ' if number else '→ '}{line}"


def _summary(diagnosis: Diagnosis) -> str:
    problems = dict.fromkeys(finding.what for finding in diagnosis.findings if finding.severity == "problem")
    return _UNWELL.format(", ".join(problems)) if problems else _WELL
