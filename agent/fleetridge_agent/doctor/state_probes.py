"""Whether the state directory can hold what must not be lost, and the settings say what was meant."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleetridge.quantities import MIB, binary_size
from fleetridge_agent.deliver.spool import MAX_BYTES, MAX_REPORTS, Spool
from fleetridge_agent.doctor.probe import Finding, NodeState, ok, problem, warning

# A few full sweeps of a node of eight gpus.
_LEAST_FREE_BYTES = 16 * MIB

# File systems that several hosts mount, by the names of /proc/mounts; those behind FUSE are named fuse.NAME.
_SHARED = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "afs", "pvfs2", "wekafs", "9p"}
)
_FUSE = "fuse."
_LOCAL_FUSE = frozenset({"fuse.overlayfs", "fuse.fuse-overlayfs", "fuse.lxcfs"})

_OTHER_PLACE = "give another --state-dir, on a disk of this node"

# A Secret that Kubernetes mounts belongs to root and may be read by the pod's group.
_TOO_LOOSE = stat.S_IRWXO | stat.S_IWGRP


def state_dir(node: NodeState) -> Iterator[Finding]:
    """Whether reports can be put on disk, how much room there is, and whose disk it is."""
    folder = _nearest(node.state_dir)
    trouble = _write_trouble(node.state_dir)
    if trouble is not None:
        yield problem("state directory", f"{node.state_dir} cannot be written: {trouble}", _owned(node.state_dir))
        return
    closed = _closed_to_us(node.state_dir)
    if closed is not None:
        yield problem(
            "state directory",
            f"{closed} is another user's: reports and locks in it cannot be used",
            f"run the agent as always the same user; `chown -R {_user()} {node.state_dir}` mends what is there",
        )
        return
    yield ok("state directory", f"{node.state_dir} can be written")
    yield from _room(folder)
    kind = _file_system(node, folder)
    if kind is not None and _is_shared(kind):
        yield warning(
            "state directory",
            f"{folder} lies on {kind}, which other hosts may share: locks may not hold there",
            _OTHER_PLACE,
        )


def spool(node: NodeState) -> Iterator[Finding]:
    """What waits, what was refused, and what is broken."""
    box = Spool(node.state_dir)
    waiting, waiting_bytes = _counted(box.folder)
    if waiting >= MAX_REPORTS or waiting_bytes >= MAX_BYTES:
        yield problem(
            "spool",
            f"full: {waiting} reports, {binary_size(waiting_bytes)}; each new one costs the oldest",
            "see what keeps them from the server, then `fleetridge-agent flush`",
        )
    elif waiting:
        yield warning(
            "spool",
            f"{waiting} reports wait, {binary_size(waiting_bytes)}",
            "the next run delivers them; `fleetridge-agent flush` does so now and says what keeps them",
        )
    else:
        yield ok("spool", "empty")
    yield from _set_aside(box.dead_letters, "dead letters", "the server will never take them", "read the .reason.txt")
    yield from _set_aside(box.quarantine, "quarantine", "files that are no reports", "see whether the disk is well")


def _set_aside(folder: Path, what: str, meaning: str, remedy: str) -> Iterator[Finding]:
    count, _ = _counted(folder)
    if count:
        yield warning(what, f"{count} in {folder}: {meaning}", f"{remedy} beside each, then remove them")


def _nearest(folder: Path) -> Path:
    """The folder, or what is there of the way to it."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return there


def _write_trouble(folder: Path) -> str | None:
    """
    Why a file cannot be written in a folder, None where it can.

    Nothing is left behind: what had to be made for the trial goes with it.
    """
    base = _nearest(folder)
    if not base.is_dir():
        return f"{base} is no folder"
    try:
        with tempfile.TemporaryDirectory(prefix=".fleetridge-doctor-", dir=base) as trial:
            (Path(trial) / "trial").write_bytes(bytes(4096))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _closed_to_us(state_dir: Path) -> Path | None:
    """Something in the state directory that this user cannot read and write, as another's agent left it, if any."""
    for folder in sorted(path for path in _listed(state_dir) if path.is_dir()):
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            return folder
        closed = next((path for path in _listed(folder) if not os.access(path, os.R_OK | os.W_OK)), None)
        if closed is not None:
            return closed
    return None


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _owned(folder: Path) -> str:
    return f"make it (`install -d -m 0700 -o {_user()} {folder}`), or give another --state-dir"


def _user() -> str:
    return "USER" if os.geteuid() else "root"


def _room(folder: Path) -> Iterator[Finding]:
    figures = os.statvfs(folder)
    free, nodes = figures.f_bavail * figures.f_frsize, figures.f_favail
    # Some file systems count no inodes and say 0 of 0.
    if figures.f_files and not nodes:
        yield problem("disk", f"{folder} has no inode left", "remove files there, or give another --state-dir")
    elif free < _LEAST_FREE_BYTES:
        yield problem(
            "disk", f"{binary_size(free)} are free at {folder}", "free some space, or give another --state-dir"
        )
    elif free < MAX_BYTES:
        yield warning(
            "disk",
            f"{binary_size(free)} are free at {folder}, less than a full spool takes",
            "free some space, or give another --state-dir",
        )
    else:
        yield ok("disk", f"{binary_size(free)} are free at {folder}")


def _file_system(node: NodeState, folder: Path) -> str | None:
    """Kind of the file system that a folder lies on (proc(5), /proc/pid/mounts); None where nothing says."""
    try:
        text = (node.host.root / "proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    mounts = [fields for line in text.splitlines() if len(fields := line.split(" ")) > 2]  # noqa: PLR2004 # kind is third
    real = folder.resolve()
    over = [fields for fields in mounts if real.is_relative_to(_unescaped(fields[1]))]
    # Of two mounts on one place the later hides the earlier.
    longest = max(enumerate(over), key=lambda item: (len(_unescaped(item[1][1])), item[0]), default=None)
    return None if longest is None else longest[1][2]


def _unescaped(path: str) -> str:
    """A path as proc(5) writes it: space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def _is_shared(kind: str) -> bool:
    return kind in _SHARED or (kind.startswith(_FUSE) and kind not in _LOCAL_FUSE)


def _counted(folder: Path) -> tuple[int, int]:
    """Reports in a folder, and their bytes."""
    try:
        sizes = [path.lstat().st_size for path in folder.glob("*.json")]
    except OSError:
        return 0, 0
    return len(sizes), sum(sizes)


def settings(node: NodeState) -> Iterator[Finding]:
    """Values that cannot be read, and variables that nothing reads."""
    for fault in node.settings.faults:
        yield problem("settings", fault, "correct it")
    for sentence in node.settings.misspelt:
        seen, _, remedy = sentence.partition("; ")
        yield warning("settings", seen, remedy)
    if not node.settings.faults and not node.settings.misspelt:
        yield ok("settings", "all can be read; no variable is misspelt")


def token_file(node: NodeState) -> Iterator[Finding]:
    """Whether the token is kept from others on this host; whether it is one, the server's probe finds out."""
    path = node.settings.token_file
    if path is None:
        return
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & _TOO_LOOSE:
        yield warning(
            "token file",
            f"{path} has mode {stat.S_IMODE(mode):04o}: others on this host may use the token",
            f"`chmod 600 {path}`; in Kubernetes set defaultMode: 0400 on the volume",
        )
    else:
        yield ok("token file", f"{path} is closed to others (mode {stat.S_IMODE(mode):04o})")
