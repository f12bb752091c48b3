"""Checkouts of this project that a benchmark compares: each runs its own commands and its own server, in processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from server_process import Server

_PACKAGES = ("core", "agent", "server")
_OF_BENCHMARKS = ("bench", "tests")
_COMMAND = (sys.executable, "-c", "import sys; from fleetridge_server.cli import main; sys.exit(main())")


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout by its folder; nothing has to be installed from it."""

    path: Path

    def environment(self, **settings: str) -> dict[str, str]:
        """Variables of a process that runs this checkout; `settings` are the server's, without their prefix."""
        folders = [str(self.path.resolve() / name) for name in (*_PACKAGES, *_OF_BENCHMARKS)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETRIDGE_")}
        own = {f"FLEETRIDGE_SERVER_{name.upper()}": value for name, value in settings.items()}
        return kept | own | {"PYTHONPATH": os.pathsep.join(folders)}

    def command(self, url: str, *arguments: str) -> tuple[str, str]:
        """
        What a command of the server prints to standard output and to standard error.

        Raises:
            SystemExit: it failed.
        """
        done = subprocess.run(  # noqa: S603 # our own command
            [*_COMMAND, *arguments, "--database-url", url],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.path}: {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout.strip(), done.stderr.strip()

    @contextmanager
    def serving(self, url: str, **settings: str) -> Iterator[Server]:
        """A server that evaluates nothing by itself and takes any number of calls, until the block ends."""
        own = {"evaluate": "false", "calls_per_s": "0"} | settings
        server = subprocess.Popen(  # noqa: S603 # our own command
            [*_COMMAND, "serve", "--port", "0", "--database-url", url],
            env=self.environment(**own),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None  # noqa: S101 # a pipe
            said = server.stdout.readline().split()
            if not said:
                raise SystemExit(f"{self.path}: the server did not start; run `fleetridge-server serve` there and see")
            yield Server(said[-1], server.pid)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
