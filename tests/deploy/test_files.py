"""The files of a deployment, each held against the checker that its kind has."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fleetridge_agent import cli as agent_cli
from fleetridge_agent.config import options
from fleetridge_agent.config.setting_types import Source
from fleetridge_server import cli as server_cli
from support.deployment import AGENT, DEPLOY, SERVER
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
    programs = folder / "usr/bin"
    programs.mkdir(parents=True)
    for name in (AGENT, SERVER):
        (programs / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (programs / name).chmod(0o755)
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


@pytest.mark.parametrize("unit", [name for name in UNITS if name.endswith(".service")])
def test_the_account_that_a_unit_runs_as_is_made_with_the_folder_that_the_unit_writes(
    unit: str, tmp_path: Path
) -> None:
    shutil.copytree(DEPLOY / "systemd", tmp_path / "usr/lib/sysusers.d")
    (tmp_path / "etc").mkdir()
    run_program("systemd-sysusers", f"--root={tmp_path}")
    accounts = [line.split(":") for line in (tmp_path / "etc/passwd").read_text(encoding="utf-8").splitlines()]
    homes = {fields[0]: fields[5] for fields in accounts}
    shells = {fields[0]: fields[6] for fields in accounts}
    keys = settings_of(unit)
    assert keys["User"] == keys["Group"]
    assert homes[keys["User"][-1]] == f"/var/lib/{keys['StateDirectory'][-1]}"
    assert shells[keys["User"][-1]].endswith("nologin")


def settings_of(unit: str) -> dict[str, list[str]]:
    """What a unit sets, each key with all its values."""
    keys: dict[str, list[str]] = {}
    for line in (DEPLOY / "systemd" / unit).read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            keys.setdefault(key, []).append(value)
    return keys


def test_the_agent_s_sandbox_keeps_the_gpu_and_the_state() -> None:
    keys = settings_of("fleetridge-agent.service")
    # Either would take the devices or the compilers inside the CUDA libraries away.
    assert {"PrivateDevices", "MemoryDenyWriteExecute"}.isdisjoint(keys)
    # Also to be made where they are not there yet.
    assert "char-nvidia* rwm" in keys["DeviceAllow"]
    # Those of modules that are loaded later would be shut out.
    assert all("modprobe@nvidia_uvm.service" in keys[key][0].split() for key in ("Wants", "After"))
    assert keys["ProtectSystem"] == ["strict"]
    [command] = keys["ExecStart"]
    assert f"--state-dir /var/lib/{keys['StateDirectory'][0]} " in command


def test_the_agent_s_unit_has_time_for_eight_gpus_at_their_limit_and_for_the_wait() -> None:
    keys = settings_of("fleetridge-agent.service")
    arguments = keys["ExecStart"][0].split()[1:]
    source = Source(agent_cli._parser().parse_args(arguments), {})
    needed_s = (options.WAIT.required(source) + 8 * options.LIMIT.required(source)).total_seconds()
    [allowed] = keys["TimeoutStartSec"]
    assert allowed.endswith("h")
    assert int(allowed[:-1]) * 3600 > needed_s


def test_a_server_that_was_called_wrongly_is_not_started_again_and_again() -> None:
    keys = settings_of("fleetridge-server.service")
    assert keys["Restart"] == ["on-failure"]
    assert str(server_cli.USAGE) in keys["RestartPreventExitStatus"]


def test_the_timer_spreads_a_fleet_and_catches_up() -> None:
    keys = settings_of("fleetridge-agent.timer")
    assert keys["RandomizedDelaySec"] == ["2h"]
    assert keys["Persistent"] == ["true"]


def test_the_timer_s_calendar_is_a_time_of_every_night() -> None:
    [line] = [
        line
        for line in (DEPLOY / "systemd" / "fleetridge-agent.timer").read_text(encoding="utf-8").splitlines()
        if line.startswith("OnCalendar=")
    ]
    assert "Next elapse" in run_program("systemd-analyze", "calendar", line.partition("=")[2]).stdout
