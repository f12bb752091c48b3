"""What a probe found, and the contract of probes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fleetridge_agent.doctor.surroundings import Surroundings

Severity = Literal["ok", "warning", "problem", "not checked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One thing that was looked at.

    Attributes:
        what: a word or two.
        severity: `problem` stands in the way of measuring or delivering; `warning` does not, yet.
        seen: what was seen, a sentence without its stop.
        remedy: what to do about it; empty where nothing needs doing.
    """

    what: str
    severity: Severity
    seen: str
    remedy: str = ""


Probe = Callable[[Surroundings], Iterable[Finding]]
"""Looks at one part of the surroundings; changes nothing and takes nothing from whoever uses a gpu."""


def ok(what: str, seen: str) -> Finding:
    """Something that is as it should be."""
    return Finding(what, "ok", seen)


def warning(what: str, seen: str, remedy: str) -> Finding:
    """Something that makes results worse or fewer, or soon will."""
    return Finding(what, "warning", seen, remedy)


def problem(what: str, seen: str, remedy: str) -> Finding:
    """Something that stands in the way."""
    return Finding(what, "problem", seen, remedy)


def not_checked(what: str, seen: str, remedy: str = "") -> Finding:
    """Something that could not, or need not, be looked at."""
    return Finding(what, "not checked", seen, remedy)
