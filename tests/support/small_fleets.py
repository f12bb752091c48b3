"""Small fleets with everything that tempts a server to say two things of one gpu, as hypothesis draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from hypothesis import strategies as st

from support.reports import compute_roof, make_report, make_skipped_report, memory_roof

Trouble = Literal[
    "none",
    "implausible",  # every rate above what the silicon can do
    "implausible lately",  # the newest alone
    "old",  # not measured for more than the 30 days in which a value counts for others
    "contended lately",
    "contended",
    "failed lately",
    "upgraded",  # the newest report has another driver, which costs a tenth
    "retired",  # a person says so
    "quarantined",  # its token is
    "unmeasured",  # it never measured anything
]

_SPLIT = "1g.18gb"
_SMS, _SMS_OF_SPLIT = 132, 16
_MEMORY_BYTES = 150_754_820_096
_BETA_GBPS = 4430.0

# TFLOP/s of a whole card; a roof is a dtype and a regime.
_PI_TFLOPS = {
    ("bfloat16", "burst"): 845.0,
    ("bfloat16", "sustained"): 760.0,
    ("float16", "burst"): 840.0,
    ("float8_e4m3fn", "burst"): 1605.0,
}

# With it 132 multiprocessors reach 1071 TFLOP/s in bfloat16 and no more, as the rule of plausibility works it out.
_SM_CLOCK_MAX_MHZ = 1980.0
_IMPOSSIBLE = 3.6

_OLD_DRIVER, _NEW_DRIVER = "580.159.04", "590.10"
_EFFECT_OF_UPGRADE = 0.9
_OLD = timedelta(days=38)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class GpuPlan:
    """
    One gpu and what happens to it.

    Attributes:
        speed: its share of what its device can do.
        runs: how many daily reports it has.
        roofs: by dtype and regime.
    """

    gpu_id: str
    cluster: str
    node: str
    index: int
    speed: float
    runs: int
    trouble: Trouble
    split: bool
    roofs: tuple[tuple[str, str], ...]

    def reports(self, device: str, now: datetime) -> list[dict[str, Any]]:
        """Its reports, the oldest first; the newest some hours before `now`."""
        newest = now - timedelta(hours=3, minutes=self.index) - (_OLD if self.trouble == "old" else timedelta(0))
        return [self._report(device, newest - day * _DAY, is_newest=day == 0) for day in reversed(range(self.runs))]

    def report_of(self, device: str, at: datetime, factor: float = 1.0, **changes: Any) -> dict[str, Any]:
        """One report of it, made at a time."""
        size = _SMS_OF_SPLIT / _SMS if self.split else 1.0
        pis = [
            compute_roof(_PI_TFLOPS[roof] * size * self.speed * factor, dtype=roof[0], regime=roof[1])
            for roof in self.roofs
        ]
        own: dict[str, Any] = {
            "roofs": [*pis, memory_roof(_BETA_GBPS * size * (1 + self.index / 5000))],
            "points": [],
            "measured_from": (at - timedelta(seconds=20)).isoformat(),
            "measured_to": at.isoformat(),
            "run__roster": None,
            "run__roster_complete": False,
            "node__name": self.node,
            "node__cluster": self.cluster,
            "gpu__device": device,
            "gpu__uuid": self.gpu_id,
            "gpu__index": self.index,
            "gpu__pci_bus_id": f"0000:{self.index:02X}:00.0",
            "gpu__mig_profile": _SPLIT if self.split else None,
            "gpu__sm_count": _SMS_OF_SPLIT if self.split else _SMS,
            "gpu__memory_bytes": _MEMORY_BYTES // 8 if self.split else _MEMORY_BYTES,
            "environment__driver": _OLD_DRIVER,
            "environment__sm_clock_max_mhz": _SM_CLOCK_MAX_MHZ,
        }
        return make_report(**{**own, **changes})

    def _report(self, device: str, at: datetime, *, is_newest: bool) -> dict[str, Any]:
        if self.trouble == "unmeasured" or (self.trouble == "failed lately" and is_newest):
            report = self.report_of(device, at)
            shared = {f"{part}__{name}": own for part in ("node", "gpu") for name, own in report[part].items()}
            times = {name: report[name] for name in ("measured_from", "measured_to")}
            return make_skipped_report("busy", run__roster=None, run__roster_complete=False, **shared, **times)
        if self.trouble == "implausible" or (self.trouble == "implausible lately" and is_newest):
            return self.report_of(device, at, _IMPOSSIBLE)
        if self.trouble == "contended" or (self.trouble == "contended lately" and is_newest):
            return self.report_of(device, at, 0.5, evidence__contended=True)
        if self.trouble == "upgraded" and is_newest:
            return self.report_of(device, at, _EFFECT_OF_UPGRADE, environment__driver=_NEW_DRIVER)
        return self.report_of(device, at)


@dataclass(frozen=True)
class SmallFleet:
    """Gpus of one device."""

    gpus: tuple[GpuPlan, ...]

    def called(self, name: str) -> SmallFleet:
        """The same fleet with names that no other has."""
        own = [replace(gpu, gpu_id=f"GPU-{name}-{gpu.index:02}", node=f"{gpu.node}-{name}") for gpu in self.gpus]
        return SmallFleet(tuple(own))

    def reports(self, device: str, now: datetime) -> list[dict[str, Any]]:
        """All reports of the gpus whose token is trusted."""
        return _reports([gpu for gpu in self.gpus if gpu.trouble != "quarantined"], device, now)

    def distrusted_reports(self, device: str, now: datetime) -> list[dict[str, Any]]:
        """All reports of the others."""
        return _reports([gpu for gpu in self.gpus if gpu.trouble == "quarantined"], device, now)

    @property
    def retired(self) -> list[str]:
        """Ids of the gpus that a person retires."""
        return [gpu.gpu_id for gpu in self.gpus if gpu.trouble == "retired"]


def _reports(gpus: Sequence[GpuPlan], device: str, now: datetime) -> list[dict[str, Any]]:
    return [report for gpu in gpus for report in gpu.reports(device, now)]


_roofs = st.lists(st.sampled_from(sorted(_PI_TFLOPS)), min_size=1, max_size=3, unique=True)

# Most gpus are well, else nobody is left to be compared with; an upgrade is the fleet's.
_well: Trouble = "none"
_ill: list[Trouble] = [trouble for trouble in get_args(Trouble) if trouble not in (_well, "upgraded")]
_troubles: st.SearchStrategy[Trouble] = st.one_of(st.just(_well), st.just(_well), st.sampled_from(_ill))
_upgraded = st.sampled_from(["nowhere", "everywhere", "n0"])
_runs = st.integers(1, 4)
_speeds = st.integers(-10, 10).map(lambda step: 1 + step / 1000) | st.sampled_from([0.7, 0.83, 0.9, 0.96])


@st.composite
def small_fleets(draw: st.DrawFn) -> SmallFleet:
    """
    One to ten gpus of one device on some nodes of two clusters, most of them well.

    A fleet is upgraded as a whole or on one node, or not; some of its gpus may be split.
    """
    roofs = draw(_roofs)
    upgraded = draw(_upgraded)
    mixed = draw(st.booleans())
    gpus = []
    for number in range(draw(st.integers(1, 10))):
        node = draw(st.sampled_from(["n0", "n1", "n2"]))
        trouble: Trouble = draw(_troubles)
        if trouble == "none" and upgraded in ("everywhere", node):
            trouble = "upgraded"
        own = GpuPlan(
            gpu_id=f"GPU-{number:02}",
            cluster="west" if node == "n2" else "east",
            node=node,
            index=number,
            speed=draw(_speeds),
            runs=draw(_runs),
            trouble=trouble,
            split=mixed and draw(st.booleans()),
            roofs=tuple(roofs if not mixed else draw(st.lists(st.sampled_from(roofs), min_size=1, unique=True))),
        )
        gpus.append(own)
    return SmallFleet(tuple(gpus))
