"""A daemon on scripted gpus as a process of its own, and what can be seen of it from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.patience import PATIENCE_S

_PROGRAM = Path(__file__).with_name("scripted_daemon.py")


@dataclass(frozen=True, slots=True)
class DaemonProcess:
    """
    A daemon.

    Attributes:
        folder: for its state and for the marks of its workers.
    """

    process: subprocess.Popen[str]
    folder: Path

    def says(self, text: str) -> list[dict[str, Any]]:
        """Lines of its log up to the first that holds a text; every one of them must be JSON."""
        assert self.process.stderr is not None
        heard: list[dict[str, Any]] = []
        for line in self.process.stderr:
            heard.append(json.loads(line))
            if text in heard[-1]["message"]:
                return heard
        raise AssertionError(f"it never said {text!r}, but {[entry['message'] for entry in heard]}")

    def end(self) -> int:
        """Ask it to end, and take its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    @property
    def children(self) -> list[int]:
        """Processes that it has started and that have not ended."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What waits in the spool."""
        return [json.loads(path.read_bytes()) for path in sorted((self.folder / "state" / "spool").glob("*.json"))]

    def marks(self, what: str) -> list[int]:
        """Workers that have come to something."""
        return [int(path.suffix[1:]) for path in self.folder.glob(f"{what}.*")]


@contextmanager
def daemon_process(
    folder: Path, *options: str, trouble: str, server: str, gpus: str = "GPU-a"
) -> Iterator[DaemonProcess]:
    """Start a daemon, by default with one gpu; it is gone after the block."""
    (folder / "state").mkdir(exist_ok=True)
    worker = ",".join((f"*={trouble}", "--mark", str(folder)))
    common = ("--server", server, "--state-dir", str(folder / "state"), "--log-format", "json")
    sizes = ("--square", "512", "--m-sweep", "1")
    command = (sys.executable, str(_PROGRAM), gpus, worker, *common, *sizes, *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(PATIENCE_S, process.kill)
        timer.start()
        try:
            yield DaemonProcess(process, folder)
        finally:
            timer.cancel()
            timer.join()
            process.kill()
