"""
Settings of a server, from its environment.

Few on purpose; each can also be given on the command line, which wins.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fleetridge_server.db.database import DEFAULT_URL
from fleetridge_server.telemetry.logs import LogFormat

# Time alone makes gpus stale and ends marks.
EVALUATE_EVERY = timedelta(hours=1)


ENV_PREFIX = "FLEETRIDGE_SERVER_"


def _seconds_or_as_it_is(value: object) -> object:
    """A plain number in a variable is one of seconds; pydantic takes it from numbers alone."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


class SettingError(ValueError):
    """A setting cannot be used; the message says which and why."""


Duration = Annotated[timedelta, BeforeValidator(_seconds_or_as_it_is)]
"""A time between, written as seconds or in ISO 8601."""


class Settings(BaseSettings):
    """
    Settings of a server, each described where it stands.

    Its variable is `FLEETRIDGE_SERVER_` and its name in capitals, but for `DATABASE_URL` and `FLEETRIDGE_LOG_FORMAT`.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, populate_by_name=True)

    database_url: str = Field(
        DEFAULT_URL,
        validation_alias="database_url",  # without the prefix: platforms that lend databases name it so
        repr=False,  # it may hold a password
        description="Where everything is kept: a SQLite file or a PostgreSQL database.",
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 for any that is free.")
    trust_network: bool = Field(
        default=False, description="Listen beyond this machine although everyone there may read and write."
    )
    calls_per_s: float = Field(
        # Twice the reports that two cores store, and far below what one program that polls in a loop makes.
        100.0,
        ge=0,
        allow_inf_nan=False,
        description="Calls that one token, or without tokens one address, may make each second in the long run; 0 for "
        "no limit.",
    )
    calls_at_once: int = Field(
        # A cluster of 160,000 gpus with eight a node and one token, all of whose timers fire in the same second.
        20_000,
        ge=1,
        description="Calls that it may make at once after a pause.",
    )
    intake_processes: int = Field(
        # One stores while the other examines; SQLite has room for no more, and on PostgreSQL there can be more servers.
        2,
        ge=0,
        le=64,
        description="Processes of their own that take in reports, started when they are needed; 0 for none.",
    )
    log_format: LogFormat = Field(
        "auto",
        validation_alias="fleetridge_log_format",  # one variable for agent and server
        description="Logs for people (text) or for programs (json); auto is json in a pod without a terminal.",
    )
    drain: Duration | None = Field(
        None,
        ge=timedelta(0),
        le=timedelta(minutes=1),
        description="How long the server goes on after SIGTERM, no longer ready, so that proxies send elsewhere; by "
        "default 5 s, and not at all where only this machine is served.",
    )
    evaluate: bool = Field(
        default=True,
        description="Say of gpus how they do, soon after reports arrive; of several servers on "
        "one database one does so at a time.",
    )
    evaluation_process: bool = Field(
        default=True,
        description="Say so in a process of its own, started when it is needed; else in a thread, and pages wait.",
    )
    evaluate_every: Duration = Field(
        EVALUATE_EVERY,
        ge=timedelta(minutes=1),
        description="Longest time between two evaluations of a device, as in PT1H.",
    )
    measured_every: Duration | None = Field(
        None,
        gt=timedelta(0),
        description="How often each gpu should be measured, as in P1D; one that was not for three times as long, and "
        "three days at least, is stale. By default nobody says.",
    )
    metrics_of_every_gpu: bool = Field(
        default=False, description="Metrics of each gpu, 5,000 at most, not only of those that are not ok."
    )
    documents_days: int | None = Field(
        None,
        ge=1,
        le=36500,
        description="Days for which reports are kept as they were sent, for good by default; what they say stays.",
    )
    public_url: str | None = Field(None, description="Address at which people reach the server, for links in messages.")
    webhook_url: str | None = Field(
        None,
        repr=False,  # its path may be a secret
        description="Address that receives alerts, in the shape of Alertmanager's webhook.",
    )
    webhook_secret_file: Path | None = Field(None, description="File with the key that messages are signed with.")
    webhook_allow: str = Field(
        "",
        description="Receivers that are allowed although they are not on the public internet: names, addresses and "
        "ranges between commas.",
    )

    @property
    def url_for_people(self) -> str:
        """Address at which people reach the server, without a slash at the end, as far as it knows."""
        return (self.public_url or f"http://{self.host}:{self.port}").rstrip("/")
