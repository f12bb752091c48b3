"""
Measurements of a CSV file as judged reports, without a store between.

Pure: lines in, reports out. For looking at a fleet that somebody else measured; what the columns mean is `csv_rows`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import count

from fleetridge.device_names import canonical_device_name, gpu_identity
from fleetridge.report.roofs import RoofKey, RoofKind
from fleetridge_server.csv_import.lines import CsvRow, Header, RowError, header_of, row_of
from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.evidence import JudgedReport, NodeName, RoofReading

CLUSTER = "file"

_UNSAID = Conditions(None, None, None, None, None, None, None)
_MEMORY_DTYPE = "float32"

# A file without any times is taken as runs of each gpu in their order, far enough apart to witness for one another.
_UNTIMED_FROM = datetime(2000, 1, 1, tzinfo=timezone.utc)
_UNTIMED_STEP = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class CsvFleet:
    """
    What a CSV file says.

    Attributes:
        reports: of each device, by canonical name.
        bad: lines that are no measurement, or of no gpu that could be told from others.
        repeated: lines that say again what another said.
        untimed: rows without a time in a file that has times; they are not judged.
        is_ordered_by_line: whether no row has a time, so that the order of the lines stands for it.
    """

    reports: Mapping[str, list[JudgedReport]]
    bad: int
    repeated: int
    untimed: int
    is_ordered_by_line: bool


def csv_fleet(text: str) -> CsvFleet:
    """
    Fleet that a CSV text describes.

    Raises:
        HeaderError: the first line does not name the columns that are needed.
        ValueError: no line is a measurement that can be judged.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    header = header_of(lines[0] if lines else "")
    distinct = list(dict.fromkeys(lines[1:]))
    rows = [row for line in distinct if (row := _row_or_none(line, header)) is not None]
    if not rows:
        raise ValueError("no line of the file is a measurement; see the columns of an import")
    is_untimed = all(row.measured_at is None for row in rows)
    timed = list(_timed_by_order(rows)) if is_untimed else rows
    reports: dict[str, list[JudgedReport]] = defaultdict(list)
    for number, row in enumerate(timed):
        gpu_id = csv_gpu_id(row.gpu, row.node, row.gpu_index)
        if row.measured_at is not None and gpu_id is not None:
            device = canonical_device_name(row.device or "")
            reports[device].append(_report(f"{number:09d}", gpu_id, row, row.measured_at))
    return CsvFleet(
        reports=reports,
        bad=len(distinct) - len(rows),
        repeated=len(lines) - 1 - len(distinct),
        untimed=sum(row.measured_at is None for row in timed),
        is_ordered_by_line=is_untimed,
    )


def csv_gpu_id(gpu: str | None, node: str | None, index: int | None) -> str | None:
    """Id of a gpu from a file's columns; None where they do not tell it from others."""
    try:
        return gpu_identity(gpu, cluster=CLUSTER, node=node, pci_bus_id=None, index=index)
    except ValueError:
        return None


def _row_or_none(line: str, header: Header) -> CsvRow | None:
    try:
        row = row_of(line, header)
    except RowError:
        return None
    return None if csv_gpu_id(row.gpu, row.node, row.gpu_index) is None else row


def _timed_by_order(rows: Iterable[CsvRow]) -> Iterator[CsvRow]:
    turns: dict[str | None, Iterator[int]] = defaultdict(count)
    for row in rows:
        turn = next(turns[csv_gpu_id(row.gpu, row.node, row.gpu_index)])
        yield row.model_copy(update={"measured_at": _UNTIMED_FROM + turn * _UNTIMED_STEP})


def _report(report_id: str, gpu_id: str, row: CsvRow, measured_at: datetime) -> JudgedReport:
    roofs: dict[RoofKey, RoofReading] = {}
    if row.pi_tflops is not None and row.dtype is not None:
        roofs[_key("compute", row.dtype)] = _reading(row.pi_tflops, row)
    if row.beta_gbps is not None:
        roofs[_key("memory", _MEMORY_DTYPE)] = _reading(row.beta_gbps, row)
    return JudgedReport(
        report_id=report_id,
        gpu_id=gpu_id,
        ordered_at=measured_at,
        conditions=_UNSAID,
        node=None if row.node is None else NodeName(CLUSTER, row.node),
        roofs=roofs,
    )


def _key(kind: RoofKind, dtype: str) -> RoofKey:
    return RoofKey(kind, dtype, None, None, "unspecified", "device", None)


def _reading(value: float, row: CsvRow) -> RoofReading:
    return RoofReading(value, sm_clock_mhz=row.sm_clock_mhz, power_w=row.power_w, temperature_c=row.temperature_c)
