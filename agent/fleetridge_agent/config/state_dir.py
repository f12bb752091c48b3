"""Where the agent keeps its spool and its locks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_NAME = "fleetridge"

# Filesystem Hierarchy Standard 3.0, 5.8: state of a program that runs for the whole host.
_SYSTEM_STATE = Path("/var/lib")


def default_state_dir(environ: Mapping[str, str], *, is_root: bool, home: Path) -> Path:
    """
    State directory where none was named: /var/lib/fleetridge for root, else as the XDG base directories say.

    $XDG_STATE_HOME counts only when absolute, as its specification asks; without it ~/.local/state stands in.
    """
    if is_root:
        return _SYSTEM_STATE / _NAME
    named = Path(environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home / ".local" / "state") / _NAME
