from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, make_url, select

from fleetridge_server import cli
from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Report
from fleetridge_server.ops import backup
from fleetridge_server.ops.backup import BackupError, back_up
from support.app_client import AppClient, app_client
from support.evaluated import evaluate, runs
from support.patience import PATIENCE_S, patient_post
from support.reports import make_report
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.databases import PostgresDatabases, SqliteDatabases

PAGES = ("/devices", "/devices/h200/ridge", "/gpus/GPU-n1-0", "/gpus/GPU-n1-3/history")


@pytest.fixture
def url(sqlite_databases: SqliteDatabases) -> Iterator[str]:
    """A SQLite database with the newest schema."""
    made = sqlite_databases.create(migrated=True)
    yield made
    sqlite_databases.drop(made)


def fill(url: str) -> list[str]:
    """A small fleet that was evaluated; ids of its reports."""
    reports = runs("n1", [845.0, 846.0, 844.0, 700.0])
    with app_client(url) as client:
        assert client.post("/reports", json={"reports": reports}).status_code == 200
    evaluate(url)
    return [report["report_id"] for report in reports]


def answers(client: AppClient, ids: list[str]) -> list[tuple[int, str]]:
    """Everything that a server says, as of one time."""
    addresses = [f"{page}?as_of=2100-01-01T00:00:00Z" for page in PAGES]
    asked = [client.get(address) for address in (*addresses, *(f"/reports/{one}" for one in ids))]
    return [(answer.status_code, answer.text) for answer in asked]


def test_a_server_on_the_backup_says_what_the_other_said(url: str, tmp_path: Path) -> None:
    """Reports, rates and verdicts, word by word."""
    ids = fill(url)
    with app_client(url) as client:
        before = answers(client, ids)
        made = back_up(url, tmp_path / "kept.db")
        client.post("/reports", json=make_report())

    with app_client(f"sqlite:///{made.path}") as restored:
        after = answers(restored, ids)

    assert before == after
    assert {status for status, _ in before} == {200}
    assert made.rows["reports"] == len(ids)


def test_a_backup_is_one_state_while_reports_arrive(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report in it is whole, and the copy does not begin anew when one arrives."""
    fill(url)
    monkeypatch.setattr(backup, "_PAGES_AT_ONCE", 5)
    progress: list[int] = []
    with app_client(url) as client:

        def store_one(done: int, _pages: int) -> None:
            progress.append(done)
            assert client.post("/reports", json=make_report()).status_code == 201

        made = back_up(url, tmp_path / "kept.db", on_progress=store_one)

    copy = open_database(f"sqlite:///{made.path}")
    with copy.reading() as session:
        assert session.scalar(select(func.count()).select_from(Report)) == 12
    assert progress == sorted(progress)
    assert len(progress) > 5
    copy.close()


def test_a_backup_of_a_server_that_was_killed_has_all_that_was_acknowledged(url: str, tmp_path: Path) -> None:
    """What lies in the journal that it left belongs to the data."""
    with server_process(url, environment={"FLEETRIDGE_SERVER_INTAKE_PROCESSES": "0"}) as server:
        address = server.address()
        assert patient_post(f"{address}/reports", json=make_report()).status_code == 201
        server.process.kill()
        server.process.wait(PATIENCE_S)

    assert back_up(url, tmp_path / "kept.db").rows["reports"] == 1


def test_a_backup_is_one_file_for_its_owner_alone(url: str, tmp_path: Path) -> None:
    """Without journals beside it, and nothing unfinished."""
    fill(url)
    made = back_up(url, tmp_path / "kept.db")

    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]
    assert made.path.stat().st_mode & 0o777 == 0o600
    assert made.size_bytes == made.path.stat().st_size


def test_a_backup_replaces_nothing(url: str, tmp_path: Path) -> None:
    """Not even a link that leads nowhere."""
    taken, leads_nowhere = tmp_path / "taken.db", tmp_path / "link.db"
    taken.write_text("mine")
    leads_nowhere.symlink_to(tmp_path / "nowhere")

    for path in (taken, leads_nowhere):
        with pytest.raises(BackupError, match="choose another name"):
            back_up(url, path)

    assert taken.read_text() == "mine"


def test_a_name_that_is_taken_meanwhile_stays_with_the_other(url: str, tmp_path: Path) -> None:
    """Of two backups to one name the second fails, and leaves nothing behind."""
    path = tmp_path / "kept.db"

    def take_it(_done: int, _pages: int) -> None:
        path.write_text("mine")

    with pytest.raises(BackupError, match="meanwhile"):
        back_up(url, path, on_progress=take_it)

    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_is_told_and_makes_no_backup(url: str, tmp_path: Path) -> None:
    """A backup that cannot be restored is worse than none."""
    fill(url)
    data = Path(make_url(url).database or "")
    with closing(sqlite3.connect(data)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = data.stat().st_size
    with data.open("r+b") as file:
        for place in range(8192, size, 4096):
            file.seek(place)
            file.write(b"\xff" * 64)

    with pytest.raises(BackupError, match=r"damaged|malformed"):
        back_up(url, tmp_path / "kept.db")

    assert list(tmp_path.iterdir()) == []


def test_two_backups_at_once_both_succeed(url: str, tmp_path: Path) -> None:
    """Each to its own name."""
    fill(url)
    made: list[int] = []
    threads = [
        threading.Thread(target=lambda name=name: made.append(back_up(url, tmp_path / name).rows["reports"]))
        for name in ("a.db", "b.db")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert made == [12, 12]


def test_the_command_says_what_it_made(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And refuses to make it twice."""
    fill(url)
    arguments = ["backup", str(tmp_path / "kept.db"), "--database-url", url]

    codes = [cli.main(arguments), cli.main(arguments)]
    out, err = capsys.readouterr()

    assert codes == [0, 1]
    assert "12 reports" in out
    assert "choose another name" in err


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A typing error is no empty backup."""
    code = cli.main(["backup", str(tmp_path / "kept.db"), "--database-url", f"sqlite:///{tmp_path}/typo.db"])

    assert code == 1
    assert "no data file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_for_postgresql_it_names_the_tool(
    postgres_databases: PostgresDatabases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With both commands, for the way there and back."""
    url = postgres_databases.create(migrated=False)
    code = cli.main(["backup", str(tmp_path / "x"), "--database-url", url])
    postgres_databases.drop(url)

    err = capsys.readouterr().err
    assert code == 1
    assert "pg_dump --format=custom" in err
    assert "pg_restore" in err
