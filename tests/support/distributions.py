"""Builds the distributions of the checkout with the backend of the running environment, without any package index."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def build(source: Path, output: Path, *flags: str) -> Path:
    """Build what `flags` ask for, by default a source distribution and from it a wheel; returns the wheel."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(output), *flags, str(source)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = output.glob("*.whl")
    return wheel
