from __future__ import annotations

from datetime import timedelta

import pytest
from pydantic import ValidationError

from fleetridge_server.settings import Settings


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
    settings = Settings(database_url="postgres://user:pa55word@host/name", webhook_url="https://host/pa55word")
    assert "pa55word" not in repr(settings)


def test_links_lead_to_where_people_reach_the_server() -> None:
    """As far as it knows."""
    assert Settings().url_for_people == "http://127.0.0.1:8000"
    assert Settings(public_url="https://fleet.example/").url_for_people == "https://fleet.example"


@pytest.mark.parametrize("written", ["900", "900.0", "PT15M", "00:15:00"])
def test_times_between_are_written_as_seconds_or_in_iso_8601(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """By the same variable."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_EVALUATE_EVERY", written)

    assert Settings().evaluate_every == timedelta(minutes=15)


@pytest.mark.parametrize("written", ["soon", "nan", "-5", "59"])
def test_a_time_between_that_is_none_or_too_short_is_refused(monkeypatch: pytest.MonkeyPatch, written: str) -> None:
    """At the start, not an hour later."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_EVALUATE_EVERY", written)

    with pytest.raises(ValidationError):
        Settings()


def test_logs_are_shaped_by_the_variable_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """One variable for both; the command line wins."""
    monkeypatch.setenv("FLEETRIDGE_LOG_FORMAT", "json")

    assert (Settings().log_format, Settings(log_format="text").log_format) == ("json", "text")


def test_times_between_are_written_in_iso_8601(monkeypatch: pytest.MonkeyPatch) -> None:
    """As people write them in a unit file."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_EVALUATE_EVERY", "PT15M")
    monkeypatch.setenv("FLEETRIDGE_SERVER_MEASURED_EVERY", "P1D")

    settings = Settings()

    assert (settings.evaluate_every, settings.measured_every) == (timedelta(minutes=15), timedelta(days=1))
    assert (Settings.model_fields["evaluate"].default, Settings.model_fields["measured_every"].default) == (True, None)


def test_reports_are_taken_in_by_processes_of_their_own_or_by_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are asked for; there is no use in fewer than none, and none in hundreds."""
    by_default = Settings().intake_processes
    monkeypatch.setenv("FLEETRIDGE_SERVER_INTAKE_PROCESSES", "0")

    assert (by_default, Settings().intake_processes, Settings(intake_processes=64).intake_processes) == (2, 0, 64)
    for unusable in (-1, 65):
        with pytest.raises(ValidationError):
            Settings(intake_processes=unusable)


def test_gpus_are_judged_in_a_process_of_its_own_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny machine may have no room for it."""
    by_default = Settings().evaluation_process
    monkeypatch.setenv("FLEETRIDGE_SERVER_EVALUATION_PROCESS", "0")

    assert (by_default, Settings().evaluation_process) == (True, False)
