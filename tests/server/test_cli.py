from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select, text

import fleetridge
from fleetridge_server import cli
from fleetridge_server.db import schema
from fleetridge_server.db.schema import check_drift
from fleetridge_server.db.tables import Report
from support.csv_fleet import HEADER, survey
from support.revisions import make_unreleased, with_next_revision

if TYPE_CHECKING:
    from pathlib import Path

    from fleetridge_server.db.database import Database

ROW = "Tesla V100-SXM2-16GB,,GPU-1,,2020-06-02T17:27:42Z,float32,13.5673,,1350,73,296.79"


def write(path: Path, *lines: str, newline: str = "\n", start: bytes = b"") -> str:
    path.write_bytes(start + newline.join(lines).encode(errors="surrogateescape"))
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out.strip(), err.strip()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Name and number."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == f"fleetridge-server {fleetridge.__version__}"


def test_a_reader_that_has_gone_is_no_news(tmp_path: Path) -> None:
    """As under `| head`."""
    command = f"{sys.executable} -m fleetridge_server.cli migrate --database-url sqlite:///{tmp_path}/f.db | true"
    ended = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert "pipe" not in ended.stderr.lower()
    assert (tmp_path / "f.db").exists()


@pytest.mark.parametrize("arguments", [[], ["dance"], ["import"], ["serve", "--port", "x"]])
def test_a_call_that_means_nothing_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """As is usual."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)

    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


HEADS_ALONE = """
import contextlib, io, sys
from fleetridge_server import cli
from fleetridge_server.commands.arguments import parser
[commands] = [part for part in parser()._actions if part.choices]
for arguments in (["--version"], ["--help"], *([name, "--help"] for name in commands.choices)):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as told:
        cli.main(arguments)
    assert told.getvalue(), arguments
print(*commands.choices)
print(*{"sqlalchemy", "alembic", "fastapi", "uvicorn", "httpx", "jinja2", "psycopg"} & sys.modules.keys())
"""


def test_a_command_that_only_tells_of_itself_imports_nothing_that_it_works_with() -> None:
    """Neither database nor HTTP, which take a second and more: the version, and the help of every command."""
    done = subprocess.run([sys.executable, "-c", HEADS_ALONE], check=True, capture_output=True, text=True)

    commands, imported = done.stdout.split("\n")[:2]
    assert {"serve", "migrate", "import", "evaluate", "token", "backup", "copy"} <= set(commands.split())
    assert imported == ""


@pytest.mark.both_databases
def test_migrating_makes_a_database_ready(empty_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it, every other command says so."""
    arguments = ["--database-url", empty_database_url]

    before = run(capsys, "serve", *arguments)
    migrated = run(capsys, "migrate", *arguments)

    assert before[0] == 1
    assert "fleetridge-server migrate" in before[2]
    assert migrated[0] == 0
    assert migrated[1].endswith("is up to date")


