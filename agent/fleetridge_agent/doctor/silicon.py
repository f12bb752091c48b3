"""What of this program was never tried on the hardware that it is for."""

from __future__ import annotations

from collections.abc import Iterator

from fleetridge_agent.doctor.child import NoFactsError
from fleetridge_agent.doctor.driver_probes import _is_rocm
from fleetridge_agent.doctor.finding import Finding, not_checked, warning
from fleetridge_agent.doctor.surroundings import Surroundings

_STAND_INS = "never tried on silicon, tested with stand-ins only"
_COMPARE = "hold its results against another tool before relying on them"


def silicon(around: Surroundings) -> Iterator[Finding]:
    """ROCm and MIG, loudly where this node has one of them."""
    yield _untried("ROCm", is_here=_is_rocm(around))
    yield _untried("MIG slices", is_here=_has_slices(around))


def _untried(what: str, *, is_here: bool) -> Finding:
    if is_here:
        return warning("untried", f"{what}, which this node has: {_STAND_INS}", _COMPARE)
    return not_checked("untried", f"{what}: {_STAND_INS}")


def _has_slices(around: Surroundings) -> bool:
    try:
        return any(card.slices for card in around.nvml().cards)
    except NoFactsError:
        return False
