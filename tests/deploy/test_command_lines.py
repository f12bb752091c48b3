"""No option and no variable in a deployment can be wrong: each is read by the program that it is meant for."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import stat
import subprocess
from collections.abc import Mapping
from datetime import time
from pathlib import Path

import pytest

from fleetridge_agent import cli as agent_cli
from fleetridge_agent.config import options
from fleetridge_agent.config.setting_types import Source
from fleetridge_agent.config.variables import known_variables, unknown_variables
from fleetridge_server.commands import arguments as server_arguments
from fleetridge_server.serve import require_safe_host
from fleetridge_server.settings import ENV_PREFIX, Settings
from support.deployment import AGENT, DEPLOY, SERVER, command_lines, env_file, environments, texts

COMMAND_LINES = [pytest.param(words, id=f"{place}: {' '.join(words)}") for place, words in command_lines()]
ENVIRONMENTS = [pytest.param(command, given, id=place) for place, command, given in environments()]

# Read by a script or by docker compose and by no program of ours.
OF_COMPOSE = {"FLEETRIDGE_VERSION", "FLEETRIDGE_PORT"}
OF_SLURM = {"FLEETRIDGE_SLURM_ENV"}


def without_placeholders(given: Mapping[str, str]) -> dict[str, str]:
    """Variables as docker compose leaves them where nobody sets anything."""
    return {name: re.sub(r"\$\{\w+(?::?[-?]([^}]*))?\}", r"\1", value) for name, value in given.items()}


def test_there_are_command_lines_of_every_kind() -> None:
    places = " ".join(place for place, _ in command_lines())
    for kind in ("Dockerfile", "compose", "daemonset", "job", "migrate", ".service", ".cron", ".sbatch", "prolog"):
        assert kind in places
    for kind in ("healthcheck", "fleetridge-check.sh"):
        assert kind in places


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_every_command_line_is_one_that_the_program_takes(words: list[str]) -> None:
    program, *arguments = words
    if program == SERVER:
        server_arguments.parser().parse_args(arguments)
        return
    source = Source(agent_cli._parser().parse_args(arguments), {})
    for setting in options.every_setting():
        setting.value(source)


@pytest.mark.parametrize(("command", "given"), ENVIRONMENTS)
def test_every_variable_that_a_deployment_sets_can_be_read(
    command: list[str], given: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = without_placeholders(given)
    if command[0] == AGENT:
        assert unknown_variables(given) == ()
        source = Source(argparse.Namespace(), given)
        for setting in options.every_setting():
            setting.value(source)
        assert options.SERVER.given(source)
        return
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    if command[1] == "serve":
        # Refused unless somebody decided for it, and then a pod restarts for ever.
        require_safe_host(settings, has_token=False)


def test_every_variable_of_ours_that_is_named_is_one_that_counts() -> None:
    of_server = {f"{ENV_PREFIX}{name.upper()}" for name in Settings.model_fields}
    of_slurm = set(re.findall(r"\bFLEETRIDGE_SLURM_\w+", (DEPLOY / "slurm" / "slurm.env").read_text(encoding="utf-8")))
    known = known_variables() | of_server | of_slurm | OF_COMPOSE | OF_SLURM
    named = {
        f"{name} in {place}"
        for place, text in texts().items()
        for name in re.findall(r"\bFLEETRIDGE_[A-Z_]*[A-Z]\b", text)
        if name not in known
    }
    assert named == set()


def test_every_setting_of_the_slurm_scripts_is_off_and_read_by_one() -> None:
    settings = env_file(DEPLOY / "slurm" / "slurm.env")
    scripts = "".join(path.read_text(encoding="utf-8") for path in (DEPLOY / "slurm").glob("*.sh"))
    assert {name for name in settings if name not in scripts} == set()
    switches = {name: value for name, value in settings.items() if value in ("yes", "no")}
    assert len(switches) == 3
    assert set(switches.values()) == {"no"}


def test_scripts_can_be_executed() -> None:
    scripts = [path for path in DEPLOY.rglob("*") if path.suffix in (".sh", ".sbatch")]
    assert len(scripts) >= 6
    assert [path.name for path in scripts if not path.stat().st_mode & stat.S_IXOTH] == []


def test_the_crontab_has_a_time_a_user_and_a_line_that_a_shell_can_read() -> None:
    lines = (DEPLOY / "systemd" / "fleetridge.cron").read_text(encoding="utf-8").splitlines()
    [entry] = [line for line in lines if line[0].isdigit() or line[0] == "*"]
    minute, hour, day, month, weekday, user, command = entry.split(maxsplit=6)
    time(int(hour), int(minute))
    assert (day, month, weekday, user) == ("*", "*", "*", "fleetridge")
    # cron takes a bare percent sign for a line break, and no line beyond 999 characters.
    assert re.search(r"(?<!\\)%", command) is None
    assert len(entry) < 1000
    assert shlex.split(command)
    assert {name for name, _ in re.findall(r"^([A-Z]+)=(.*)$", "\n".join(lines), flags=re.MULTILINE)} == {
        "SHELL",
        "PATH",
    }


def test_the_crontab_s_line_waits_reads_the_settings_and_logs_everything(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "fleetridge.cron").read_text(encoding="utf-8")
    [entry] = [line for line in text.splitlines() if line[0].isdigit()]
    command = entry.split(maxsplit=6)[6].replace("\\%", "%").replace("/etc/fleetridge/agent.env", str(tmp_path / "env"))
    shutil.copy(DEPLOY / "systemd" / "agent.env", tmp_path / "env")
    for name, script in {
        "sleep": 'test "$1" -ge 0 && test "$1" -lt 7200 && echo slept >> "$SAID"',
        AGENT: 'echo "$FLEETRIDGE_SERVER $*"; echo trouble >&2',
        "logger": 'echo "$*" >> "$SAID"; cat >> "$SAID"',
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SAID": str(tmp_path / "said")}
    subprocess.run(["/bin/bash", "-c", command], check=True, env=environment, capture_output=True)
    slept, *logged = (tmp_path / "said").read_text(encoding="utf-8").splitlines()
    assert slept == "slept"
    assert sorted(logged) == [
        f"--tag {AGENT}",
        "https://fleetridge.example.org run --state-dir /var/lib/fleetridge --wait 30m",
        "trouble",
    ]


def test_the_agents_of_one_node_agree_on_where_its_state_is() -> None:
    """The one that measures and the one that tells of it read the same folder."""
    given = {
        str(options.STATE_DIR.value(Source(agent_cli._parser().parse_args(words[1:]), {})))
        for place, words in command_lines()
        # Images say it by a variable.
        if words[0] == AGENT and not place.startswith(("Dockerfile", "docker-compose"))
    }
    assert given == {"/var/lib/fleetridge"}
