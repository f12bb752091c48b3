"""Files that a sweep writes beside what it prints."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fleetridge_agent.errors import AgentError, UsageError

log = logging.getLogger(__name__)

STANDARD_OUTPUT = "-"


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Where CSV and JSON go; None for nowhere, `-` for standard output."""

    csv: str | None
    json: str | None

    @property
    def take_standard_output(self) -> bool:
        """Whether one of them wants standard output for itself."""
        return STANDARD_OUTPUT in (self.csv, self.json)

    def write(self, emit: Callable[[str], None], *, csv: Callable[[], str], json: Callable[[], str]) -> None:
        """
        Write what was asked for; a place that fails keeps nothing from the other.

        Raises:
            AgentError: a file cannot be written.
        """
        failures: list[str] = []
        for path, text in ((self.csv, csv), (self.json, json)):
            if path == STANDARD_OUTPUT:
                emit(text())
            elif path is not None:
                failures += _written(Path(path), text())
        if failures:
            raise AgentError(f"cannot write {'; '.join(failures)}; free some space or give another path")


def result_files(csv: str | None, json: str | None) -> ResultFiles:
    """
    Check the places before anything is measured for them.

    Raises:
        UsageError: a place cannot be written, or both want standard output.
    """
    if csv == json == STANDARD_OUTPUT:
        raise UsageError("--csv, --json: only one of them can go to standard output; give a path for the other")
    for option, path in (("--csv", csv), ("--json", json)):
        if path not in (None, STANDARD_OUTPUT):
            _require_place(option, Path(path))
    return ResultFiles(csv, json)


def _require_place(option: str, path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{option}: {path} is a folder; give the path of a file")
    if not path.parent.is_dir():
        raise UsageError(f"{option}: there is no folder {path.parent}; create it first")


def _written(path: Path, text: str) -> list[str]:
    """Write a file; what went wrong, if anything."""
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        return [f"{path}: {error.strerror}"]
    log.info("wrote %s", path)
    return []
