"""
Locks that keep two agents off one node or gpu, by flock on files of the state directory.

The kernel lets go of such a lock however its holder ends, so that none is ever left behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fleetridge_agent.errors import AlreadyRunningError

log = logging.getLogger(__name__)

# Characters that are safe in a file name everywhere; UUIDs and most host names are made of them.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")

_FILE_MODE = 0o600

# File systems take names of 255 bytes; what stands before and behind the name of a node needs some of them.
_LONGEST_PART = 160


@contextmanager
def node_lock(state_dir: Path, node: str) -> Iterator[bool]:
    """
    Hold a node, for commands that measure all of its gpus.

    The file carries the node's name because a home directory, and the state in it, may be shared by many nodes.

    Yields:
        Whether the lock is held; False where the state directory cannot be written, which is logged.

    Raises:
        AlreadyRunningError: another agent holds it.
    """
    with _held(_path(state_dir, "node", node), what=f"node {node}") as is_held:
        yield is_held


@contextmanager
def gpu_lock(state_dir: Path, gpu: str) -> Iterator[bool]:
    """
    Hold one gpu, by its UUID, while it is measured.

    Yields:
        Whether the lock is held; False where the state directory cannot be written, which is logged.

    Raises:
        AlreadyRunningError: another agent measures it.
    """
    with _held(_path(state_dir, "gpu", gpu), what=f"gpu {gpu}") as is_held:
        yield is_held


@contextmanager
def spool_lock(state_dir: Path) -> Iterator[bool]:
    """
    Hold what waits in the spool while it is delivered, so that agents that share one do not all send all of it.

    Yields:
        Whether the lock is held; False where the state directory cannot be written, which is logged.

    Raises:
        AlreadyRunningError: another agent delivers it.
    """
    with _held(_path(state_dir, "spool", "delivery"), what=f"the delivery of {state_dir / 'spool'}") as is_held:
        yield is_held


@contextmanager
def daemon_lock(state_dir: Path, node: str) -> Iterator[bool]:
    """
    Be the daemon of a node, which holds the node itself only while it measures.

    Yields:
        Whether the lock is held; False where the state directory cannot be written, which is logged.

    Raises:
        AlreadyRunningError: the node has a daemon.
    """
    with _held(_path(state_dir, "daemon", node), what=f"the place of the daemon on node {node}") as is_held:
        yield is_held


def file_name_of(name: str) -> str:
    """Part of a file name that stands for the name of a node or gpu; a long one is told from others by its hash."""
    safe = _UNSAFE.sub("_", name)
    if len(safe) <= _LONGEST_PART:
        return safe
    return f"{safe[:_LONGEST_PART]}-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:16]}"


def _path(state_dir: Path, kind: str, name: str) -> Path:
    return state_dir / "locks" / f"{kind}-{file_name_of(name)}.lock"


@contextmanager
def _held(path: Path, *, what: str) -> Iterator[bool]:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE)
    except OSError as error:
        log.warning("cannot lock %s (%s: %s); going on without", what, path, error.strerror)
        yield False
        return
    try:
        yield _taken(descriptor, path, what=what)
    finally:
        os.close(descriptor)


def _taken(descriptor: int, path: Path, *, what: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunningError(
            f"another fleetridge-agent holds {what}; wait for it to end (`fuser {path}` says which process it is)"
        ) from None
    except OSError as error:  # some shared file systems have no locks
        log.warning("cannot lock %s (%s: %s); going on without", what, path, error.strerror)
        return False
    return True
