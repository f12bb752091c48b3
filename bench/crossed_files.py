"""
What one report crosses until it is shown: files and functions of this project, and SQL statements, step by step.

    python bench/crossed_files.py [--json FILE]

In this process, on SQLite: a fleet of 16 gpus with three days of reports is posted and evaluated, and every step done
once, so that nothing is imported or prepared while one counts. Then one report is posted, its device evaluated, asked
for (`/ridge`) and shown (its page), each step with a tracer of calls in every thread. The evaluation is started by its
command, which crosses a handful of files that a server's own does not. The program is reached by commands and as an
application alone, so that the file runs beside any version that PYTHONPATH names.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal
from sqlalchemy import Engine, event

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # reports as the tests make them

import fleetridge
import fleetridge_server
from fleetridge.text_table import Column, text_table
from fleetridge_server import cli
from fleetridge_server.app import create_app
from fleetridge_server.settings import Settings
from support.reports import make_report

_FOLDERS = tuple(str(Path(str(package.__file__)).parent) for package in (fleetridge, fleetridge_server))
_GPUS = 16
_GPUS_PER_NODE = 8
_DAYS = 3
_DEVICE = "h200"

# What a transaction begins and ends with is no question.
_NO_STATEMENT = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")


@dataclass
class Crossed:
    """What was met in one step."""

    files: set[str] = field(default_factory=set)
    functions: set[CodeType] = field(default_factory=set)
    statements: list[str] = field(default_factory=list)


class Tracer:
    """Notes calls in threads that start after it, while a step is under way."""

    def __init__(self) -> None:
        self._step: Crossed | None = None
        threading.setprofile(self._profile)
        event.listen(Engine, "before_cursor_execute", self._execute)

    @contextmanager
    def step(self) -> Iterator[Crossed]:
        """What is met until the block ends."""
        crossed = self._step = Crossed()
        sys.setprofile(self._profile)
        try:
            yield crossed
        finally:
            sys.setprofile(None)
            self._step = None

    def _profile(self, frame: FrameType, what: str, _argument: object) -> None:
        step, code = self._step, frame.f_code
        # Modules, lambdas and comprehensions are no functions that somebody has to find.
        if step is None or what != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(_FOLDERS):
            return
        step.files.add(code.co_filename)
        step.functions.add(code)

    def _execute(self, _connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if self._step is not None and not statement.startswith(_NO_STATEMENT):
            self._step.statements.append(statement)


def main() -> None:
    """Trace, and print a table."""
    parser = argparse.ArgumentParser(description="Counts what one report crosses.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the counts and the statements here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = crossed_steps(f"sqlite:///{Path(folder) / 'crossed.db'}")
    whole = Crossed()
    for own in steps.values():
        whole.files |= own.files
        whole.functions |= own.functions
        whole.statements += own.statements
    columns = [Column("step", align="left"), Column("files"), Column("functions"), Column("SQL statements")]
    rows = [_row(name, own) for name, own in [*steps.items(), ("in all", whole)]]
    print(text_table(columns, rows, title="what one report crosses, each file and function once"))
    if options.json is not None:
        found = {name: _counts(own) for name, own in [*steps.items(), ("in all", whole)]}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def crossed_steps(url: str) -> dict[str, Crossed]:
    """What each step crosses, in a database that is not there yet."""
    tracer = Tracer()
    _command(url, "migrate")
    app = create_app(Settings(database_url=url, evaluate=False, trust_network=True, intake_processes=0))
    transport = httpx.ASGITransport(app)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(app.router.lifespan_context(app)):
        client = httpx.AsyncClient(transport=transport, base_url="http://bench", timeout=None)  # noqa: S113 # no network
        with portal.wrap_async_context_manager(client):

            def answered(method: str, path: str, **content: Any) -> None:  # noqa: ANN401 # of httpx
                portal.call(partial(client.request, method, path, **content)).raise_for_status()

            for day in reversed(range(1, _DAYS + 1)):
                reports = [_report(gpu, day) for gpu in range(_GPUS)]
                answered("POST", "/reports", json={"reports": reports})
            steps: Mapping[str, Callable[[], None]] = {
                "report": lambda: answered("POST", "/reports", json=_report(3, 0)),
                "evaluation": lambda: _command(url, "evaluate", "--device", _DEVICE),
                "ridge": lambda: answered("GET", f"/devices/{_DEVICE}/ridge"),
                "page of the device": lambda: answered("GET", f"/ui/devices/{_DEVICE}"),
            }
            for step in steps.values():
                step()
            found = {}
            for name, step in steps.items():
                with tracer.step() as found[name]:
                    step()
    return found


def _command(url: str, *arguments: str) -> None:
    """
    Run a command of the server in this thread, which says nothing.

    Raises:
        SystemExit: it failed.
    """
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told):
        code = cli.main([*arguments, "--database-url", url])
    if code:
        raise SystemExit(f"{arguments[0]} failed: {told.getvalue()}")


def _report(gpu: int, days_ago: int) -> dict[str, Any]:
    at = datetime.now(timezone.utc) - timedelta(days=days_ago, hours=1)
    return make_report(
        pi_tflops=845.0 + gpu / 10,
        gpu__uuid=f"GPU-crossed-{gpu:02}",
        gpu__index=gpu % _GPUS_PER_NODE,
        gpu__pci_bus_id=f"0000:{gpu % _GPUS_PER_NODE:02X}:00.0",
        node__name=f"node-{gpu // _GPUS_PER_NODE}",
        run__roster=None,
        run__roster_complete=False,
        measured_from=at.isoformat(),
        measured_to=at.isoformat(),
    )


def _row(name: str, own: Crossed) -> list[str]:
    return [name, str(len(own.files)), str(len(own.functions)), str(len(own.statements))]


def _counts(own: Crossed) -> dict[str, Any]:
    return {
        "files": len(own.files),
        "functions": len(own.functions),
        "statements": len(own.statements),
        "each_statement": own.statements,
    }


if __name__ == "__main__":
    main()
