"""What a probe is given, and what it finds: everything that reaches out of this process is a function."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.doctor.facts import CudaFacts, NvmlFacts, ServerFacts, TorchFacts
from fleetridge_agent.readings.host import Host

Severity = Literal["ok", "warning", "problem", "not checked"]


def _readable_and_writable(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK)


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """
    One setting, to be shown: no secret is in it.

    Attributes:
        value: as text, without credentials; None where there is none.
        origin: the option or variable that gave it, or `default`, or `not set`.
    """

    name: str
    value: str | None
    origin: str


@dataclass(frozen=True, slots=True)
class SettingsSeen:
    """
    What the settings of this node come to.

    Attributes:
        measures_gpus: whether gpus are to be measured, and not the CPU.
        server: that is named; None where none is, or where `server_fault` says what is wrong with it.
        server_fault: sentence with the remedy.
        token_file: None where none is named, or it cannot be.
        faults: sentences about values that cannot be read.
        misspelt: sentences about variables that look like ours and are none.
        in_force: every setting.
        foreign: variables that are not ours and decide how the server is reached.
    """

    measures_gpus: bool = True
    server: Server | None = None
    server_fault: str | None = None
    token_file: Path | None = None
    faults: tuple[str, ...] = ()
    misspelt: tuple[str, ...] = ()
    in_force: tuple[SettingInForce, ...] = ()
    foreign: tuple[SettingInForce, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """
    One node as its agent meets it.

    Attributes:
        nvml, cuda, torch: ask the libraries; each raises NoFactsError where there is no answer, and asks once only.
        server: looks at a server.
        is_allowed: whether this process may use a device node.
    """

    settings: SettingsSeen
    environ: Mapping[str, str]
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
        return self.host.is_container(self.environ)


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


Probe = Callable[[NodeState], Iterable[Finding]]
"""Looks at one part of the node; changes nothing and takes nothing from whoever uses a gpu."""


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
