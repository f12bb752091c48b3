"""The parent's side of a worker's pipes: never waits, and believes nothing that is no message."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from fleetridge.quantities import MIB
from fleetridge_agent.worker.messages import Finished, Misused, Ready, Remark, Step, message_of

# A full report of the largest sweep has some MiB; what is larger is none.
_LONGEST_LINE_BYTES = 64 * MIB

# Of what a worker wrote to stderr, enough for the end of a traceback.
_KEPT_BYTES = 16384

# One reading takes what a pipe holds (pipe(7): 64 KiB) many times over, and yet ends where somebody writes without end.
_CHUNK_BYTES = 65536
_CHUNKS = 64

# Of something that is no message, enough to see what it is.
_SHOWN_BYTES = 80

# Lines of a dump or traceback that are not its sentence (faulthandler, traceback).
_NOT_SAID = (" ", "\t", "Current thread", "Thread 0x", "Extension modules", "Traceback")


@dataclass(slots=True)
class Said:
    """
    What a worker has said so far that decides what becomes of it.

    Attributes:
        nonsense: what was no message, None where there was nothing like that.
        last_words: the last sentence that it left on stderr.
    """

    is_ready: bool = False
    finished: Finished | None = None
    misused: Misused | None = None
    nonsense: str | None = None
    last_words: str = ""


class Dialogue:
    """
    Sends lines to a worker, and takes its messages as they come.

    Attributes:
        said: kept up to date.
    """

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self.said = Said()
        self._stdin, self._stdout, self._stderr = stdin, stdout, stderr
        for stream in (stdin, stdout, stderr):
            os.set_blocking(stream.fileno(), False)
        self._unsent = b""
        self._line = b""
        self._left_on_stderr = b""

    @property
    def readers(self) -> tuple[IO[bytes], ...]:
        """Streams on which something may come."""
        return tuple(stream for stream in (self._stdout, self._stderr) if not stream.closed)

    @property
    def writers(self) -> tuple[IO[bytes], ...]:
        """Streams on which something is to be sent."""
        return (self._stdin,) if self._unsent and not self._stdin.closed else ()

    def send(self, line: bytes) -> None:
        """Send a line as soon as the worker takes it."""
        self._unsent += line

    def exchange(self) -> Iterator[Step | Remark]:
        """Send and take all that can be without waiting; what it said that is for people."""
        self._send()
        self._left_on_stderr = (self._left_on_stderr + self._taken(self._stderr))[-_KEPT_BYTES:]
        self.said.last_words = last_words(self._left_on_stderr.decode(errors="replace"))
        *lines, self._line = (self._line + self._taken(self._stdout)).split(b"\n")
        if len(self._line) > _LONGEST_LINE_BYTES:
            self._line = self._doubted(self._line)
        for line in lines:
            yield from self._understood(line)

    def close(self) -> None:
        """Close the pipes."""
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    def _send(self) -> None:
        if self.writers:
            # One that has ended reads no more; how it ended says the rest.
            with suppress(BrokenPipeError):
                self._unsent = self._unsent[self._stdin.write(self._unsent) or 0 :]

    @staticmethod
    def _taken(stream: IO[bytes]) -> bytes:
        taken = b""
        for _ in range(0 if stream.closed else _CHUNKS):
            chunk: bytes | None = stream.read(_CHUNK_BYTES)
            if chunk == b"":
                stream.close()
            if not chunk:
                break
            taken += chunk
        return taken

    def _understood(self, line: bytes) -> Iterator[Step | Remark]:
        try:
            message = message_of(line)
        except ValueError:
            self._doubted(line)
            return
        if isinstance(message, Step | Remark):
            yield message
        elif isinstance(message, Ready):
            self.said.is_ready = True
        elif isinstance(message, Misused):
            self.said.misused = message
        else:
            self.said.finished = message

    def _doubted(self, line: bytes) -> bytes:
        """Keep a sample of the first thing that is no message; what is left of it to keep."""
        if self.said.nonsense is None:
            self.said.nonsense = line[:_SHOWN_BYTES].decode(errors="replace")
        return b""


def last_words(text: str) -> str:
    """The last sentence of what a process left on stderr, be it a traceback or a dump; empty where it left none."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith(_NOT_SAID)]
    return lines[-1] if lines else ""
