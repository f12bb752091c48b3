from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fleetridge_server.db.locks import ServedAlreadyError, sole_server

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from fleetridge_server.db.locks import sole_server
with sole_server(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_server_of_one_file_is_refused(tmp_path: Path) -> None:
    """Also under another name of the same file, and free again once the first has ended, however it did."""
    url = f"sqlite:///{tmp_path / 'a.db'}"
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")
    other = subprocess.Popen([sys.executable, "-c", HOLD, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()

    for name in ("a.db", "link.db"):
        with pytest.raises(ServedAlreadyError, match="PostgreSQL"), sole_server(f"sqlite:///{tmp_path / name}"):
            pass
    other.kill()
    other.communicate()

    with sole_server(url):
        pass


def test_postgresql_takes_several_servers(postgres_url: str) -> None:
    """There nothing is locked."""
    with sole_server(postgres_url), sole_server(postgres_url):
        pass
