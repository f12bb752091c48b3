"""Variables that look like ours and are none: a misspelt setting is otherwise silently without effect."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from fleetridge_agent.config import options
from fleetridge_agent.readings.host import IMAGE_VARIABLE

_PREFIX = "FLEETRIDGE_"

# A host may run the server too, and Slurm's scripts; their settings are their own business.
_PREFIXES_OF_OTHERS = ("FLEETRIDGE_SERVER_", "FLEETRIDGE_SLURM_")

# Kubernetes sets these in every pod for a Service whose name begins with "fleetridge" (Service, "environment
# variables": {SVCNAME}_SERVICE_HOST, …_SERVICE_PORT_NAME, and Docker's links …_PORT_8000_TCP_ADDR).
_OF_KUBERNETES = re.compile(r"FLEETRIDGE_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")


@dataclass(frozen=True, slots=True)
class UnknownVariable:
    """
    A variable with our prefix that nothing reads.

    Attributes:
        nearest: the known one that is spelled most like it, None where none is.
    """

    name: str
    nearest: str | None

    def __str__(self) -> str:
        hint = f"did you mean {self.nearest}?" if self.nearest else "`fleetridge-agent doctor` lists those that count"
        return f"{self.name} is no setting of this agent and changes nothing; {hint}"


def unknown_variables(environ: Mapping[str, str]) -> tuple[UnknownVariable, ...]:
    """Variables with our prefix that no command reads, by name."""
    known = known_variables()
    strange = sorted(name for name in environ if name.startswith(_PREFIX) and name not in known)
    return tuple(UnknownVariable(name, _nearest(name, known)) for name in strange if not _is_others(name))


def known_variables() -> frozenset[str]:
    """Every variable of ours that a command reads."""
    return frozenset(_known())


def _known() -> Iterator[str]:
    yield IMAGE_VARIABLE
    for setting in options.every_setting():
        yield setting.variable
        yield from setting.also


def _is_others(name: str) -> bool:
    return name.startswith(_PREFIXES_OF_OTHERS) or _OF_KUBERNETES.fullmatch(name) is not None


def _nearest(name: str, known: Collection[str]) -> str | None:
    # What all of them share says nothing of likeness.
    short = {word.removeprefix(_PREFIX): word for word in sorted(known)}
    found = difflib.get_close_matches(name.removeprefix(_PREFIX), short, n=1)
    return short[found[0]] if found else None
