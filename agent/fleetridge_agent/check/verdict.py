"""
What a check says of one gpu and of a node: the numbers, the state, and both in words. `rule` decides the state.

A scheduler's health check reads a verdict within a second, so nothing here needs a report or a driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from fleetridge.quantities import MINUS, quantity, signed_percent, since
from fleetridge.terminal_text import visible

log = logging.getLogger(__name__)

State = Literal["ok", "degraded", "unknown"]

# Decimals of a deviation that people are shown (0.1 %). Gpus and roofs that look alike to them keep their order, as
# what lies below is the noise of arithmetic.
_SHOWN_DECIMALS = 3

# The worst first: a gpu known to be slow says more of a node than one of which nothing is known.
_WORST_FIRST: tuple[State, ...] = ("degraded", "unknown", "ok")

# node-problem-detector cuts a message after 80 bytes; the newline is one of them.
_MOST_BYTES = 79

# Enough of a UUID to find the gpu with.
_UUID_CHARACTERS = 12
_REASON_CHARACTERS = 32


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RoofVerdict(_Kept):
    """
    One judged roof beside its band.

    Attributes:
        roof: in words.
        value, median, lowest: in `unit`; median and lowest are None where there is no band.
        peers: gpus behind the band; None where a baseline stands in for them.
        reason: why the state is unknown.
    """

    roof: str
    unit: str
    value: float
    state: State
    median: Annotated[float, Field(gt=0)] | None = None
    lowest: float | None = None
    peers: int | None = None
    reason: str = ""

    @property
    def deviation(self) -> float | None:
        """Part by which the value lies above (positive) or below (negative) the median; None without a band."""
        return None if self.median is None else self.value / self.median - 1

    @property
    def shown_deviation(self) -> float:
        """The deviation as it is shown, by which roofs and gpus are put in order; 0 without a band."""
        return round(self.deviation or 0.0, _SHOWN_DECIMALS)


class GpuVerdict(_Kept):
    """
    What a check says of one gpu.

    Attributes:
        uuid, pci_bus_id, index: identity, place, and the driver's number by place, as far as each is known.
        reason: a few words, where the state is unknown.
        passing: whether it is unknown only because somebody else needed the gpu.
        absent: gpus that should be there and cannot be used, for which this stands: one whose identity is known, or
            any number of them; 0 for a gpu that is there.
    """

    uuid: str | None = None
    pci_bus_id: str | None = None
    index: int | None = None
    device: str | None = None
    state: State
    reason: str = ""
    passing: bool = False
    absent: Annotated[int, Field(ge=0)] = 0
    judged_at: AwareDatetime
    roofs: Annotated[tuple[RoofVerdict, ...], Field(max_length=512)] = ()

    @property
    def worst(self) -> RoofVerdict | None:
        """The roof furthest below its band's median, degraded ones before others; None where none has a band."""
        placed = [roof for roof in self.roofs if roof.deviation is not None]
        return min(placed, key=lambda roof: (roof.state != "degraded", roof.shown_deviation), default=None)

    @property
    def identity(self) -> str:
        """What two verdicts on one gpu have in common: its UUID, else its PCI address, else its number."""
        return self.uuid or self.pci_bus_id or f"index {self.index}"

    @property
    def has_name(self) -> bool:
        """Whether anything tells the gpu from others."""
        return self.index is not None or self.uuid is not None or self.pci_bus_id is not None

    @property
    def is_below_band(self) -> bool:
        """Whether a roof lay below its band, confirmed or not."""
        return any(roof.state == "degraded" for roof in self.roofs)

    @property
    def name(self) -> str:
        """The gpu in a word or two: its number by place, else its UUID or its address."""
        return f"gpu {self.index}" if self.index is not None else self.uuid or self.pci_bus_id or "gpu"


def worst_state(states: Iterable[State]) -> State:
    """State of a node with gpus in these states; unknown where there is none."""
    present = set(states)
    return next((state for state in _WORST_FIRST if state in present), "unknown")


