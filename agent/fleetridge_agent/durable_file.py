"""Files that survive a crash: whole or not there, never half."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

# Reports carry nothing secret, but what a node measures is nobody else's business.
_FILE_MODE = 0o600
FOLDER_MODE = 0o700

# The longest write of a report on a disk that has gone slow takes a minute; what is older was left by a process that
# was killed.
_LEFTOVER_AGE_S = 600

_TEMPORARY_SUFFIX = ".tmp"


def write_durably(path: Path, content: bytes) -> None:
    """
    Write a file so that after a crash it is either whole or absent: temporary file, fsync, rename, fsync of the folder.

    Raises:
        OSError: the folder cannot be written or the disk is full. No half of it is left behind; where `path` is there
            now, it is whole, and only whether its name outlives a power cut is unknown.
    """
    _make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY_SUFFIX}")
    try:
        _write_and_sync(temporary, content)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def remove_leftovers(folder: Path, *, now_s: float) -> None:
    """
    Remove half-written files that a killed process left in a folder.

    Args:
        folder: may be absent; one that cannot be read is left as it is.
        now_s: seconds since 1970, by the clock of the file system.
    """
    with contextlib.suppress(OSError):
        for path in folder.glob(f".*{_TEMPORARY_SUFFIX}"):
            if now_s - path.lstat().st_mtime > _LEFTOVER_AGE_S:
                path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; without it a rename may be undone by a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot do this for folders; then their server decides.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    for made in missing:
        # A folder that is not ours may be closed to reading; then the name of ours in it is the disk's own affair.
        with contextlib.suppress(OSError):
            sync_folder(made.parent)


def _write_and_sync(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
