"""
What the engine is told: reports, typed and without what no verdict needs.

Filled from the database's summaries by two statements, one for reports and one for their roofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Literal, NamedTuple

from fleetridge.report import Outcome, RoofKey
from fleetridge_server.compare.cohort import Conditions
from fleetridge_server.record import record

FactorName = Literal["driver", "torch", "cublas", "power_limit_w", "ecc_enabled", "vbios"]


class NodeName(NamedTuple):
    """A host; two clusters may each have an "n01"."""

    cluster: str
    name: str


class Factors(NamedTuple):
    """
    Settings and software that explain a rate and do not decide who may be compared.

    A null is a value of its own. In order of how often they are the cause: of two that go together the first is named.
    """

    driver: str | None = None
    torch: str | None = None
    cublas: str | None = None
    power_limit_w: float | None = None
    ecc_enabled: bool | None = None
    vbios: str | None = None


@record
class RoofReading:
    """
    One roof of one report, with what the device said of itself while it was timed.

    Attributes:
        value: TFLOP/s or GB/s.
        converged: None where the measurement does not say.
        implausible: above what the silicon can do.
        trend: (last block - first block) / first block.
        sm_clock_mhz, memory_clock_mhz, power_w: medians over the timed phase.
        temperature_c: highest of the phase.
        throttle_ms: growth of the driver's counters over the phase, by reason; None where it has none.
    """

    value: float
    converged: bool | None = None
    implausible: bool = False
    trend: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    throttle_ms: Mapping[str, float] | None = None


@record
class Health:
    """
    Readings of a gpu that belong to no roof.

    Attributes:
        remapped_rows_pending: whether a memory repair waits for a reset.
        remapped_rows_uncorrectable: rows remapped after errors that ECC could not correct, ever.
        ecc_uncorrected: errors since the driver was loaded.
        pcie_generation, pcie_width: of the link while it carried load.
        pcie_generation_max, pcie_width_max: the most that device and slot can do.
    """

    remapped_rows_pending: bool | None = None
    remapped_rows_uncorrectable: int | None = None
    ecc_uncorrected: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None


_NOTHING_READ = Health()
_NOTHING_KNOWN = Factors()


@record
class JudgedReport:
    """
    One report of one gpu, measured or not, as far as verdicts need it.

    Attributes:
        report_id: decides between reports of one time, so that the order of arrival never does.
        ordered_at: the report's ordering time.
        outcome: whether there are rates.
        reason: machine word for why there are none.
        contended: somebody else used the gpu meanwhile.
        conflict: another node claims the same identity.
        roofs: by key; a report that states one roof twice has been reduced to one value before.
    """

    report_id: str
    gpu_id: str
    ordered_at: datetime
    conditions: Conditions
    node: NodeName | None = None
    rack: str | None = None
    factors: Factors = _NOTHING_KNOWN
    outcome: Outcome = "measured"
    reason: str | None = None
    contended: bool = False
    conflict: bool = False
    health: Health = _NOTHING_READ
    roofs: Mapping[RoofKey, RoofReading] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether there are rates."""
        return self.outcome == "measured"

    @property
    def is_valid(self) -> bool:
        """Whether its rates may move a median; each roof may still be implausible."""
        return self.is_measured and not self.contended and not self.conflict
