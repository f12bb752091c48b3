"""
Errors of the agent, each with the exit code that it ends the program with.

    AgentError                    1  something failed
    ├── UsageError                2  an option, a variable or a file named by one is wrong
    ├── NoDeviceError             3  there is nothing to measure here
    │   └── MigWithoutSliceError  4  there are gpus, set up so that none can be measured
    ├── SkippedError              4  nothing was measured on purpose
    │   ├── AlreadyRunningError
    │   └── DeviceBusyError
    ├── SweepError                1  measuring broke off
    │   └── PreemptedError        4  … to make room, or as a signal asked for it
    └── SpoolError                1  the state directory cannot be used
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fleetridge.report import Evidence  # the models of a report take longer to import than most commands


class ExitCode(IntEnum):
    """What the program ends with; never a count."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NO_DEVICE = 3
    SKIPPED = 4
    DEAD_LETTERED = 5


class CheckCode(IntEnum):
    """What a check ends with, as node-problem-detector reads it; whatever else a program ends with is unknown too."""

    OK = 0
    DEGRADED = 1
    UNKNOWN = 2


class AgentError(Exception):
    """
    Base of all errors that the agent expects; the message is a sentence that names the remedy.

    Attributes:
        exit_code: of the program when the error ends it.
        reason: word for the `reason` of a report, where one is sent.
    """

    exit_code = ExitCode.FAILED
    reason = "failed"


class UsageError(AgentError):
    """An option or variable has a wrong value; the message begins with its name."""

    exit_code = ExitCode.USAGE
    reason = "usage"


class NoDeviceError(AgentError):
    """
    There is no device to measure.

    Attributes:
        reason: such as `no_device`, `nvml_unknown_error`, `driver_library_mismatch` or `cuda_not_ready`.
    """

    exit_code = ExitCode.NO_DEVICE

    def __init__(self, message: str, *, reason: str = "no_device") -> None:
        super().__init__(message)
        self.reason = reason


class MigWithoutSliceError(NoDeviceError):
    """A card is in MIG mode and has no slice: it is as somebody set it up, which is no failure."""

    exit_code = ExitCode.SKIPPED

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="mig_without_slice")


class SkippedError(AgentError):
    """Nothing was measured, on purpose."""

    exit_code = ExitCode.SKIPPED
    reason = "skipped"


class AlreadyRunningError(SkippedError):
    """Another agent holds the lock of this node or gpu."""

    reason = "already_running"


class DeviceBusyError(SkippedError):
    """
    Somebody else uses the gpu.

    Attributes:
        evidence: what was seen of it, for the report.
    """

    reason = "busy"

    def __init__(self, message: str, *, evidence: Evidence | None = None) -> None:
        super().__init__(message)
        self.evidence = evidence


class SweepError(AgentError):
    """
    Measuring broke off.

    Attributes:
        reason: such as `crashed`, `out_of_memory` or `timed_out`.
    """

    def __init__(self, message: str, *, reason: str = "crashed") -> None:
        super().__init__(message)
        self.reason = reason


class PreemptedError(SweepError):
    """Measuring made room for somebody, or a signal asked for the end: it says nothing of the gpu."""

    exit_code = ExitCode.SKIPPED

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="preempted")


class SpoolError(AgentError):
    """The state directory cannot be read or written (read-only, full, not ours)."""

    reason = "spool_unavailable"
