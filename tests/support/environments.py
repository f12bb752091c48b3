"""Environments of Python that hold some distributions of the running one and nothing else."""

from __future__ import annotations

import email
import subprocess
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed_by(requirements: Iterable[str]) -> set[str]:
    """Names of the distributions that requirements ask for, and those that these ask for in turn."""
    found: dict[str, set[str]] = {}
    waiting = [Requirement(text.partition(";")[0]) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = wanted.extras | {""}
        news = extras - found.setdefault(name, set())
        found[name] |= extras
        if news:
            waiting.extend(_asked(distribution(name), news))
    return set(found)


def asked_by(wheel: Path, extra: str) -> list[str]:
    """Requirements of a wheel with one of its extras."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        texts = email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    wanted = [Requirement(text) for text in texts]
    return [str(each) for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]


def make_environment(folder: Path, names: Iterable[str]) -> Path:
    """
    A fresh environment with some installed distributions, linked and not copied; its folder of commands.

    Args:
        folder: where to make it.
        names: of distributions of the running environment.
    """
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.run([python, "-c", query], check=True, capture_output=True, text=True).stdout.strip())
    links = folder / "linked"
    links.mkdir()
    for name in names:
        for entry in _entries(distribution(name)):
            link = links / entry.name
            if not link.exists():
                link.symlink_to(entry)
    # A path file, as pip would write what it installs into the environment's own folder.
    (own / "linked.pth").write_text(f"{links}\n", encoding="utf-8")
    return python.parent


def _asked(found: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in found.requires or ():
        wanted = Requirement(text)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            yield wanted


def _entries(found: Distribution) -> set[Path]:
    """Files and folders of a distribution at the top of its folder of packages."""
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}
    return {Path(str(found.locate_file(top))) for top in tops}
