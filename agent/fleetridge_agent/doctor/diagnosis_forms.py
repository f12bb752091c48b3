"""A diagnosis for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from fleetridge.terminal_text import padded, visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH, Column, text_table
from fleetridge_agent.doctor.examination import Diagnosis
from fleetridge_agent.doctor.finding import Finding

_WELL = "Nothing stands in the way of measuring and delivering."
_UNWELL = "What stands in the way: {}."

_SEVERITY_WIDTH = len("not checked")
_INDENT = " " * (_SEVERITY_WIDTH + 2)

_COLUMNS = (Column("setting"), Column("value", align="left"), Column("from", align="left"))


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
