from __future__ import annotations

from typing import TYPE_CHECKING

from fleetridge_server.settings import Settings

if TYPE_CHECKING:
    import pytest


def test_without_any_setting_a_file_and_this_machine_only() -> None:
    """What a newcomer gets."""
    settings = Settings()

    assert settings.database_url == "sqlite:///fleetridge.db"
    assert (settings.host, settings.trust_network) == ("127.0.0.1", False)


def test_the_environment_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database under the name that platforms use, the rest under our own prefix."""
    monkeypatch.setenv("DATABASE_URL", "postgres://host/name")
    monkeypatch.setenv("FLEETRIDGE_SERVER_PORT", "9000")

    settings = Settings()

    assert (settings.database_url, settings.port) == ("postgres://host/name", 9000)


def test_what_is_given_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line over the environment."""
    monkeypatch.setenv("DATABASE_URL", "postgres://host/name")

    assert Settings(database_url="sqlite:///x.db").database_url == "sqlite:///x.db"


def test_every_setting_is_described() -> None:
    """A setting without a word about it is none."""
    assert all(field.description for field in Settings.model_fields.values())


def test_no_password_is_printed() -> None:
    """Settings end up in logs."""
    assert "secret" not in repr(Settings(database_url="postgres://user:secret@host/name"))
