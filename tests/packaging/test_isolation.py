"""Each side runs on a machine where the other side's dependencies are not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fleetridge

AGENT_SIDE = ("fleetridge_agent", "torch", "pynvml")
SERVER_SIDE = ("fleetridge_server", "fastapi", "starlette", "uvicorn", "sqlalchemy", "alembic", "psycopg", "jinja2")

# A None in sys.modules makes Python refuse the import, as if the package were not there.
RUN_WITHOUT = """
import importlib, sys
command, *absent = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent))
sys.argv = [command, "--version"]
sys.exit(importlib.import_module(command + ".cli").main())
"""


@pytest.mark.parametrize(
    ("command", "absent"),
    [("fleetridge_agent", SERVER_SIDE), ("fleetridge_server", AGENT_SIDE)],
    ids=["agent", "server"],
)
def test_a_command_starts_without_what_only_the_other_side_needs(command: str, absent: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_WITHOUT, command, *absent], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == fleetridge.__version__
