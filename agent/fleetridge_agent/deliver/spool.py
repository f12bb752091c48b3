"""
The spool, on disk: reports wait here until the server has said that it has them.

    STATE_DIR/spool/        waiting, oldest first
    STATE_DIR/dead-letter/  refused by the server for good, each with the reason beside it
    STATE_DIR/quarantine/   files that are no reports (cut off by a broken disk, edited by hand)

One bad file never blocks the others, and no folder grows without bound.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from fleetridge import strict_json
from fleetridge.quantities import MIB
from fleetridge_agent.durable_file import FOLDER_MODE, remove_leftovers, write_durably
from fleetridge_agent.errors import SpoolError

log = logging.getLogger(__name__)

# A day of hourly runs on a node split into 64 partitions is 1536 reports; with some hundred kilobytes each this holds
# about a day there, and weeks on a node of eight gpus.
MAX_REPORTS = 2048
MAX_BYTES = 256 * MIB

# What was refused or broken is kept to be looked at, and a few hundred files show any pattern there is.
MAX_SET_ASIDE = 256

# A full sweep's report is some hundred kilobytes; a file a hundred times that is none.
_MAX_FILE_BYTES = 32 * MIB

# Wide enough that names sort by number for as long as any disk lives.
_NUMBER_DIGITS = 12
_NUMBER = re.compile(f"[0-9]{{{_NUMBER_DIGITS}}}")

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
    """
    Reports of one state directory that wait for delivery.

    Any number of agents may share it, also on several nodes: no step needs a lock, and what two of them send at once
    the server stores once.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        max_reports: int = MAX_REPORTS,
        max_bytes: int = MAX_BYTES,
        max_set_aside: int = MAX_SET_ASIDE,
    ) -> None:
        self.state_dir = state_dir
        self.folder = state_dir / "spool"
        self.dead_letters = state_dir / "dead-letter"
        self.quarantine = state_dir / "quarantine"
        self._max_reports = max_reports
        self._max_bytes = max_bytes
        self._max_set_aside = max_set_aside

    def add(self, report_id: str, body: bytes) -> Outgoing:
        """
        Put a report on disk, and drop the oldest ones where that makes too many.

        Raises:
            SpoolError: the state directory cannot be written or the disk is full; nothing is dropped then.
        """
        try:
            path = _numbered(self.folder, f"{report_id}{_SUFFIX}")
            _write(path, body)
            self._drop_oldest(path)
        except OSError as error:
            raise _spool_error(self.folder, error) from error
        return Outgoing(report_id, body, path)

    def pending(self) -> Iterator[Outgoing]:
        """
        Waiting reports, oldest first; what is no report is put in quarantine on the way.

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

    def move_to_dead_letters(self, outgoing: Outgoing, problem: str) -> None:
        """Move a report that the server will never take to the dead letters, with what the server said of it."""
        try:
            letter = self._letter_of(outgoing.report_id)
            write_durably(letter, outgoing.body)
            write_durably(letter.with_name(f"{letter.name}{_REASON_SUFFIX}"), problem.encode() + b"\n")
        except OSError as error:
            where = "is lost" if outgoing.path is None else "stays in the spool"
            log.warning("cannot write %s (%s); %s %s", self.dead_letters, error.strerror, outgoing.report_id, where)
            return
        self.remove(outgoing)
        _keep_newest(self.dead_letters, self._max_set_aside)

    def _letter_of(self, report_id: str) -> Path:
        """Dead letter of a report: the one that is there since we were killed in between, else a new one."""
        name = f"{report_id}{_SUFFIX}"
        there = (path for path in _files(self.dead_letters) if path.name.endswith(f"-{name}"))
        return next(there, None) or _numbered(self.dead_letters, name)

    def _read(self, path: Path) -> Outgoing | None:
        try:
            problem, content = _content(path)
        except FileNotFoundError:
            return None  # another process has delivered it meanwhile
        except OSError as error:
            # It may be whole: another user's, or on a disk or server that recovers.
            log.warning("cannot read %s (%s); it stays where it is, see whose it is", path, error.strerror)
            return None
        report_id = _report_id(content) if problem is None else None
        if report_id is None:
            self._set_aside(path, problem or "not a report")
            return None
        return Outgoing(report_id, content, path)

    def _set_aside(self, path: Path, problem: str) -> None:
        try:
            self.quarantine.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            path.replace(_numbered(self.quarantine, path.name))
        except FileNotFoundError:
            return  # another process was first
        except OSError as error:
            log.warning("skipped %s (%s); it cannot be moved away either: %s", path, problem, error.strerror)
            return
        log.warning("moved %s to %s: %s", path.name, self.quarantine, problem)
        _keep_newest(self.quarantine, self._max_set_aside)

    def _drop_oldest(self, newest: Path) -> None:
        sizes = {path: _size_bytes(path) for path in _files(self.folder)}
        total_bytes, count = sum(sizes.values()), len(sizes)
        for path, size_bytes in sizes.items():
            if (count <= self._max_reports and total_bytes <= self._max_bytes) or path == newest:
                break
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.warning("spool %s is full, and %s cannot be dropped: %s", self.folder, path.name, error.strerror)
                break
            total_bytes, count = total_bytes - size_bytes, count - 1
        dropped = len(sizes) - count
        if dropped:
            log.error("spool %s is full: dropped its %d oldest reports; is the server reachable?", self.folder, dropped)


def _write(path: Path, body: bytes) -> None:
    try:
        write_durably(path, body)
    except OSError as error:
        if not path.exists():
            raise
        log.warning("%s is written, but a power cut may undo that (%s); see to the disk", path, error.strerror)


def _numbered(folder: Path, name: str) -> Path:
    """Name behind all that are in a folder."""
    numbers = [path.name.partition("-")[0] for path in _files(folder)]
    number = 1 + max((int(number) for number in numbers if _NUMBER.fullmatch(number)), default=0)
    return folder / f"{number:0{_NUMBER_DIGITS}d}-{name}"


def _files(folder: Path) -> list[Path]:
    """Report files of a folder by name, which is oldest first; none where there is no folder."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                Path(entry.path)
                for entry in entries
                if entry.name.endswith(_SUFFIX) and not entry.is_dir(follow_symlinks=False)
            )
    except FileNotFoundError:
        return []


def _size_bytes(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0  # another process has delivered it meanwhile


def _content(path: Path) -> tuple[str | None, bytes]:
    """What is wrong with a file before it is read, and its bytes."""
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        return "not a plain file", b""
    if status.st_size > _MAX_FILE_BYTES:
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
    with contextlib.suppress(OSError):  # one file too many does no harm
        for path in _files(folder)[:-count]:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}{_REASON_SUFFIX}").unlink(missing_ok=True)


def _spool_error(folder: Path, error: OSError) -> SpoolError:
    remedy = (
        "run as the user whose it is, or `chown -R` the state directory"
        if isinstance(error, PermissionError)
        else "free some space there"
    )
    return SpoolError(
        f"cannot use the spool {folder}: {error.strerror or error}; {remedy}, or give another --state-dir"
    )
