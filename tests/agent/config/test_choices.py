"""Where the state lies when nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetridge_agent.config.choices import default_state_dir

HOME = Path("/home/someone")


def test_root_keeps_state_for_the_whole_host() -> None:
    assert default_state_dir({"XDG_STATE_HOME": "/x"}, is_root=True, home=HOME) == Path("/var/lib/fleetridge")


def test_a_user_keeps_state_where_xdg_says() -> None:
    assert default_state_dir({"XDG_STATE_HOME": "/x"}, is_root=False, home=HOME) == Path("/x/fleetridge")


@pytest.mark.parametrize("environ", [{}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}])
def test_a_user_without_an_absolute_xdg_directory_keeps_state_at_home(environ: dict[str, str]) -> None:
    assert default_state_dir(environ, is_root=False, home=HOME) == HOME / ".local/state/fleetridge"
