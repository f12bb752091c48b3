"""What a worker says, one JSON object a line: where it is, what there is to log, and at last its report."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fleetridge.report import Report
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.progress import Progress


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class Step(_Message):
    """What the worker is about to do."""

    kind: Literal["step"] = "step"
    progress: Progress


class Remark(_Message):
    """A line for the log; `level` as `logging` counts."""

    kind: Literal["remark"] = "remark"
    level: int
    text: str


class Ready(_Message):
    """The gpu is open, and the worker waits for the word."""

    kind: Literal["ready"] = "ready"


class Misused(_Message):
    """The options cannot be carried out on this device."""

    kind: Literal["misused"] = "misused"
    text: str


class Finished(_Message):
    """The report, and what the program would end with if this were its only device."""

    kind: Literal["finished"] = "finished"
    code: ExitCode
    report: Report


Message = Annotated[Step | Remark | Ready | Misused | Finished, Field(discriminator="kind")]

_MESSAGE: TypeAdapter[Step | Remark | Ready | Misused | Finished] = TypeAdapter(Message)


def line_of(message: _Message) -> bytes:
    """
    One line, its end included.

    Null is left out, as in a report's canonical spelling.
    """
    return message.model_dump_json(exclude_none=True).encode() + b"\n"


def message_of(line: bytes) -> Step | Remark | Ready | Misused | Finished:
    """
    A message as it was said.

    Raises:
        ValueError: it is none.
    """
    return _MESSAGE.validate_json(line)


class Go(_Message):
    """The word to a worker that is ready: how many gpus are measured at once."""

    gpus_at_once: Annotated[int, Field(ge=1)]
