"""The page for operators has every option and variable of every command, and none that there is not."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from fleetridge_agent import cli as agent_cli
from fleetridge_agent.config import options
from fleetridge_agent.config.setting_types import Setting
from fleetridge_agent.config.variables import known_variables
from fleetridge_server.commands import arguments as server_arguments
from fleetridge_server.settings import ENV_PREFIX, Settings

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")

# It takes every setting but those that only shape what a sweep prints.
ASKED_OF_ALL = "doctor"

Row = list[str]


def rows(heading: str) -> list[Row]:
    """Cells of the table rows between a heading and the next of its level."""
    level = heading.partition(" ")[0]
    _, _, rest = PAGE.partition(f"\n{heading}\n")
    section = re.split(rf"^{level} ", rest, flags=re.MULTILINE)[0]
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| `")
    ]


def coded(cell: str) -> set[str]:
    """Words in code spans."""
    return set(re.findall(r"`([^`]+)`", cell))


def options_by_command(parser: argparse.ArgumentParser) -> dict[str, set[str]]:
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return {
        name: {option for action in command._actions for option in action.option_strings} - {"-h", "--help"}
        for name, command in commands.choices.items()
    }


AGENT = options_by_command(agent_cli._parser())
SERVER = options_by_command(server_arguments.parser())

AGENT_ROWS = {row[0].strip("`"): row for row in rows("## Settings of the agent") if row[0].startswith("`--")}
SERVER_TABLES = rows("## Settings of the server")
SERVER_ROWS = {row[0].strip("`"): row for row in SERVER_TABLES if row[0].strip("`").isupper()}
SERVER_COMMANDS = {row[0].strip("`"): row for row in SERVER_TABLES if not row[0].strip("`").isupper()}


def variable_of(name: str) -> str:
    """Variable of a setting of the server."""
    alias = Settings.model_fields[name].validation_alias
    return str(alias).upper() if alias else ENV_PREFIX + name.upper()


@pytest.mark.parametrize("setting", options.every_setting(), ids=lambda setting: setting.name)
def test_every_setting_of_the_agent_has_its_row(setting: Setting[object]) -> None:
    assert setting.option in AGENT_ROWS, f"docs/operations.md says nothing of {setting.option}; add it to the table"
    _, variables, default, commands, meaning = AGENT_ROWS[setting.option]

    assert coded(variables) == {setting.variable, *setting.also}
    assert set(commands.split(", ")) == {
        name for name, taken in AGENT.items() if setting.option in taken and name != ASKED_OF_ALL
    }
    assert meaning
    if setting.default is not None:
        assert default == setting.default


def test_the_table_of_the_agent_has_no_option_that_there_is_not() -> None:
    assert set(AGENT_ROWS) == {setting.option for setting in options.every_setting()}


def test_the_doctor_takes_what_the_page_says() -> None:
    shaping = {setting.option for setting in options.SHOWING} - {"--json"}

    assert {"--json", *AGENT_ROWS} - shaping == AGENT[ASKED_OF_ALL]


def test_every_variable_that_the_agent_knows_is_on_the_page() -> None:
    assert known_variables() <= coded(PAGE)


def test_every_command_of_the_agent_is_on_the_page() -> None:
    assert set(AGENT) <= {row[0].strip("`") for row in rows("## The agent: ways to run it")}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_of_the_server_has_its_row(name: str) -> None:
    variable = variable_of(name)

    assert variable in SERVER_ROWS, f"docs/operations.md says nothing of {variable}; add it to the table"
    assert SERVER_ROWS[variable][-1]


def test_the_table_of_the_server_has_no_variable_that_there_is_not() -> None:
    assert set(SERVER_ROWS) == {variable_of(name) for name in Settings.model_fields}


@pytest.mark.parametrize("command", SERVER)
def test_every_command_of_the_server_is_there_with_all_its_options(command: str) -> None:
    assert command in SERVER_COMMANDS, f"docs/operations.md says nothing of `fleetridge-server {command}`"
    named = {word for word in coded(SERVER_COMMANDS[command][1]) if word.startswith("--")}

    assert named == SERVER[command]
