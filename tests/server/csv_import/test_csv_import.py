from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import UUID

from sqlalchemy import func, select

from fleetridge.report import Report as WireReport
from fleetridge_server.csv_import.lines import BadRow, CsvRow
from fleetridge_server.csv_import.reports import Import, Tally, report_of
from fleetridge_server.db.tables import Device, Document, Gpu, Node, Report, Roof
from fleetridge_server.intake.examine import unpacked
from support.csv_fleet import HEADER, survey
from support.evaluations import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from fleetridge_server.db.database import Database

SAMPLE = "Tesla V100-SXM2-16GB,,GPU-LH0404,,2020-06-02T17:27:42Z,float32,13.5673,,1350,73,296.79"


def imported(database: Database, lines: Iterable[str], cluster: str = "default") -> tuple[Tally, list[BadRow]]:
    bad: list[BadRow] = []
    job = Import(database, cluster, on_bad=bad.append)
    job.run(lines)
    return job.tally, bad


def row(**cells: str) -> CsvRow:
    return CsvRow.model_validate({"gpu": "GPU-1", "dtype": "float32", "pi_tflops": "13.5", **cells})


def test_a_row_becomes_a_report_that_says_no_more_than_it() -> None:
    """Kind import, regime unspecified, no kernel; readings stand where those of agents do."""
    report = WireReport.model_validate(report_of(row(sm_clock_mhz="1350", temperature_c="73", beta_gbps="790"), "lab"))
    compute, memory = report.roofs

    assert (report.run.kind, report.node.cluster, report.node.name) == ("import", "lab", None)
    assert (compute.kind, compute.dtype, compute.value) == ("compute", "float32", 13.5)
    assert (memory.kind, memory.value) == ("memory", 790)
    assert {(roof.regime, roof.kernel) for roof in report.roofs} == {("unspecified", None)}
    assert compute.sm_clock_mhz == 1350
    assert report.evidence.phases[0].temperature_c == 73


def test_the_id_is_of_the_content() -> None:
    """Equal rows have one, and each difference makes another, of the cluster and of unknown columns too."""
    rows = [
        (row(), "a"),
        (row(), "b"),
        (row(pi_tflops="13.6"), "a"),
        (row(measured_at="2020-06-02T17:27:42Z"), "a"),
        (row(rack="r1"), "a"),
        (row(cluster="x"), "a"),
    ]
    ids = [report_of(*measured)["report_id"] for measured in rows]

    assert len(set(ids)) == len(rows)
    assert ids == [report_of(*measured)["report_id"] for measured in rows]
    assert UUID(str(ids[0])).version == 5


def test_ids_stay_what_they_were() -> None:
    """With others, everything that was imported before would count as new."""
    assert report_of(row(), "default")["report_id"] == "e6acdf08-2f1b-59ee-99c5-795a0b6ecf0a"


def test_the_same_moment_in_another_zone_is_the_same_row() -> None:
    """Only the spelling differs."""
    zones = ["2020-06-02T17:27:42Z", "2020-06-02T19:27:42+02:00", "2020-06-02 17:27:42"]

    assert len({report_of(row(measured_at=zone), "a")["report_id"] for zone in zones}) == 1


def test_a_survey_is_stored_once(database: Database) -> None:
    """Repeated rows and a repeated import count once, and every row is accounted for."""
    lines = survey(1200, gpus=40)
    distinct = len(set(lines)) - 1

    first, bad = imported(database, lines)
    second, _ = imported(database, lines)

    assert bad == []
    assert first == Tally(rows=1200, created=distinct, repeated=1200 - distinct)
    assert second == Tally(rows=1200, repeated=1200 - distinct, already_stored=distinct)
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Report)) == distinct
        assert session.scalar(select(func.count()).select_from(Roof)) == distinct
        assert session.scalar(select(func.count()).select_from(Gpu)) == 40
        assert session.scalars(select(Device.name)).all() == ["V100-SXM2-16GB"]


def test_the_order_of_rows_does_not_matter(database: Database) -> None:
    """Forwards and backwards give the same gpus and nodes."""
    header, *rows = survey(300, gpus=10)
    found = []
    for cluster, order in (("a", rows), ("b", rows[::-1])):
        imported(database, [header, *order], cluster)
        with database.reading() as session:
            nodes = session.execute(
                select(Node.name, Node.first_seen, Node.last_seen).where(Node.cluster == cluster).order_by(Node.name)
            )
            found.append(nodes.all())

    assert len(found[0]) > 1
    assert found[0] == found[1]


def test_a_row_without_a_time_is_stored_but_has_no_place_in_time(database: Database) -> None:
    """So that it is never compared."""
    imported(database, [HEADER, SAMPLE.replace("2020-06-02T17:27:42Z", "")])

    with database.reading() as session:
        ordered_at, roof = session.execute(
            select(Report.ordered_at, Roof).join(Roof, Roof.report_id == Report.id)
        ).one()

    fleet = Fleet(database)
    fleet.evaluate()
    assert (ordered_at, roof.unit) == (None, "TFLOP/s")
    assert fleet.verdicts() == {}


def test_a_bad_row_is_told_by_its_line_and_costs_no_other(database: Database) -> None:
    """Blank lines are not counted as rows, but as lines."""
    lines = [HEADER, "", SAMPLE, SAMPLE.replace("13.5673", "fast"), "a,b", '"' + SAMPLE, SAMPLE.replace("73", "74"), ""]

    tally, bad = imported(database, lines)

    assert tally == Tally(rows=5, created=2, bad=3)
    assert [(row.line, [error.field for error in row.errors]) for row in bad] == [
        (4, ["pi_tflops"]),
        (5, [""]),
        (6, [""]),
    ]


def test_a_gpu_that_cannot_be_told_apart_makes_a_bad_row(database: Database) -> None:
    """Without a name for it there has to be a node and an index."""
    lines = ["node,gpu,gpu_index,beta_gbps", "n1,,0,790", "n1,,1,791", "n1,N/A,,792", ",,0,793"]

    tally, bad = imported(database, lines)

    assert (tally.created, tally.bad) == (2, 2)
    assert [row.line for row in bad] == [4, 5]


def test_pi_and_beta_make_two_roofs(database: Database) -> None:
    """Of one report."""
    imported(database, ["gpu,dtype,pi_tflops,beta_gbps", "GPU-1,bfloat16,845,4430"])

    with database.reading() as session:
        roofs = session.execute(select(Roof.kind, Roof.dtype, Roof.value, Roof.unit).order_by(Roof.position)).all()

    assert roofs == [("compute", "bfloat16", 845, "TFLOP/s"), ("memory", "float32", 4430, "GB/s")]


def test_unknown_columns_are_in_the_document(database: Database) -> None:
    """As text, under one name."""
    imported(database, ["gpu,beta_gbps,rack,cluster", "GPU-1,790,r1,west"])

    with database.reading() as session:
        document = json.loads(unpacked(session.scalars(select(Document.body)).one()))

    assert document["imported_columns"] == {"rack": "r1", "cluster": "west"}


def test_what_another_version_imported_is_stored_already(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is the same, although the report around it says who made it."""
    imported(database, [HEADER, SAMPLE])
    monkeypatch.setattr("fleetridge.__version__", "99.0")

    tally, _ = imported(database, [HEADER, SAMPLE])

    assert tally == Tally(rows=1, already_stored=1)
