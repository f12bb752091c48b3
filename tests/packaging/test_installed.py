"""The commands of an installed wheel, far from any checkout."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, inspect

import fleetridge
from support.csv_fleet import HEADER

if TYPE_CHECKING:
    from pathlib import Path

ROW = "Tesla V100-SXM2-16GB,,GPU-1,,2020-06-02T17:27:42Z,float32,13.5673,,1350,73,296.79"
DOWN = "import os; from fleetridge_server.db import schema; schema.downgrade(os.environ['DATABASE_URL'], 'base')"
CHECK = "import os; from fleetridge_server.db import schema; schema.check_drift(os.environ['DATABASE_URL'])"


def run(command: Path, *arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run in an empty folder with nothing of our own environment."""
    return subprocess.run(
        [command, *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={"HOME": str(folder), **environment},
    )


@pytest.mark.parametrize("name", ["fleetridge-agent", "fleetridge-server"])
def test_each_command_says_the_one_version(commands: Path, tmp_path: Path, name: str) -> None:
    done = run(commands / name, "--version", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == fleetridge.__version__


def test_the_code_that_runs_is_the_installed_one(commands: Path, tmp_path: Path) -> None:
    done = run(commands / "python", "-c", "import fleetridge_server as s; print(s.__file__)", folder=tmp_path)
    assert done.stdout.startswith(str(commands.parent)), done.stdout + done.stderr


def test_migrations_run_from_the_wheel(commands: Path, tmp_path: Path, empty_database_url: str) -> None:
    """Up, compared with the models, down and up again, with rows."""
    (tmp_path / "gpus.csv").write_text(f"{HEADER}\n{ROW}\n", encoding="utf-8")
    server, python = commands / "fleetridge-server", commands / "python"
    for program, arguments in (
        (server, ["migrate"]), (server, ["import", "gpus.csv"]), (python, ["-c", DOWN]), (server, ["migrate"]),
        (server, ["import", "gpus.csv"]), (python, ["-c", CHECK]),
    ):  # fmt: skip
        done = run(program, *arguments, folder=tmp_path, DATABASE_URL=empty_database_url)
        assert done.returncode == 0, done.stderr
    engine = create_engine(empty_database_url)
    tables = inspect(engine).get_table_names()
    engine.dispose()
    assert {"schema_revision", "reports"} <= set(tables)
