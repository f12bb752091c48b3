"""The commands of an installed wheel, far from any checkout."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, inspect

import fleetridge

if TYPE_CHECKING:
    from pathlib import Path


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
    done = run(commands / "fleetridge-server", "migrate", folder=tmp_path, DATABASE_URL=empty_database_url)
    assert done.returncode == 0, done.stderr
    engine = create_engine(empty_database_url)
    tables = inspect(engine).get_table_names()
    engine.dispose()
    assert {"alembic_version", "reports"} <= set(tables)
