"""A server in a process of its own, whose whole output is looked through for what was told to it in confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import make_url

from fleetridge_server.auth.tokens import new_token
from fleetridge_server.db.database import open_database
from support.patience import patient_client
from support.server_process import server_process
from support.tokens import bearer, make_token

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from support.databases import Databases

pytestmark = pytest.mark.both_databases


def test_no_token_and_no_password_gets_into_the_log(
    databases: Databases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In headers, addresses, ids and bodies, good and bad, and while the database is broken."""
    url = databases.create(migrated=True)
    database = open_database(url)
    good, unknown = make_token(database, "admin"), new_token()
    key_file, log = tmp_path / "key", tmp_path / "log"
    key_file.write_text("hunter2-hunter2-hunter2-hunter2-hunter2")
    monkeypatch.setenv("FLEETRIDGE_SERVER_WEBHOOK_URL", "https://hooks.example/hunter3")
    monkeypatch.setenv("FLEETRIDGE_SERVER_WEBHOOK_SECRET_FILE", str(key_file))
    with log.open("w") as stderr, server_process(url, stderr=stderr) as server:
        address = server.address()
        with patient_client(address) as client:
            for token in (good, unknown, good[:-1]):
                client.get("/devices", headers=bearer(token))
                client.get(f"/devices?token={token}")
                client.get(f"/gpus/{token}", headers=bearer(good))
                client.get(address.replace("://", f"://user:{token}@") + "/devices")
                client.get("/devices", headers={"X-Request-ID": token, **bearer(unknown)})
                client.post("/reports", content=token, headers=bearer(good))
                client.get("/devices", headers=[("Authorization", f"Bearer {token}")] * 2)
            with database.writing() as session:
                session.connection().exec_driver_sql("ALTER TABLE roofs RENAME TO gone")
                session.connection().exec_driver_sql("ALTER TABLE devices RENAME TO gone_too")
            broken = client.get("/devices", headers=bearer(good))
        server.stop()
        printed = server.process.stdout.read() if server.process.stdout else ""
    database.close()
    databases.drop(url)

    written = log.read_text() + printed
    assert broken.status_code in {500, 503}
    assert "refused token_unknown from 127.0.0.1" in written
    secrets = [good, unknown, good[:-1], "hunter2", "hunter3", make_url(url).password]
    assert [secret for secret in secrets if secret and secret in written] == []
