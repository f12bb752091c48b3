"""Asks a child process, and gives up on one that does not answer in time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import TypeVar

from pydantic import ValidationError

from fleetridge.own_program import own_program
from fleetridge.terminal_text import shortened
from fleetridge_agent.doctor.facts import Facts
from fleetridge_agent.errors import AgentError

FactsT = TypeVar("FactsT", bound=Facts)

# The first import of torch from a cold network file system takes half a minute; a driver that is well answers at once.
LIMIT_S = 60.0

# A process that waits for a dead device cannot even be killed; it is left behind.
_FAREWELL_S = 1.0

_LONGEST_CAUSE = 300


class NoFactsError(AgentError):
    """The child hung, crashed or said nothing; the message says which."""


def asked(subject: str, model: type[FactsT], *, limit_s: float = LIMIT_S) -> FactsT:
    """
    What a library says, asked in a process of its own.

    Raises:
        NoFactsError: it does not answer.
    """
    command = (*own_program("fleetridge_agent.doctor.looking"), subject)
    return answered(command, model, limit_s=limit_s)


def answered(command: Sequence[str], model: type[FactsT], *, limit_s: float) -> FactsT:
    """
    What a command prints, read as facts.

    Raises:
        NoFactsError: it does not end in time, ends otherwise than well, or prints something else.
    """
    process = subprocess.Popen(  # noqa: S603 # our own interpreter and module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Keeps modules of the folder that the agent was started in out of the child, from Python 3.11 on.
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_FAREWELL_S)
        raise NoFactsError(f"it does not answer within {limit_s:g} s") from None
    if process.returncode != 0:
        raise NoFactsError(f"it ends with {_ending(process.returncode)}{_last_line(errors)}")
    try:
        return model.model_validate_json(output)
    except ValidationError as error:
        raise NoFactsError("it says something else than was asked") from error


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").strip().splitlines()
    return f": {shortened(lines[-1], _LONGEST_CAUSE)}" if lines else ""
