"""What a built wheel holds and asks for."""

from __future__ import annotations

import email
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest

import fleetridge
from support.distributions import CHECKOUT, build

PACKAGES = {"core/fleetridge", "agent/fleetridge_agent", "server/fleetridge_server"}
AGENT_CONTEXT = ("core", "agent", "pyproject.toml", "README.md", "LICENSE", "hatch_build.py")
SERVER_ONLY = {"fastapi", "uvicorn", "sqlalchemy", "alembic", "psycopg"}
AGENT_ONLY = {"torch", "nvidia-ml-py"}


def files_in(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_under(folder: Path) -> set[str]:
    """Paths below a folder of the checkout, less what running it leaves behind."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if "__pycache__" not in path.parts}


def metadata(wheel: Path) -> email.message.Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


def extra(wheel: Path, name: str) -> set[str]:
    """Names of the packages that an extra asks for."""
    wanted = (line for line in metadata(wheel).get_all("Requires-Dist", []) if re.search(rf"extra == .{name}.$", line))
    return {re.split(r"[^A-Za-z0-9._-]", line)[0].lower() for line in wanted}


def test_the_wheel_has_the_three_packages_and_no_other_module(wheel: Path) -> None:
    assert {name.partition("/")[0] for name in files_in(wheel)} == {Path(package).name for package in PACKAGES}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_file_of_a_package_is_in_the_wheel(wheel: Path, package: str) -> None:
    folder = CHECKOUT / package
    assert {f"{folder.name}/{path}" for path in files_under(folder)} <= files_in(wheel)


def test_the_wheel_is_typed_and_knows_the_published_peaks(wheel: Path) -> None:
    names = {name.rpartition("/")[2] for name in files_in(wheel) if name.startswith("fleetridge/")}
    assert {"py.typed", "peaks.json"} <= names


def test_the_migrations_are_inside_the_server_package(wheel: Path) -> None:
    shipped = {name for name in files_in(wheel) if "migrations/" in name}
    assert "fleetridge_server/migrations/env.py" in shipped
    assert shipped == {f"fleetridge_server/migrations/{path}" for path in files_under(CHECKOUT / "migrations")}


def test_the_wheel_has_the_version_of_the_code(wheel: Path) -> None:
    assert metadata(wheel)["Version"] == fleetridge.__version__


def test_the_agent_asks_for_nothing_of_the_server(wheel: Path) -> None:
    assert extra(wheel, "agent") >= AGENT_ONLY
    assert extra(wheel, "agent").isdisjoint(SERVER_ONLY)


def test_the_server_asks_for_nothing_of_the_agent(wheel: Path) -> None:
    assert extra(wheel, "server") >= SERVER_ONLY
    assert extra(wheel, "server").isdisjoint(AGENT_ONLY)


def test_an_image_of_the_agent_is_built_without_any_server_code(tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    for name in AGENT_CONTEXT:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, context / name)
        else:
            shutil.copy2(source, context / name)
    built = build(context, tmp_path / "dist", "--wheel")
    assert {name.partition("/")[0] for name in files_in(built)} == {"fleetridge", "fleetridge_agent"}
