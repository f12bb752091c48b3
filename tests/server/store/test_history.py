"""Queries behind the answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, event, select

from fleetridge_server.compare.span import Span
from fleetridge_server.store.database import Database
from fleetridge_server.store.history import DEPTH_REPORTS, readings
from fleetridge_server.store.lookup import device_named
from fleetridge_server.store.models import Gpu
from support.app_client import AppClient
from support.fleet import fleet, post
from support.reports import compute_roof, make_report

AS_OF = datetime(2026, 12, 31, tzinfo=timezone.utc)


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """All that is asked of any database meanwhile."""
    statements: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", count)


@pytest.mark.parametrize("url", ["/devices", "/devices/h200/ridge", "/gpus/GPU-a000", "/nodes/node-01"])
def test_the_number_of_queries_does_not_grow_with_the_fleet(client: AppClient, url: str) -> None:
    """One gpu or forty."""
    post(client, fleet([845.0]))
    with counted_statements() as few:
        client.get(url)
    post(client, fleet([845.0] * 40))
    with counted_statements() as many:
        client.get(url)

    assert 0 < len(of_answer(many)) == len(of_answer(few)) < 20


def of_answer(statements: list[str]) -> list[str]:
    """Those of the answer alone: whether there are tokens is asked again every two seconds, whoever calls."""
    return [statement for statement in statements if statement != "BEGIN" and "FROM tokens" not in statement]


def read_values(database: Database, span: Span) -> list[float]:
    """Values of all readings of the H200 in the history, sorted."""
    with database.reading() as session:
        device = device_named(session, "h200")
        assert device is not None
        gpus = select(Gpu.id).where(Gpu.simulated.is_(span.simulated))
        found = readings(session, gpus, as_of=span.as_of, since=span.since)
        return sorted(reading.value for owner, own in found.items() if owner.device_id == device.id for reading in own)


def day(number: int, **changes: Any) -> dict[str, Any]:
    """A report of a day of November."""
    moment = f"2025-11-{number:02}T02:00:00Z"
    return make_report(**{"beta_gbps": None, "measured_from": moment, "measured_to": moment, **changes})


def test_no_more_than_three_reports_of_a_roof_are_read(client: AppClient, database: Database) -> None:
    """Whatever the length of the history."""
    post(client, [day(number, pi_tflops=float(number)) for number in range(1, 29)])

    assert read_values(database, Span(AS_OF)) == [26.0, 27.0, 28.0]


def test_a_roof_is_looked_for_in_a_months_sweeps(client: AppClient, database: Database) -> None:
    """One that only the oldest of them measured is found, an older one is history."""
    rare = [compute_roof(1.0, dtype="int8")], [compute_roof(2.0, dtype="int4")]
    post(client, [day(1, roofs=rare[0]), day(2, roofs=rare[1])])
    post(client, [day(3 + number // 2, run__kind="cron") for number in range(DEPTH_REPORTS - 1)])

    assert read_values(database, Span(AS_OF))[0] == 2.0


def test_only_measured_uncontended_reports_with_a_time_are_read(client: AppClient, database: Database) -> None:
    """And those of the asked span."""
    post(
        client,
        [
            day(1, pi_tflops=1.0),
            day(2, pi_tflops=2.0, evidence__contended=True),
            day(3, pi_tflops=3.0, evidence__contended=None),
            day(4, pi_tflops=4.0, run__kind="import", measured_from=None, measured_to=None),
            day(5, pi_tflops=5.0, node__cluster="simulated"),
            day(6, pi_tflops=6.0),
        ],
    )

    since, until = datetime(2025, 11, 2, tzinfo=timezone.utc), datetime(2025, 11, 5, tzinfo=timezone.utc)

    assert read_values(database, Span(AS_OF)) == [1.0, 3.0, 6.0]
    assert read_values(database, Span(AS_OF, simulated=True)) == [5.0]
    assert read_values(database, Span(until, since)) == [3.0]


def test_reports_that_came_under_another_device_are_not_read(client: AppClient, database: Database) -> None:
    """A driver that learnt the name of its card."""
    post(client, [day(1, pi_tflops=1.0, gpu__device="")])
    post(client, [day(2, pi_tflops=2.0)])

    assert read_values(database, Span(AS_OF)) == [2.0]
