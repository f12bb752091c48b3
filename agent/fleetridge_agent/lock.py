"""
Locks that keep two agents off one node or gpu, by flock on files of the state directory.

The kernel lets go of such a lock however its holder ends, so that none is ever left behind.
"""

from __future__ import annotations

import fcntl
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


def _path(state_dir: Path, kind: str, name: str) -> Path:
    return state_dir / "locks" / f"{kind}-{_UNSAFE.sub('_', name)}.lock"


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
        _take(descriptor, path, what=what)
        yield True
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, *, what: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunningError(
            f"another fleetridge-agent holds {what}; wait for it to end (`fuser {path}` says which process it is)"
        ) from None
