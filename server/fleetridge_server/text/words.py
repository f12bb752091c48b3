"""Words and cells that several tables share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Protocol

from fleetridge.quantities import MISSING, age, binary_size, percent, significant
from fleetridge.terminal_text import visible, wrapped
from fleetridge.text_table import DEFAULT_WIDTH
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.compare.stats import Distribution

# The first group of a UUID, "GPU-1f2e3d4c": enough to tell the gpus of a fleet apart by eye.
_SHORT_ID = 12


def blocks(*parts: str) -> str:
    """Parts of a text with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def lines(sentences: Iterable[str]) -> str:
    """Sentences below one another, broken where they are too long."""
    return "\n".join(line for sentence in sentences for line in wrapped(visible(sentence), DEFAULT_WIDTH))


def counted(number: int, what: str) -> str:
    """A number of things: "1 gpu", "8 gpus"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def more_follows(following: str | None, what: str) -> str:
    """Words for a list that goes on."""
    return "" if following is None else f"more {what} follow: raise limit, or send `next` of the JSON form as after"


def at(moment: datetime | None) -> str:
    """Time to the minute, in UTC."""
    return MISSING if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def ago(moment: datetime | None, as_of: datetime) -> str:
    """How long before an answer's time something was."""
    return MISSING if moment is None else age(as_of - moment)


def old(age_s: float | None) -> str:
    """Age from seconds."""
    return MISSING if age_s is None else age(timedelta(seconds=age_s))


def short_id(gpu_id: str) -> str:
    """Start of a gpu's id, for tables that also say its node and index."""
    return gpu_id if len(gpu_id) <= _SHORT_ID else f"{gpu_id[:_SHORT_ID]}…"


def spread(values: Distribution | None) -> str:
    """Quartiles, "840–851"."""
    return MISSING if values is None else f"{significant(values.q1)}–{significant(values.q3)}"


def middle(values: Distribution | None) -> str:
    """Median."""
    return significant(None if values is None else values.median)


def share(fraction: float | None) -> str:
    """Part of the published figure."""
    return percent(fraction)


class _Conditioned(Protocol):
    @property
    def conditions(self) -> Conditions: ...


def differing_conditions(cohorts: Sequence[_Conditioned]) -> list[str]:
    """For each group of gpus, those of its conditions that are not the same in all groups: ", 1g.12gb"."""
    conditions = [asdict(cohort.conditions) for cohort in cohorts]
    differing = [name for name in Conditions.__dataclass_fields__ if len({each[name] for each in conditions}) > 1]
    return ["".join(f", {_condition(name, each[name])}" for name in differing) for each in conditions]


def _condition(name: str, value: str | int | None) -> str:
    if name == "memory_bytes":
        return binary_size(None if value is None else int(value))
    words = {"sm_count": f"{value} SMs", "protocol_version": f"protocol {value}", "fill": f"fill {value}"}
    if value is None:
        return f"no {name.replace('_', ' ')}"
    return words.get(name, str(value))
