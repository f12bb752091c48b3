"""
The outbox on disk: reports wait here until the server has said that it has them.

    STATE_DIR/spool/        waiting, oldest first
    STATE_DIR/dead-letter/  refused by the server for good, each with the reason beside it
    STATE_DIR/quarantine/   files that are no reports (cut off by a broken disk, edited by hand)

One bad file never blocks the others, and no folder grows without bound.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from fleetridge import strict_json
from fleetridge_agent.deliver.durable_file import remove_leftovers, write_durably
from fleetridge_agent.errors import SpoolError

log = logging.getLogger(__name__)

# A day of hourly runs on a node split into 64 partitions is 1536 reports; with some hundred kilobytes each this holds
# about a day there, and weeks on a node of eight gpus.
MAX_REPORTS = 2048
MAX_BYTES = 256 * 1024**2

# What was refused or broken is kept to be looked at, and a few hundred files show any pattern there is.
MAX_SET_ASIDE = 256

# A full sweep's report is some hundred kilobytes; a file a hundred times that is none.
_MAX_FILE_BYTES = 32 * 1024**2

# Wide enough that names sort by number for as long as any disk lives.
_NUMBER_DIGITS = 12

_SUFFIX = ".json"
_REASON_SUFFIX = ".reason.txt"


@dataclass(frozen=True, slots=True)
class Outgoing:
    """
    One report on its way to the server.

    Attributes:
        body: the report as JSON; the same bytes on every try.
        path: where it waits on disk, None where the disk could not be written and it lives in memory only.
    """

    report_id: str
    body: bytes
    path: Path | None = None


class Spool:
    """Reports of one state directory that wait for delivery."""

    def __init__(
        self,
        state_dir: Path,
        *,
        max_reports: int = MAX_REPORTS,
        max_bytes: int = MAX_BYTES,
        max_set_aside: int = MAX_SET_ASIDE,
    ) -> None:
        self.folder = state_dir / "spool"
        self.dead_letters = state_dir / "dead-letter"
        self.quarantine = state_dir / "quarantine"
        self._max_reports = max_reports
        self._max_bytes = max_bytes
        self._max_set_aside = max_set_aside

    def add(self, report_id: str, body: bytes) -> Outgoing:
        """
        Put a report on disk, dropping the oldest ones where there is no room.

        Raises:
            SpoolError: the state directory cannot be written or the disk is full.
        """
        try:
            self._make_room(len(body))
            path = self.folder / f"{self._next_number():0{_NUMBER_DIGITS}d}-{report_id}{_SUFFIX}"
            write_durably(path, body)
        except OSError as error:
            raise _spool_error(self.folder, error) from error
        return Outgoing(report_id, body, path)

    def pending(self) -> Iterator[Outgoing]:
        """
        Waiting reports, oldest first; what cannot be read as a report is put in quarantine on the way.

        Raises:
            SpoolError: the folder cannot be listed.
        """
        for folder in (self.folder, self.dead_letters):
            remove_leftovers(folder, now_s=time.time())
        try:
            paths = _files(self.folder)
        except OSError as error:
            raise _spool_error(self.folder, error) from error
        for path in paths:
            outgoing = self._read(path)
            if outgoing is not None:
                yield outgoing

    def count(self) -> int:
        """Number of reports that wait; 0 where the folder cannot be listed."""
        try:
            return len(_files(self.folder))
        except OSError:
            return 0

    def remove(self, outgoing: Outgoing) -> None:
        """Forget a report that the server has."""
        if outgoing.path is None:
            return
        try:
            outgoing.path.unlink(missing_ok=True)
        except OSError as error:
            log.warning(
                "cannot remove %s (%s); it will be sent again, which does no harm", outgoing.path, error.strerror
            )

    def bury(self, outgoing: Outgoing, problem: str) -> None:
        """Move a report that the server will never take to the dead letters, with what the server said of it."""
        name = outgoing.path.name if outgoing.path is not None else f"{outgoing.report_id}{_SUFFIX}"
        try:
            write_durably(self.dead_letters / name, outgoing.body)
            write_durably(self.dead_letters / f"{name}{_REASON_SUFFIX}", problem.encode() + b"\n")
        except OSError as error:
            log.warning("cannot write %s (%s); %s stays where it is", self.dead_letters, error.strerror, name)
            return
        self.remove(outgoing)
        _keep_newest(self.dead_letters, self._max_set_aside)

    def _read(self, path: Path) -> Outgoing | None:
        try:
            problem, content = _content(path)
        except FileNotFoundError:
            return None  # another process has delivered it meanwhile
        except OSError as error:
            self._set_aside(path, error.strerror or "unreadable")
            return None
        report_id = _report_id(content) if problem is None else None
        if report_id is None:
            self._set_aside(path, problem or "not a report")
            return None
        return Outgoing(report_id, content, path)

    def _set_aside(self, path: Path, problem: str) -> None:
        try:
            self.quarantine.mkdir(parents=True, exist_ok=True)
            path.replace(self.quarantine / path.name)
        except OSError as error:
            log.warning("skipped %s (%s); it cannot be moved away either: %s", path, problem, error.strerror)
            return
        log.warning("moved %s to %s: %s", path.name, self.quarantine, problem)
        _keep_newest(self.quarantine, self._max_set_aside)

    def _next_number(self) -> int:
        numbers = [path.name.partition("-")[0] for path in _files(self.folder)]
        return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)

    def _make_room(self, incoming_bytes: int) -> None:
        sizes = {path: _size_bytes(path) for path in _files(self.folder)}
        total, dropped = sum(sizes.values()), 0
        for path, size in sizes.items():
            if len(sizes) - dropped < self._max_reports and total + incoming_bytes <= self._max_bytes:
                break
            path.unlink(missing_ok=True)
            total, dropped = total - size, dropped + 1
        if dropped:
            log.error("spool %s is full: dropped its %d oldest reports; is the server reachable?", self.folder, dropped)


def _files(folder: Path) -> list[Path]:
    """Report files of a folder by name, which is oldest first; none where there is no folder."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX and not path.is_dir())


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # another process has delivered it meanwhile


def _content(path: Path) -> tuple[str | None, bytes]:
    """What is wrong with a file before it is read, and its bytes."""
    if path.is_symlink() or not path.is_file():
        return "not a plain file", b""
    if path.stat().st_size > _MAX_FILE_BYTES:
        return "too large for a report", b""
    return None, path.read_bytes()


def _report_id(content: bytes) -> str | None:
    """Id in a report's JSON, None where the bytes are no report that a server could read."""
    try:
        report = strict_json.loads(content)
        value = report.get("report_id") if isinstance(report, dict) else None
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None


def _keep_newest(folder: Path, count: int) -> None:
    for path in _files(folder)[:-count]:
        path.unlink(missing_ok=True)
        path.with_name(f"{path.name}{_REASON_SUFFIX}").unlink(missing_ok=True)


def _spool_error(folder: Path, error: OSError) -> SpoolError:
    return SpoolError(
        f"cannot use the spool {folder}: {error.strerror or error}; free some space there or give another --state-dir"
    )
