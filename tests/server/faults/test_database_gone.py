"""A PostgreSQL that dies, restarts or loses connections while reports arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from fleetridge_server.db.schema import migrate
from support.app_client import app_client
from support.database_proxy import database_proxy
from support.load import Load, kept, load
from support.mortal_postgres import MortalPostgres, mortal_postgres
from support.patience import PATIENCE_S, patient_get
from support.reports import make_report
from support.server_process import server_process
from support.soak import stored_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL

    from support.database_proxy import Loss


# Calls that are answered between two blows, so that each falls into work.
CALLS_BETWEEN = 4

# What a caller may be told while its database is away: that it is stored, or to come again.
ALLOWED = {"200", "503"}


@pytest.fixture(scope="module")
def postgres() -> Iterator[MortalPostgres]:
    with mortal_postgres() as server:
        migrate(plain(server.url))
        yield server


def plain(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def struck(url: str, blow: Callable[[], None], *, times: int) -> Load:
    """A load on a server whose database is struck some times meanwhile."""
    with server_process(url) as server:
        address = server.address()
        with load(lambda: address) as made:
            for _ in range(times):
                made.wait_for_calls(CALLS_BETWEEN)
                blow()
            made.wait_for_calls(CALLS_BETWEEN)
        assert patient_get(f"{address}/readyz").status_code == 200
        assert server.stop() == 0
    return made


def test_a_database_that_restarts_under_load_costs_no_report(postgres: MortalPostgres) -> None:
    """Twice, at once and with all its connections; callers are told to come again and nothing else."""

    def restart() -> None:
        postgres.crash()
        postgres.start()

    made = struck(plain(postgres.url), restart, times=2)

    assert set(made.answers) <= ALLOWED
    assert made.given_up == 0
    assert made.acknowledged == made.sent
    assert kept(plain(postgres.url), made).is_right


def test_connections_that_are_ended_in_the_midst_cost_no_report(postgres: MortalPostgres) -> None:
    """All of them, whatever they were at, time and again."""
    everyone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> '' AND pid <> pg_backend_pid()"

    def end_all() -> None:
        with psycopg.connect(plain(postgres.url.set(drivername="postgresql"))) as connection:
            connection.execute(everyone)

    before = set(stored_ids(plain(postgres.url)))
    made = struck(plain(postgres.url), end_all, times=4)

    made.sent |= before
    assert set(made.answers) <= ALLOWED
    assert made.given_up == 0
    assert kept(plain(postgres.url), made).is_right


@pytest.mark.parametrize(("loss", "again"), [("before the commit", 201), ("after the commit", 200)])
def test_a_connection_that_is_lost_around_the_commit_is_answered_with_503(
    postgres: MortalPostgres, loss: Loss, again: int
) -> None:
    """Nobody knows then whether it is stored; the same call once more finds out, and stores nothing twice."""
    report = make_report()
    with database_proxy(postgres.socket) as proxy:
        url = postgres.url.set(host="127.0.0.1", port=proxy.port, query={})
        with app_client(plain(url)) as client:
            proxy.loss = loss
            lost = client.post("/reports", json=report)
            second = client.post("/reports", json=report)

    assert proxy.lost == 1
    assert (lost.status_code, lost.json()["code"]) == (503, "database_unavailable")
    assert lost.headers["retry-after"]
    assert second.status_code == again
    assert stored_ids(plain(postgres.url)).count(report["report_id"]) == 1


def test_a_server_answers_while_its_database_is_away_and_comes_back_with_it(postgres: MortalPostgres) -> None:
    """Every kind of call with 503 and when to come again; it lives, and is ready by itself afterwards."""
    with app_client(plain(postgres.url)) as client:
        postgres.crash()
        try:
            away = [client.get(path) for path in ("/readyz", "/devices", "/fleet", "/metrics", "/ui/alerts")]
            away.append(client.post("/reports", json=make_report()))
            alive = client.get("/livez")
        finally:
            postgres.start()
        back = [client.get("/readyz"), client.post("/reports", json=make_report())]

    assert [answer.status_code for answer in away] == [503] * 6
    assert all(answer.headers["retry-after"] for answer in away)
    assert alive.status_code == 200
    assert [answer.status_code for answer in back] == [200, 201]


def test_a_server_does_not_start_where_its_database_is_away(postgres: MortalPostgres) -> None:
    """It says so in one sentence, so that whoever starts it tries again."""
    postgres.crash()
    try:
        with server_process(plain(postgres.url)) as server:
            code = server.process.wait(PATIENCE_S)
    finally:
        postgres.start()

    assert code == 1
