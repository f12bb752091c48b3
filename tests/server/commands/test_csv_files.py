"""The command `inventory`, on both databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fleetridge_server import cli
from fleetridge_server.fleet.expected import shown_inventory

if TYPE_CHECKING:
    from pathlib import Path

    from fleetridge_server.db.database import Database

HEADER = "cluster,node,gpu,device,gpus"


def run(capsys: pytest.CaptureFixture[str], database_url: str, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    code = cli.main(["inventory", *arguments, "--database-url", database_url])
    out, err = capsys.readouterr()
    return code, out, err


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join([HEADER, *lines]), encoding="utf-8")
    return str(path)


def kept(database: Database, cluster: str) -> list[tuple[str, str | None, int | None]]:
    with database.reading() as session:
        return [(entry.node, entry.gpu, entry.expected_gpus) for entry, _ in shown_inventory(session, cluster)]


def test_a_file_is_read_and_shown(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "x.csv", ",n1,GPU-1,NVIDIA H200,", ",n1,GPU-2,NVIDIA H200,", ",n2,,,8", "west,n1,,,4")

    code, out, err = run(capsys, database_url, file, "--cluster", "east")
    shown = run(capsys, database_url, "--show")

    assert (code, err) == (0, "")
    assert "cluster east: 2 nodes expected, 10 gpus" in out
    assert "cluster west: 1 node expected, 4 gpus" in out
    assert kept(database, "east") == [("n1", "GPU-1", None), ("n1", "GPU-2", None), ("n2", None, 8)]
    assert shown[0] == 0
    assert all(word in shown[1] for word in ("east", "west", "GPU-1", "H200"))


def test_a_file_replaces_what_was_expected_of_its_clusters_and_of_no_other(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, database_url, write(tmp_path / "1.csv", "east,n1,,,8", "west,n1,,,8"))
    run(capsys, database_url, write(tmp_path / "2.csv", "east,n2,,,4"))

    assert kept(database, "east") == [("n2", None, 4)]
    assert kept(database, "west") == [("n1", None, 8)]


def test_with_one_bad_line_nothing_changes(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, database_url, write(tmp_path / "1.csv", "east,n1,,,8"))
    code, out, err = run(capsys, database_url, write(tmp_path / "2.csv", "east,n2,,,4", "east,,GPU-1,,"))

    assert (code, out) == (1, "")
    assert err.startswith("line 3: node: ")
    assert "nothing was stored" in err
    assert kept(database, "east") == [("n1", None, 8)]


def test_many_bad_lines_are_told_in_part(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run(capsys, database_url, write(tmp_path / "x.csv", *["east,,,,"] * 100))
    assert "80 more" in err
    assert len(err.splitlines()) == 22


def test_a_header_alone_takes_back_what_was_expected(
    database_url: str, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, database_url, write(tmp_path / "1.csv", "east,n1,,,8"))
    _, out, _ = run(capsys, database_url, write(tmp_path / "2.csv"), "--cluster", "east")

    assert "nothing is expected any more" in out
    assert kept(database, "east") == []
    assert "Nothing is expected" in run(capsys, database_url, "--show")[1]


def test_one_cluster_is_shown_alone(database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, database_url, write(tmp_path / "1.csv", "east,n1,,,8", "west,n2,,,8"))
    _, out, _ = run(capsys, database_url, "--show", "--cluster", "west")
    assert "n2" in out
    assert "n1" not in out


def test_without_a_file_and_without_show_there_is_nothing_to_do(
    database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, database_url)
    assert ended.value.code == 2
    assert "--show" in capsys.readouterr().err


def test_a_file_that_is_not_there_or_has_no_header_is_told_in_a_sentence(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2")
    absent = run(capsys, database_url, str(tmp_path / "none.csv"))
    headless = run(capsys, database_url, str(tmp_path / "x.csv"))

    assert (absent[0], headless[0]) == (2, 2)
    assert "none.csv" in absent[2]
    assert "node" in headless[2]
