"""
Import of measurements from CSV files as the reference script writes them: rows in, reports out.

Each row becomes a report of kind `import` with regime `unspecified` and no kernel: it is compared with rows of its
like only. Its id is made of its content, so that a row counts once however often it is repeated or imported. Columns
without a meaning here are kept in the report under `imported_columns`. Lines are taken apart by `csv_import.lines`.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import islice
from uuid import UUID, uuid5

import fleetridge
from fleetridge.report import SCHEMA_VERSION
from fleetridge.strict_json import Json
from fleetridge_server.csv_import.lines import BadRow, CsvRow, Header, RowError, header_of, row_of
from fleetridge_server.db.database import Database
from fleetridge_server.intake.examine import Accepted, Rejected, examined
from fleetridge_server.intake.store import write_reports

# Large enough that the cost of a transaction is lost among its rows, small enough that a server beside us, on the same
# SQLite file, waits for a fraction of a second.
_BATCH_ROWS = 500

# Any fixed UUID; with another one, rows that are stored already would count as new.
_NAMESPACE = UUID("6c1b4f0e-6a3c-5d0e-9b0a-0f1eed71d9e0")

# Which stream a bandwidth comes from is not known; agents read float32, and one name keeps all rows comparable.
_MEMORY_DTYPE = "float32"

ReportLine = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Tally:
    """
    What became of the rows of a file; the last four add up to the first.

    Attributes:
        rows: lines below the header that are not blank.
        created: stored now.
        repeated: equal to an earlier row of the file.
        already_stored: by an earlier import.
        bad: no measurement.
    """

    rows: int = 0
    created: int = 0
    repeated: int = 0
    already_stored: int = 0
    bad: int = 0


@dataclass
class Import:
    """
    The import of one file.

    Attributes:
        database: has this server's schema.
        cluster: in which the gpus are.
        on_bad: called with each bad row as it is met.
        tally: of what is stored for good so far.
    """

    database: Database
    cluster: str
    on_bad: Callable[[BadRow], None]
    tally: Tally = field(default_factory=Tally)
    _seen: set[UUID] = field(default_factory=set)

    def run(self, lines: Iterable[str]) -> None:
        """
        Store the measurements of a CSV text (its lines, the header first), one transaction per batch.

        Raises:
            HeaderError: before anything is stored.
        """
        filled = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
        header = header_of(next(filled, (0, ""))[1])
        while batch := list(islice(filled, _BATCH_ROWS)):
            self._store(batch, header)

    def _store(self, batch: list[ReportLine], header: Header) -> None:
        received_at = datetime.now(timezone.utc)
        items = [_examined(line, header, self.cluster, received_at) for line in batch]
        accepted = [item for item in items if isinstance(item, Accepted)]
        new = {item.report.report_id: item for item in accepted if item.report.report_id not in self._seen}
        created = write_reports(self.database, list(new.values())).count("created") if new else 0
        self._seen.update(new)
        for item in items:
            if isinstance(item, BadRow):
                self.on_bad(item)
        self.tally = replace(
            self.tally,
            rows=self.tally.rows + len(items),
            created=self.tally.created + created,
            repeated=self.tally.repeated + len(accepted) - len(new),
            # A conflict is one too: another version of this program made the report, of the same row.
            already_stored=self.tally.already_stored + len(new) - created,
            bad=self.tally.bad + len(items) - len(accepted),
        )


def report_of(row: CsvRow, cluster: str) -> dict[str, Json]:
    """Report, as JSON values, that says what a row says; equal rows of a cluster give equal reports."""
    content = row.model_dump(mode="json", exclude_none=True)
    row_id = str(uuid5(_NAMESPACE, json.dumps([cluster, content], sort_keys=True)))
    measured_at: Json = content.get("measured_at")
    report: dict[str, Json] = {
        "schema_version": SCHEMA_VERSION,
        "report_id": row_id,
        "measured_from": measured_at,
        "measured_to": measured_at,
        "run": {"run_id": row_id, "kind": "import"},
        "outcome": "measured",
        "agent": {"version": fleetridge.__version__},
        "node": {"cluster": cluster, "name": row.node},
        "gpu": {"uuid": row.gpu, "index": row.gpu_index, "device": row.device},
        "evidence": {"phases": _phases(row)},
        "roofs": list(_roofs(row)),
    }
    unknown = dict(row.model_extra or {})
    return report | ({"imported_columns": unknown} if unknown else {})


def _examined(line: ReportLine, header: Header, cluster: str, received_at: datetime) -> Accepted | BadRow:
    number, text = line
    try:
        row = row_of(text, header)
    except RowError as error:
        return BadRow(number, error.errors)
    item = examined(report_of(row, cluster), sent_at=None, received_at=received_at)
    return BadRow(number, item.errors) if isinstance(item, Rejected) else item


def _phases(row: CsvRow) -> list[Json]:
    readings: dict[str, Json] = {
        "sm_clock_mhz": row.sm_clock_mhz,
        "temperature_c": row.temperature_c,
        "power_w": row.power_w,
    }
    return [{"phase": "import", **readings}] if any(value is not None for value in readings.values()) else []


def _roofs(row: CsvRow) -> Iterator[Json]:
    beside: dict[str, Json] = {"sm_clock_mhz": row.sm_clock_mhz, "power_w": row.power_w}
    if row.pi_tflops is not None:
        yield {"kind": "compute", "dtype": row.dtype, "value": row.pi_tflops, "unit": "TFLOP/s", **beside}
    if row.beta_gbps is not None:
        yield {"kind": "memory", "dtype": _MEMORY_DTYPE, "value": row.beta_gbps, "unit": "GB/s", **beside}
