"""The command `simulate` against a real server."""

from __future__ import annotations

import csv
import socket
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select

from fleetridge_server import cli
from fleetridge_server.db.verdict_tables import CurrentVerdict
from support.evaluated import evaluate
from support.patience import patient_get
from support.server_process import server_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fleetridge_server.db.database import Database

# Small, and as of a day that never changes.
FLEET = ("--gpus", "12", "--days", "4", "--until", "2026-01-20T00:00:00Z")
AS_OF = {"cluster": "simulated", "as_of": "2026-01-20T00:00:00Z"}


@contextmanager
def server(database_url: str) -> Iterator[str]:
    with server_process(database_url) as process:
        yield process.address()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    code = cli.main(["simulate", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


def read(address: str, path: str, **params: str) -> Any:
    answer = patient_get(f"{address}{path}", params=params)
    answer.raise_for_status()
    return answer.json()


def test_a_fleet_is_posted_and_can_be_looked_at(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what it made and what to open next, and the slow gpu is the worst of the answer."""
    truth = tmp_path / "truth.csv"
    with server(database_url) as address:
        code, out, err = run(capsys, "--server", address, *FLEET, "--fault", "thermal:1:0.1", "--truth", str(truth))
        ridge = read(address, "/devices/h200/ridge", **AS_OF)
        real = read(address, "/devices")

    rows = list(csv.DictReader(truth.read_text().splitlines()))
    [sick] = [row for row in rows if row["fault"] == "thermal"]
    assert (code, err) == (0, "")
    assert "48 reports stored, 0 were there already" in out
    assert sick["gpu"] in out
    assert f"{address}/devices/h200/ridge?cluster=simulated" in out
    assert len(ridge["gpus"]) == 12
    assert ridge["gpus"][0]["gpu_id"] == sick["gpu"]
    assert real["devices"] == []
    assert Counter(row["label"] for row in rows) == {"ok_must_not_flag": 11, "slow_must_flag": 1}
    assert (sick["samples"], sick["since"], sick["expected"]) == ("4", "2026-01-16", "slow")


def test_posting_twice_changes_nothing(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a fault sends every report twice."""
    arguments = (*FLEET, "--fault", "duplicates:2", "--fault", "clock_skew", "--fault", "missing")
    with server(database_url) as address:
        first = run(capsys, "--server", address, *arguments)
        before = read(address, "/devices/h200/ridge", **AS_OF)
        second = run(capsys, "--server", address, *arguments)
        after = read(address, "/devices/h200/ridge", **AS_OF)

    assert "47 reports stored, 8 were there already" in first[1]
    assert "0 reports stored, 55 were there already" in second[1]
    assert before["gpus"] == after["gpus"]


def test_wrong_clocks_and_contention_are_seen_by_the_server(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(database_url) as address:
        run(
            capsys, "--server", address, "--gpus", "12", "--days", "2", "--fault", "clock_skew", "--fault", "contention"
        )
        evaluate(database_url, simulated=True)
        ridge = read(address, "/devices/h200/ridge", cluster="simulated")

    flags = Counter(flag for row in ridge["gpus"] for flag in row["flags"])
    assert flags["clock_ahead"] in {4, 8}
    assert sum(row["worst"] is None for row in ridge["gpus"]) == 1


def test_what_was_made_up_is_found_and_nothing_else(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command through the server's API to the verdicts, which the file of truths is held against."""
    truth = tmp_path / "truth.csv"
    faults = ("thermal", "slow_memory", "power_cap", "contention", "duplicates", "clock_skew", "missing")
    asked = [word for fault in faults for word in ("--fault", fault)]
    with server(database_url) as address:
        run(capsys, "--server", address, "--gpus", "32", "--days", "5", *asked, "--truth", str(truth))
    assert cli.main(["evaluate", "--database-url", database_url]) == 0

    with database.reading() as session:
        states = {verdict.identity: verdict.state for verdict in session.scalars(select(CurrentVerdict))}
    rows = list(csv.DictReader(truth.read_text().splitlines()))
    found = {(row["fault"], row["expected"], states[row["gpu"]]) for row in rows}
    assert found == {
        ("", "ok", "ok"),
        ("thermal", "slow", "outlier"),
        ("slow_memory", "slow", "outlier"),
        ("power_cap", "slow", "outlier"),
        ("contention", "contended", "contended"),
        ("duplicates", "ok", "ok"),
        ("clock_skew", "ok", "ok"),
        ("missing", "missing", "missing"),
    }


def test_without_a_server_it_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    """On one line, with exit code 1."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    code, out, err = run(capsys, "--server", address, *FLEET)

    assert (code, out) == (1, "")
    assert "fleetridge-server serve" in err
    assert err.count("\n") == 1


def test_every_other_cluster_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Made-up gpus never mix with real ones."""
    with pytest.raises(SystemExit) as ended:
        run(capsys, "--cluster", "east")
    assert ended.value.code == 2
    assert "`simulated`" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--device", "GPU 9000"],
        ["--fault", "dance"],
        ["--gpus", "0"],
        ["--days", "1000"],
        ["--noise", "nan"],
        ["--until", "yesterday"],
    ],
)
def test_an_option_that_means_nothing_is_refused_by_its_name(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments)
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--until", "9999-01-01"], "--until"),
        (["--gpus", "1", "--fault", "thermal:2"], "--gpus"),
        (["--server", "nowhere"], "--server"),
        (["--token-file", "/no/such/file"], "--token-file"),
        (["--truth", "/no/such/folder/truth.csv"], "/no/such/folder"),
    ],
)
def test_what_cannot_be_done_is_told_before_anything_is_posted(
    arguments: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert remedy in err
