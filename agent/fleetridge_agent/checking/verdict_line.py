"""A verdict in words: the one line that a check prints, for programs that read 80 bytes, and what the log says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from fleetridge.quantities import MINUS, quantity, signed_percent, since
from fleetridge.terminal_text import visible
from fleetridge_agent.checking.verdict import GpuVerdict, RoofVerdict, State, worst_state

log = logging.getLogger(__name__)

# node-problem-detector cuts a message after 80 bytes; the newline is one of them.
_MOST_BYTES = 79

# Enough of a UUID to find the gpu with.
_UUID_CHARACTERS = 12
_REASON_CHARACTERS = 32


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


def say_state(emit: Callable[[str], None], verdicts: Sequence[GpuVerdict], *, trouble: str = "") -> State:
    """Write the one line of a check, as `verdict_line` has it; the state that it says."""
    emit(f"{verdict_line(verdicts, trouble=trouble)}\n")
    return worst_state(verdict.state for verdict in verdicts)


def say_verdict(verdict: GpuVerdict) -> None:
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
    those = [verdict for verdict in verdicts if verdict.state == state]
    if len(verdicts) > 1:
        yield f"{len(verdicts)} gpus" if state == "ok" else f"{len(those)} of {len(verdicts)} gpus"
    # Those that have a place in a band first, the one furthest below it at the head.
    verdict = min(those, key=_standing)
    worst = verdict.worst
    if state == "unknown":
        yield f"{_named(verdict)} {_short(verdict.reason)}".strip()
    elif worst is not None:
        yield f"{_named(verdict)} {signed_percent(worst.deviation)} in {worst.roof}"
        if state == "degraded" and verdict.index is not None and verdict.uuid:
            yield verdict.uuid[:_UUID_CHARACTERS]


def _standing(verdict: GpuVerdict) -> float:
    return 0.0 if verdict.worst is None else verdict.worst.standing


def _named(verdict: GpuVerdict) -> str:
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
