"""
The file of a SQLite database while it is open: whether it is still the one at its path, and may be written.

SQLite goes on reading and writing a file that was deleted or replaced, and all that is stored there is lost.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


class DataFileError(RuntimeError):
    """The data file cannot be used as it should; the message names the remedy."""


@dataclass
class DataFile:
    """
    A data file that is, or will be, open.

    Attributes:
        path: where it is.
    """

    path: Path
    _identity: tuple[int, int] | None = field(default=None, init=False)

    def note_opened(self) -> None:
        """Take the file that is at the path now for the one that is open, unless one is open already."""
        if self._identity is None:
            self._identity = self._found()

    def check_same(self) -> None:
        """
        Make sure that the open file is still the one at its path.

        Raises:
            DataFileError: it was deleted, moved or replaced.
        """
        if self._identity is not None and self._identity != self._found():
            raise DataFileError(
                f"the data file {self.path.name} was deleted, moved or replaced while it was open; put it back "
                "where it was, or restart the server to work with what is there now"
            )

    def check_writable(self) -> None:
        """
        Make sure that this process may write the file and, for its journals, the folder.

        Raises:
            DataFileError: it may not.
        """
        for path, what in ((self.path, "data file"), (self.path.parent, "folder of the data file")):
            if not os.access(path, os.W_OK):
                raise DataFileError(
                    f"the {what} {path.name} may only be read; make it writable for the user of the server"
                )

    def _found(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino
