"""A disk of some megabytes, in memory, that can be filled up; only root can make one."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from support.load import Load

# A database and some hundred reports.
_SIZE = "32m"


@contextmanager
def small_disk(path: Path, *, owner: int) -> Iterator[Path]:
    """A new folder that is such a disk during the block and belongs to a user; its parent opens to that user."""
    path.mkdir()
    path.parent.chmod(0o755)
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", path], check=True)
    os.chown(path, owner, -1)
    try:
        yield path
    finally:
        subprocess.run(["/bin/umount", "--lazy", path], check=True)


@contextmanager
def on_disk(url: str, disk: Path) -> Iterator[str]:
    """Address of a database, on that disk during the block; PostgreSQL's is gone before the disk is."""
    if url.startswith("sqlite"):
        yield f"sqlite:///{shutil.copy(make_url(url).database or '', disk)}"
        return
    name = make_url(url).database
    server = make_url(url).set(drivername="postgresql", database="postgres")
    with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        connection.execute(f"ALTER DATABASE {name} SET TABLESPACE small")
        try:
            yield url
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            connection.execute("DROP TABLESPACE small")


def fill_up(disk: Path, made: Load) -> None:
    """Take all room until a caller is told to come again, then give it back."""
    ballast, told = disk / "ballast", made.answers["503"]
    while made.answers["503"] == told:
        _take_all(ballast)
        time.sleep(0.05)
    ballast.unlink()


def _take_all(ballast: Path) -> None:
    with ballast.open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return
