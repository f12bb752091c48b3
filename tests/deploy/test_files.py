"""The files of a deployment, each held against the checker that its kind has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.deployment import DEPLOY
from support.distributions import CHECKOUT
from support.programs import run_program

pytestmark = pytest.mark.programs

UNITS = sorted(path.name for path in (DEPLOY / "systemd").iterdir() if path.suffix in (".service", ".timer"))
SYSTEM_UNITS = Path("/usr/lib/systemd/system")


def silent(name: str, *arguments: str | Path) -> None:
    done = run_program(name, *arguments)
    assert (done.stdout, done.stderr) == ("", "")


def root_with(unit: str, text: str, folder: Path) -> Path:
    """A system of its own with a unit and the program that it starts, so that nothing of this machine counts."""
    shutil.copytree(SYSTEM_UNITS, folder / "usr/lib/systemd/system", symlinks=True)
    for name in UNITS:
        place = folder / "etc/systemd/system" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text if name == unit else (DEPLOY / "systemd" / name).read_text(encoding="utf-8"))
    program = folder / "usr/bin/fleetridge-agent"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.gpu"])
def test_hadolint_finds_nothing_in_a_dockerfile(name: str) -> None:
    silent("hadolint", CHECKOUT / name)


def test_the_compose_file_is_one_by_its_specification() -> None:
    run_program("check-jsonschema", "--builtin-schema", "vendor.compose-spec", CHECKOUT / "docker-compose.yml")


def test_yamllint_finds_nothing() -> None:
    silent("yamllint", "--strict", ".yamllint.yaml", "deploy", "docker-compose.yml")


def test_shellcheck_finds_nothing_in_a_script() -> None:
    scripts = [path for path in DEPLOY.rglob("*") if path.suffix in (".sh", ".sbatch")]
    silent("shellcheck", *sorted(scripts), CHECKOUT / ".ci" / "run")


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_takes_a_unit_without_a_word(unit: str, tmp_path: Path) -> None:
    """It ends with 0 also where it tells that it ignores something."""
    root = root_with(unit, (DEPLOY / "systemd" / unit).read_text(encoding="utf-8"), tmp_path)
    silent("systemd-analyze", f"--root={root}", "verify", unit)


def test_a_misspelt_key_in_a_unit_would_be_told(tmp_path: Path) -> None:
    """So that silence means something."""
    text = (DEPLOY / "systemd" / "fleetridge-agent.service").read_text(encoding="utf-8")
    root = root_with("fleetridge-agent.service", text.replace("ProtectHome=", "ProtectHouse="), tmp_path)
    done = run_program("systemd-analyze", f"--root={root}", "verify", "fleetridge-agent.service")
    assert "ProtectHouse" in done.stderr


def test_the_timer_s_calendar_is_a_time_of_every_night() -> None:
    [line] = [
        line
        for line in (DEPLOY / "systemd" / "fleetridge-agent.timer").read_text(encoding="utf-8").splitlines()
        if line.startswith("OnCalendar=")
    ]
    assert "Next elapse" in run_program("systemd-analyze", "calendar", line.partition("=")[2]).stdout