@pytest.mark.parametrize("command", [["serve"], ["migrate"], ["import", "x.csv"], ["inventory", "--show"]])
def test_a_database_that_cannot_be_used_is_told_in_a_sentence(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the remedy, and without a traceback or a password."""
    wrong = run(capsys, *command, "--database-url", "sqlite:////no/such/folder/x.db")
    nobody = run(capsys, *command, "--database-url", "postgresql://user:secret@127.0.0.1:1/name")

    assert (wrong[0], nobody[0]) == (2, 1)
    assert "create it" in wrong[2]
    assert "127.0.0.1" in nobody[2]
    assert "secret" not in nobody[2]
    assert not any("Traceback" in err for _, _, err in (wrong, nobody))


def test_a_port_that_is_taken_is_told_in_a_sentence(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, err = run(capsys, "serve", "--port", port, "--database-url", database_url)

    assert code == 2
    assert "--port" in err


def test_a_network_is_not_served_unasked(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """While nobody needs a token."""
    code, _, err = run(capsys, "serve", "--host", "0.0.0.0", "--database-url", database_url)  # noqa: S104 # refused

    assert code == 2
    assert "--trust-network" in err


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_setting_out_of_range_is_told_in_a_sentence(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By its name."""
    code, _, err = run(capsys, "serve", "--port", port)

    assert code == 2
    assert "port" in err


def test_an_import_says_what_became_of_the_rows(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And may be repeated."""
    lines = survey(600, gpus=20)
    distinct = len(set(lines)) - 1
    file = write(tmp_path / "survey.csv", *lines)

    first = run(capsys, "import", file, "--cluster", "lab", "--database-url", database_url)
    second = run(capsys, "import", file, "--cluster", "lab", "--database-url", database_url)

    repeats = f"{600 - distinct} repeated in the file"
    assert first == (
        0,
        f"600 rows read: {distinct} created, {repeats}, 0 already stored, 0 bad",
        "",
    )
    assert second == (
        0,
        f"600 rows read: 0 created, {repeats}, {distinct} already stored, 0 bad",
        "",
    )
    with database.reading() as session:
        assert session.execute(select(Report.cluster, func.count()).group_by(Report.cluster)).all() == [
            ("lab", distinct)
        ]


def test_bad_rows_are_told_by_line_and_the_others_are_stored(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and nothing lost in silence."""
    file = write(tmp_path / "x.csv", HEADER, ROW, ROW.replace("296.79", "much"), ROW.replace("SXM2", "SXM\udcff"), "a")

    code, out, err = run(capsys, "import", file, "--database-url", database_url)

    assert code == 1
    assert out == "4 rows read: 1 created, 0 repeated in the file, 0 already stored, 3 bad"
    assert [line.split(": ")[:2] for line in err.splitlines()] == [
        ["line 3", "power_w"],
        ["line 4", "device"],
        ["line 5", "1 fields, the header has 11"],
    ]


@pytest.mark.parametrize(
    ("newline", "start"), [("\n", b"\xef\xbb\xbf"), ("\r\n", b""), ("\r", b""), ("\n\n", b"\n\n"), ("\n", b"")]
)
def test_files_from_any_system_are_read(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], newline: str, start: bytes
) -> None:
    """With a byte order mark, with other ends of lines, with blank lines."""
    file = write(tmp_path / "x.csv", HEADER, ROW, newline=newline, start=start)

    code, out, _ = run(capsys, "import", file, "--database-url", database_url)

    assert (code, out.partition(":")[0]) == (0, "1 rows read")


@pytest.mark.parametrize(
    ("content", "remedy"),
    [
        (b"", "pi_tflops"),
        (b"gpu\nGPU-1\n", "pi_tflops"),
        (b"\x00\x01\xff\xfe", "UTF-8"),
        ("gpu,beta_gbps\nGPU-1,790".encode("utf-16"), "UTF-8"),
        ("gpu,beta_gbps,größe\nGPU-1,790,1".encode("latin-1"), "UTF-8"),
    ],
)
def test_a_file_without_a_right_header_is_refused(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, remedy: str
) -> None:
    """With the columns that there are, or the encoding that it should have."""
    (tmp_path / "x.csv").write_bytes(content)

    code, out, err = run(capsys, "import", str(tmp_path / "x.csv"), "--database-url", database_url)

    assert (code, out) == (2, "")
    assert remedy in err


def test_a_file_that_is_not_there_is_told_in_a_sentence(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name."""
    code, out, err = run(capsys, "import", str(tmp_path / "none.csv"), "--database-url", database_url)

    assert (code, out) == (2, "")
    assert "none.csv" in err


@pytest.mark.parametrize("cluster", ["", "a\u0000", "x" * 300])
def test_a_cluster_has_to_have_a_name(cluster: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that a report may have."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["import", "x.csv", "--cluster", cluster])

    assert ended.value.code == 2
    assert "--cluster" in capsys.readouterr().err


def test_an_import_that_the_database_stops_says_how_far_it_came(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is stored stays, and the file may be imported again."""
    file = write(tmp_path / "x.csv", HEADER, ROW)
    with database.writing() as session:
        session.execute(text("DROP TABLE roofs"))

    code, out, err = run(capsys, "import", file, "--database-url", database_url)

    assert code == 1
    assert out.startswith("stopped: 0 rows read")
    assert "cannot use the database" in err
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Report)) == 0


@pytest.mark.both_databases
def test_a_database_goes_to_the_schema_that_is_named_and_back_to_the_newest(
    empty_database_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Up and down by the same option; a rollback needs no line of Python."""
    newer = with_next_revision(tmp_path)
    monkeypatch.setattr(schema, "migrations_folder", lambda: newer)
    arguments = ["--database-url", empty_database_url]
    moves = [run(capsys, "migrate", *arguments, "--to", revision) for revision in ("0001", "0002", "0001")]

    refused = run(capsys, "serve", *arguments)
    back = run(capsys, "migrate", *arguments)

    assert [code for code, _, _ in moves] == [0, 0, 0]
    assert [said.rpartition(" ")[2] for _, said, _ in moves] == ["0001", "0002", "0001"]
    assert "the database has schema 0001, this server needs 0002" in refused[2]
    assert back[1].endswith("is up to date")


@pytest.mark.parametrize(
    "command",
    [
        ["serve"], ["serve", "--migrate"], ["migrate"], ["migrate", "--to", "0001"], ["import", "pyproject.toml"],
        ["evaluate"], ["inventory", "--show"], ["token", "list"], ["retention", "--once", "--documents-days", "9"],
        ["copy", "--to", "sqlite:///{folder}/target.db"], ["backup", "{folder}/backup.db"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_every_command_refuses_a_database_of_before_the_first_release(
    empty_database_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, command: list[str]
) -> None:
    """In one sentence with the remedy; of PostgreSQL, `backup` names another program as ever."""
    make_unreleased(empty_database_url, "0006")
    arguments = [word.format(folder=tmp_path) for word in command]

    code, out, said = run(capsys, *arguments, "--database-url", empty_database_url)

    is_of_others = command[0] == "backup" and not empty_database_url.startswith("sqlite")
    assert (code, out) == (1, "")
    assert ("pg_dump" if is_of_others else "made before version 0.1.0, and no released version can read it") in said
    assert len(said.splitlines()) == 1
    assert not any((tmp_path / name).exists() for name in ("target.db", "backup.db"))


@pytest.mark.parametrize("revision", ["base", "head", "-1", "9999", ""])
def test_a_schema_that_there_is_not_is_refused_with_those_that_there_are(
    empty_database_url: str, capsys: pytest.CaptureFixture[str], revision: str
) -> None:
    """And nothing changes: a slip of the fingers must not take every table away."""
    arguments = ["--database-url", empty_database_url]
    run(capsys, "migrate", *arguments)

    code, _, said = run(capsys, "migrate", *arguments, f"--to={revision}")

    assert code == 2
    assert "this version knows 0001" in said
    check_drift(empty_database_url)
