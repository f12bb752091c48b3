"""The distributions of this checkout, built and installed as a user gets them, without any package index."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from support.distributions import CHECKOUT, build


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution and not from the checkout."""
    return build(CHECKOUT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def commands(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Folder of the commands of a fresh environment with the wheel in it.

    The dependencies are those of the running environment. Its own editable install of the checkout stays out,
    for Python reads path files in an environment's own folder only.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(wheel)], check=True)
    dependencies = sysconfig.get_path("purelib")
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", query], check=True, capture_output=True, text=True).stdout.strip()
    (Path(own) / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    return python.parent
