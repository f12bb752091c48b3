"""
A baseline: what gpus reached when somebody was content with them, in a file.

It needs no server, so that a build or an acceptance test can hold a machine against its own past.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from fleetridge.quantities import MIB
from fleetridge.report import Report, RoofKey
from fleetridge.report.roofs import Level, Regime, RoofKind
from fleetridge_agent.check.bands import Band
from fleetridge_agent.check.measured_gpu import Conditions, MeasuredGpu, MeasuredRoof, measured_gpu
from fleetridge_agent.durable_file import write_durably
from fleetridge_agent.errors import UsageError

# Gpus of one node with some dozens of roofs each.
_MOST_BYTES = 4 * MIB

# Nothing secret is in it, and a build may hand it to another user.
_FILE_MODE = 0o644


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class BaselineRoof(_Part):
    """One judged roof; the value is in TFLOP/s or GB/s, as its kind says."""

    kind: RoofKind
    dtype: str
    out_dtype: str | None = None
    fast_accumulation: bool | None = None
    regime: Regime
    level: Level
    kernel: str | None = None
    value: Annotated[float, Field(gt=0)]

    @property
    def key(self) -> RoofKey:
        """Key under which a roof of another report is held against this one."""
        return RoofKey(**{name: getattr(self, name) for name in RoofKey._fields})


class BaselineGpu(_Part):
    """One gpu of a baseline: what it is, under which conditions it was measured (None where unknown), and its roofs."""

    uuid: str | None = None
    device: str
    memory_gib: int | None = None
    sm_count: int | None = None
    mig_profile: str | None = None
    partition: str | None = None
    fill: str | None = None
    method: str | None = None
    protocol_version: int | None = None
    roofs: tuple[BaselineRoof, ...]

    @property
    def conditions(self) -> Conditions:
        """Conditions that another gpu must share to be held against this one."""
        return Conditions(**{name: getattr(self, name) for name in Conditions.model_fields})


class Baseline(_Part):
    """Gpus of one node as one check measured them; the form of the file."""

    format: Literal["fleetridge-baseline/1"] = "fleetridge-baseline/1"
    saved_at: AwareDatetime
    node: str | None = None
    gpus: Annotated[tuple[BaselineGpu, ...], Field(min_length=1)]

    def bands(self, subject: MeasuredGpu, uuid: str | None, *, tolerance: float) -> tuple[tuple[Band, ...], str]:
        """
        Bands for a gpu, and whose figures they are.

        Args:
            subject: the gpu.
            uuid: its identity.
            tolerance: loss that is still no loss, as a fraction.
        """
        own = [gpu for gpu in self.gpus if uuid is not None and gpu.uuid == uuid and gpu.device == subject.device]
        alike = own or [gpu for gpu in self.gpus if gpu.device == subject.device]
        whose = "its own figures" if own else f"figures of {len(alike)} gpus of its kind"
        found = (
            _band(gpu.conditions, roof.key, alike, tolerance)
            for gpu in {gpu.conditions: gpu for gpu in alike}.values()
            for roof in gpu.roofs
        )
        return tuple(found), whose


def baseline_of(reports: Sequence[Report], *, at: datetime, node: str | None) -> Baseline:
    """
    Baseline from the reports of a check.

    Raises:
        ValueError: a gpu among them was not measured, or somebody else used it: the figures would excuse everything.
    """
    gpus = []
    for report in reports:
        subject = measured_gpu(report)
        if report.outcome != "measured" or not subject.roofs:
            raise ValueError(f"{subject.device}: {report.reason or 'nothing was measured that can be compared'}")
        if report.evidence.contended or report.evidence.unstable:
            raise ValueError(f"{subject.device}: its rates were not steady; measure it alone, and again")
        gpus.append(_gpu(subject, None if report.gpu is None else report.gpu.uuid))
    return Baseline(saved_at=at, node=node, gpus=tuple(gpus))


def save_baseline(path: Path, baseline: Baseline) -> None:
    """
    Write a baseline.

    Raises:
        OSError: the file cannot be written.
    """
    write_durably(path, baseline.model_dump_json(indent=1, exclude_none=True).encode() + b"\n")
    path.chmod(_FILE_MODE)


def read_baseline(path: Path) -> Baseline:
    """
    A baseline from its file.

    Raises:
        UsageError: it cannot be read or is none.
    """
    try:
        with path.open("rb") as file:
            return Baseline.model_validate_json(file.read(_MOST_BYTES))
    except OSError as error:
        raise UsageError(f"--baseline: cannot read {path}: {error.strerror}; make one with --save-baseline") from error
    except ValidationError as error:
        raise UsageError(f"--baseline: {path} is no baseline; make one with --save-baseline") from error


def _gpu(subject: MeasuredGpu, uuid: str | None) -> BaselineGpu:
    return BaselineGpu(
        uuid=uuid,
        device=subject.device,
        **subject.conditions.model_dump(),
        roofs=tuple(_roof(roof) for roof in subject.roofs),
    )


def _roof(roof: MeasuredRoof) -> BaselineRoof:
    return BaselineRoof(**roof.key._asdict(), value=roof.value)


def _band(conditions: Conditions, key: RoofKey, gpus: Sequence[BaselineGpu], tolerance: float) -> Band:
    values = [roof.value for gpu in gpus if gpu.conditions == conditions for roof in gpu.roofs if roof.key == key]
    middle = median(values)
    return Band(key, conditions, None, middle, (1 - tolerance) * middle)
