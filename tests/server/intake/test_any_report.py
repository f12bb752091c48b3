"""Whatever is sent as a report: what is valid is kept whole, what is not is refused by name, and nothing by halves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from fleetridge_server.db.database import Database
from fleetridge_server.db.tables import Base, Document, Report
from support.any_report import changed_reports, valid_reports
from support.app_client import AppClient

pytestmark = pytest.mark.both_databases

some = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture
def rows(database: Database) -> Callable[[], dict[str, int]]:
    """Counter of the rows of every table that reports fill."""

    def count() -> dict[str, int]:
        with database.reading() as session:
            return {
                table.name: session.execute(select(func.count()).select_from(table)).scalar_one()
                for table in Base.metadata.sorted_tables
            }

    return count


def require_problem(answer: httpx.Response) -> None:
    """A refusal in the one shape of all errors."""
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told.keys() >= {"status", "code", "title", "detail", "errors", "request_id"}
    assert told["status"] == answer.status_code
    assert told["detail"]


def require_kept(client: AppClient, report: dict[str, Any]) -> None:
    """A report comes back letter by letter."""
    answer = client.get(f"/reports/{report['report_id']}")
    assert answer.status_code == 200, answer.text
    assert json.dumps(answer.json()) == json.dumps(report)


def require_whole(database: Database) -> None:
    """Each report has its document, and there is no other."""
    with database.reading() as session:
        assert set(session.scalars(select(Report.id))) == set(session.scalars(select(Document.report_id)))


@some
@given(report=valid_reports())
def test_any_valid_report_is_taken_and_given_back_as_it_was_sent(client: AppClient, report: dict[str, Any]) -> None:
    """Fields that nobody knows, times of any zone and words for no reading included; and it is known again."""
    taken, again = client.post("/reports", json=report), client.post("/reports", json=report)

    assert (taken.status_code, again.status_code) == (201, 200), taken.text
    require_kept(client, report)


@some
@given(report=changed_reports())
def test_a_report_in_which_one_thing_is_changed_is_kept_whole_or_refused_and_leaves_nothing(
    client: AppClient, rows: Callable[[], dict[str, int]], report: dict[str, Any]
) -> None:
    before = rows()

    answer = client.post("/reports", content=json.dumps(report))

    if answer.status_code == 201:
        require_kept(client, report)
    else:
        require_problem(answer)
        assert answer.json()["errors"]
        assert rows() == before


@some
@given(reports=st.lists(valid_reports() | changed_reports(), min_size=1, max_size=4))
def test_of_a_list_each_report_is_kept_whole_or_refused_by_itself(
    client: AppClient, database: Database, reports: Sequence[dict[str, Any]]
) -> None:
    """In their order, whatever stands beside them."""
    alone = [client.post("/reports", content=json.dumps(with_id(report, 1))).status_code for report in reports]

    answer = client.post("/reports", content=json.dumps({"reports": [with_id(report, 2) for report in reports]}))

    assert answer.status_code == 200, answer.text
    together = {"created": 201, "rejected": 422}
    assert [together[result["outcome"]] for result in answer.json()["results"]] == alone
    require_whole(database)


def with_id(report: dict[str, Any], number: int) -> dict[str, Any]:
    """A report under another id, where it has one."""
    try:
        own = UUID(report["report_id"])
    except (KeyError, ValueError, AttributeError, TypeError):
        return report
    return report | {"report_id": str(UUID(int=(own.int + number) % 2**128))}


@st.composite
def damaged_bodies(draw: st.DrawFn) -> tuple[bytes, bool]:
    """Bodies that were cut, doubled or written over on their way, packed or not."""
    body = json.dumps(draw(valid_reports())).encode()
    is_packed = draw(st.booleans())
    body = gzip.compress(body) if is_packed else body
    at = int(draw(st.floats(0, 1)) * (len(body) - 1))  # the id, and with it the length, is new each time
    bytes_there = draw(st.binary(max_size=4))
    kind = draw(st.sampled_from(["cut", "written over", "put in", "doubled"]))
    if kind == "cut":
        return body[:at], is_packed
    if kind == "written over":
        return body[:at] + bytes_there + body[at + len(bytes_there) :], is_packed
    return (body[:at] + bytes_there + body[at:] if kind == "put in" else body + body), is_packed


@some
@given(sent=damaged_bodies())
def test_a_body_that_was_damaged_on_its_way_is_taken_whole_or_refused(
    client: AppClient, database: Database, sent: tuple[bytes, bool]
) -> None:
    """Never an error of the server's."""
    body, is_packed = sent

    answer = client.post("/reports", content=body, headers={"Content-Encoding": "gzip"} if is_packed else {})

    if answer.status_code not in (200, 201):
        require_problem(answer)
    require_whole(database)
