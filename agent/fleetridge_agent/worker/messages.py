"""Messages between a worker and its parent, one JSON object a line: the job, steps, log lines, and last the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from fleetridge.report import Report
from fleetridge_agent.errors import ExitCode
from fleetridge_agent.gpus.targets import Target
from fleetridge_agent.progress import Progress
from fleetridge_agent.sweep.report import Assignment


@dataclass(frozen=True, slots=True)
class Job:
    """
    What one worker is to do.

    Attributes:
        parent: process that gives the job; the worker does not outlive it.
        is_contended: whether somebody uses the gpu and it is to be measured nevertheless.
        is_together: whether to wait for `Go` before measuring.
    """

    target: Target
    assignment: Assignment
    parent: int
    is_contended: bool = False
    is_together: bool = False


_JOB = TypeAdapter(Job)


def job_json(job: Job) -> bytes:
    """A job as one line of JSON, without the line's end."""
    return _JOB.dump_json(job)


def job_of(line: bytes) -> Job:
    """
    A job as it was given.

    Raises:
        ValueError: it is none.
    """
    return _JOB.validate_json(line)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class StepStarted(_Message):
    """The worker is about to take a step of its sweep."""

    kind: Literal["step"] = "step"
    progress: Progress


class LogLine(_Message):
    """A line for the log; `level` as `logging` counts."""

    kind: Literal["log"] = "log"
    level: int
    text: str


class Ready(_Message):
    """The gpu is open, and the worker waits for `Go`."""

    kind: Literal["ready"] = "ready"


class UsageRejected(_Message):
    """The options cannot be carried out on this device."""

    kind: Literal["misused"] = "misused"
    text: str


class Finished(_Message):
    """The report, what the program would end with if this were its only device, and whether its sweep made room."""

    kind: Literal["finished"] = "finished"
    code: ExitCode
    report: Report
    is_cut_short: bool = False


Message = Annotated[StepStarted | LogLine | Ready | UsageRejected | Finished, Field(discriminator="kind")]


_MESSAGE: TypeAdapter[StepStarted | LogLine | Ready | UsageRejected | Finished] = TypeAdapter(Message)


def line_of(message: _Message) -> bytes:
    """
    One line, its end included.

    Null is left out, as in a report's canonical spelling.
    """
    return message.model_dump_json(exclude_none=True).encode() + b"\n"


def message_of(line: bytes) -> StepStarted | LogLine | Ready | UsageRejected | Finished:
    """
    A message as it was said.

    Raises:
        ValueError: it is none.
    """
    return _MESSAGE.validate_json(line)


class Go(_Message):
    """To a worker that is ready: begin, and how many gpus are measured at once."""

    gpus_at_once: Annotated[int, Field(ge=1)]
