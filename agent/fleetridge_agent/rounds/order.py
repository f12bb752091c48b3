"""What a daemon tells the process of a round, and what it is told in return."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

# Somebody was there, or arrived, or something was not ready yet: an hour later it may be otherwise.
_PASSING_REASONS = frozenset({"busy", "already_running", "preempted", "cuda_not_ready"})

# Only a new container, or a new start of this program on the host, can bring the gpus back.
_LOST_REASONS = frozenset({"nvml_unknown_error", "driver_library_mismatch"})


@dataclass(frozen=True, slots=True)
class Order:
    """
    One try of a round.

    Attributes:
        gpus: which ones, by UUID or CUDA number; None for those that the daemon was told.
        withholds: whether a gpu that may be tried again gets no report this time.
    """

    gpus: tuple[str, ...] | None = None
    withholds: bool = False


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """
    Why something was not measured.

    Attributes:
        gpu: its UUID or CUDA number, None where it is about the node.
        reason: as in the report.
    """

    gpu: str | None
    reason: str

    @property
    def is_passing(self) -> bool:
        """Whether a later try may succeed."""
        return is_passing(self.reason)


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What became of one try.

    Attributes:
        unmeasured: everything else that was tried.
        is_cut_short: whether it was asked to end before everything was tried.
    """

    measured: int = 0
    unmeasured: tuple[Unmeasured, ...] = ()
    is_cut_short: bool = False

    @property
    def worth_another_try(self) -> tuple[Unmeasured, ...]:
        """What may be measured later in this round."""
        return tuple(one for one in self.unmeasured if one.is_passing)

    @property
    def lost_by(self) -> str | None:
        """Reason for which this process cannot measure any more, None where it can."""
        return next((one.reason for one in self.unmeasured if one.reason in _LOST_REASONS), None)


def is_passing(reason: str | None) -> bool:
    """Whether what kept a gpu from being measured may pass within hours."""
    return reason in _PASSING_REASONS


_ORDER, _ANSWER = TypeAdapter(Order), TypeAdapter(Answer)


def order_text(order: Order) -> str:
    """An order as an argument of a command line."""
    return _ORDER.dump_json(order).decode()


def order_of(text: str) -> Order:
    """The order in an argument; raises ValueError where there is none."""
    return _ORDER.validate_json(text)


def answer_text(answer: Answer) -> str:
    """An answer as one line."""
    return _ANSWER.dump_json(answer).decode() + "\n"


def answer_of(content: bytes) -> Answer | None:
    """The answer that a process wrote, None where it wrote none."""
    try:
        return _ANSWER.validate_json(content)
    except ValueError:
        return None
