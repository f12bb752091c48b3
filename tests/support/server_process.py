"""The command `fleetridge-server serve` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from support.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class ServerProcess:
    """A server that was started, and may be ready."""

    process: subprocess.Popen[str]

    def address(self) -> str:
        """Address that it prints once it is ready; empty if it ended before."""
        return self._output().readline().strip().rpartition(" ")[2]

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def _output(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout


@contextmanager
def server_process(
    database_url: str,
    *options: str,
    stderr: IO[str] | int = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServerProcess]:
    """Start a server on any free port of this machine; it is gone after the block."""
    command = [sys.executable, "-m", "fleetridge_server.cli", "serve", "--port", "0", "--database-url", database_url]
    variables = {**os.environ, **(environment or {})}
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=stderr, text=True, env=variables
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            process.kill()
