"""
Settings of a server, from its environment.

Few on purpose; each can also be given on the command line, which wins.
"""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fleetridge_server.store.database import DEFAULT_URL

ENV_PREFIX = "FLEETRIDGE_SERVER_"


class Settings(BaseSettings):
    """
    Settings of a server.

    Attributes:
        database_url: `DATABASE_URL`: where everything is kept.
        host: `FLEETRIDGE_SERVER_HOST`: address to listen on.
        port: `FLEETRIDGE_SERVER_PORT`; 0 for any that is free.
        trust_network: `FLEETRIDGE_SERVER_TRUST_NETWORK`: whether everyone who reaches the address may read and write.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True)

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
