"""Whether the settings say what was meant."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from fleetridge_agent.doctor.finding import Finding, ok, problem, warning
from fleetridge_agent.doctor.surroundings import Surroundings

# A Secret that Kubernetes mounts belongs to root and may be read by the pod's group.
_TOO_LOOSE = stat.S_IRWXO | stat.S_IWGRP


def settings(around: Surroundings) -> Iterator[Finding]:
    """Values that cannot be read, and variables that nothing reads."""
    for fault in around.settings.faults:
        yield problem("settings", fault, "correct it")
    for sentence in around.settings.misspelt:
        seen, _, remedy = sentence.partition("; ")
        yield warning("settings", seen, remedy)
    if not around.settings.faults and not around.settings.misspelt:
        yield ok("settings", "all can be read; no variable is misspelt")


def token_file(around: Surroundings) -> Iterator[Finding]:
    """Whether the token is kept from others on this host; whether it is one, the server's probe finds out."""
    path = around.settings.token_file
    if path is None:
        return
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & _TOO_LOOSE:
        yield warning(
            "token file",
            f"{path} has mode {stat.S_IMODE(mode):04o}: others on this host may use the token",
            f"`chmod 600 {path}`; in Kubernetes set defaultMode: 0400 on the volume",
        )
    else:
        yield ok("token file", f"{path} is closed to others (mode {stat.S_IMODE(mode):04o})")
