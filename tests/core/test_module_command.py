from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from fleetridge.module_command import module_command

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_where_a_process_starts_is_not_taken_for_a_module(tmp_path: Path) -> None:
    """Somebody's `queue.py`, say; on Python 3.10, which cannot leave the folder out, it is."""
    (tmp_path / "this.py").write_text("raise SystemExit('not the library')", encoding="utf-8")

    ended = subprocess.run(module_command("this"), cwd=tmp_path, capture_output=True, check=False)

    assert (ended.returncode == 0) == (sys.version_info >= (3, 11))
