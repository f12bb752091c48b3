"""
Reports as the rule takes them, typed and without what no verdict needs; conflicts of identity between nodes.

`evaluation.judged_reports` fills them from the database's summaries. Cloned machines and badly virtualised devices
share identities: where two nodes report one gpu within the hour, nobody knows which of the two was measured, so that
neither report says anything of the gpu. A gpu that another node reports later has moved, and keeps its history.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, Literal, NamedTuple, TypeVar

from fleetridge.report import Outcome, RoofKey
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.fast_dataclass import fast_dataclass
from fleetridge_server.engine.rule import MOVING_TAKES

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


@fast_dataclass
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


@fast_dataclass
class GpuHealth:
    """
    Readings of a gpu that belong to no roof.

    Attributes:
        remapped_rows_pending: whether a memory repair waits for a reset.
        remapped_rows_uncorrectable: rows remapped after errors that ECC could not correct, ever.
        ecc_uncorrected: errors since the driver was loaded.
        pcie_generation, pcie_width: of the link under load.
        pcie_generation_max, pcie_width_max: the most that device and slot can do.
        power_limit_default_w: that the board was sold with.
        unstable: the check at the end of the sweep disagreed with what was measured, by the agent's own word.
        remapped_rows_failure: whether a memory repair failed.
        application_sm_clock_mhz: to which somebody set the clock.
        throttle_reasons: bits that the driver showed in any phase without counting how long.
        implausible: what lies above what the silicon can do, in words with value and limit.
    """

    remapped_rows_pending: bool | None = None
    remapped_rows_uncorrectable: int | None = None
    ecc_uncorrected: int | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_generation_max: int | None = None
    pcie_width_max: int | None = None
    power_limit_default_w: float | None = None
    unstable: bool | None = None
    remapped_rows_failure: bool | None = None
    application_sm_clock_mhz: float | None = None
    throttle_reasons: Sequence[str] | None = None
    implausible: Sequence[str] | None = None


_NOTHING_READ = GpuHealth()
_NOTHING_KNOWN = Factors()


@fast_dataclass
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
    health: GpuHealth = _NOTHING_READ
    roofs: Mapping[RoofKey, RoofReading] = field(default_factory=dict)

    @property
    def is_measured(self) -> bool:
        """Whether there are rates."""
        return self.outcome == "measured"

    @property
    def is_valid(self) -> bool:
        """Whether its rates may move a median; each roof may still be implausible."""
        return self.is_measured and not self.contended and not self.conflict


_Id = TypeVar("_Id")


@dataclass(frozen=True, slots=True)
class Claim(Generic[_Id]):
    """That a node had a gpu at a time, by the report that says so."""

    report_id: _Id
    node: Hashable
    ordered_at: datetime


def conflicts(claims: Sequence[Claim[_Id]]) -> dict[_Id, datetime]:
    """Of claims on one gpu, oldest first: reports within an hour of which another node claims it, and from when on."""
    return _near_another(claims[::-1]) | _near_another(claims)


def with_conflicts(reports: Sequence[JudgedReport]) -> list[JudgedReport]:
    """
    Reports of one gpu in order of time, with `conflict` set within an hour of which another node reports it too.

    Reports of no node conflict with none.
    """
    nodes = {report.node for report in reports if report.node is not None}
    if len(nodes) < 2:  # noqa: PLR2004 # it takes two
        return list(reports)
    claims = [Claim(own.report_id, own.node, own.ordered_at) for own in reports if own.node is not None]
    clashing = conflicts(claims if claims[0].ordered_at <= claims[-1].ordered_at else claims[::-1])
    return [
        replace(report, conflict=True) if report.report_id in clashing and not report.conflict else report
        for report in reports
    ]


def _near_another(claims: Iterable[Claim[_Id]]) -> dict[_Id, datetime]:
    """Reports shortly after (in the given order) one of another node, with the later of the two times."""
    found: dict[_Id, datetime] = {}
    last: Claim[_Id] | None = None
    last_of_another: Claim[_Id] | None = None
    for claim in claims:
        if last is not None and last.node != claim.node:
            last_of_another = last
        if last_of_another is not None and abs(claim.ordered_at - last_of_another.ordered_at) <= MOVING_TAKES:
            found[claim.report_id] = max(claim.ordered_at, last_of_another.ordered_at)
        last = claim
    return found