def verdict_line(verdicts: Sequence[GpuVerdict], *, trouble: str = "", old: timedelta | None = None) -> str:
    """
    State and what matters most of it, in ASCII, at most 80 bytes with the newline that follows.

    Args:
        verdicts: of the gpus of a node.
        trouble: why there are none, in a few words.
        old: age of the verdicts, where they were not given now.
    """
    state = worst_state(verdict.state for verdict in verdicts)
    line = f"{state}: "
    for number, part in enumerate(_parts(verdicts, trouble=trouble, old=old)):
        piece = _ascii(f", {part}" if number else part)
        if len(line) + len(piece) <= _MOST_BYTES:
            line += piece
    return line.removesuffix(": ")


def emit_verdict_line(emit: Callable[[str], None], verdicts: Sequence[GpuVerdict], *, trouble: str = "") -> State:
    """Write the one line of a check, as `verdict_line` has it; the state that it says."""
    emit(f"{verdict_line(verdicts, trouble=trouble)}\n")
    return worst_state(verdict.state for verdict in verdicts)


def log_verdict(verdict: GpuVerdict) -> None:
    """Put a verdict into the log, with every number that it rests on."""
    who = ", ".join(word for word in (verdict.device, verdict.uuid) if word) or "unnamed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    log.info("%s (%s): %s%s", verdict.name, who, verdict.state, reason)
    for roof in verdict.roofs:
        log.info("  %s", _roof_line(roof))


def _parts(verdicts: Sequence[GpuVerdict], *, trouble: str, old: timedelta | None) -> Iterator[str]:
    """What to say, the most important first; what does not fit is left out."""
    if not verdicts:
        yield _short(trouble or "no verdict")
        return
    yield from _about(verdicts)
    if old is not None:
        yield since(old)


def _about(verdicts: Sequence[GpuVerdict]) -> Iterator[str]:
    state = worst_state(verdict.state for verdict in verdicts)
    absent = [verdict for verdict in verdicts if verdict.absent and verdict.state == state]
    if absent:
        yield from _about_absent(absent, there=sum(not verdict.absent for verdict in verdicts))
    those = [verdict for verdict in verdicts if verdict.state == state and not verdict.absent]
    if not those:
        return
    if len(verdicts) > 1 and not absent:
        yield f"{len(verdicts)} gpus" if state == "ok" else f"{len(those)} of {len(verdicts)} gpus"
    # Those that have a place in a band first, the one furthest below it at the head.
    verdict = min(those, key=_deviation)
    worst = verdict.worst
    if state == "unknown":
        yield f"{_short_name(verdict)} {_short(verdict.reason)}".strip()
    elif worst is not None:
        yield f"{_short_name(verdict)} {signed_percent(worst.deviation)} in {worst.roof}"
        if state == "degraded" and verdict.index is not None and verdict.uuid:
            yield verdict.uuid[:_UUID_CHARACTERS]


def _about_absent(absent: Sequence[GpuVerdict], *, there: int) -> Iterator[str]:
    yield f"{there} of {there + sum(verdict.absent for verdict in absent)} gpus are there"
    named = next((verdict for verdict in absent if verdict.has_name), None)
    if named is None:
        if absent[0].reason:
            yield _short(absent[0].reason)
        return
    yield f"{_short_name(named)} {_short(named.reason)}".strip()
    if named.index is not None and named.uuid:
        yield named.uuid[:_UUID_CHARACTERS]


def _deviation(verdict: GpuVerdict) -> float:
    return 0.0 if verdict.worst is None else verdict.worst.shown_deviation


def _short_name(verdict: GpuVerdict) -> str:
    return verdict.name if verdict.index is not None else verdict.name[:_UUID_CHARACTERS]


def _short(text: str) -> str:
    return text[:_REASON_CHARACTERS].rstrip()


def _ascii(text: str) -> str:
    return visible(text.replace(MINUS, "-")).encode("ascii", errors="backslashreplace").decode("ascii")


def _roof_line(roof: RoofVerdict) -> str:
    measured = f"{roof.roof} {quantity(roof.value, roof.unit)}"
    reason = f" ({roof.reason})" if roof.reason else ""
    if roof.median is None:
        return f"{measured}: {roof.state}{reason}"
    whose = "of the baseline" if roof.peers is None else f"of {roof.peers} peers"
    beside = f"{signed_percent(roof.deviation)} of the median {quantity(roof.median, roof.unit)} {whose}"
    return f"{measured}, {beside}, degraded below {quantity(roof.lowest, roof.unit)}: {roof.state}{reason}"
