from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from fleetridge_server import cli
from fleetridge_server.auth import token_cache
from fleetridge_server.auth.tokens import is_token, sha256_of
from fleetridge_server.commands import arguments
from fleetridge_server.db.access_tables import StoredToken
from support.app_client import app_client
from support.reports import make_report
from support.tokens import bearer

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

pytestmark = pytest.mark.both_databases


class Command:
    """The command on one database."""

    def __init__(self, database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = ["--database-url", database_url]
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        code = cli.main(["token", *arguments, *self._url])
        out, err = self._capsys.readouterr()
        return code, out.strip(), err.strip()

    def misused(self, *arguments: str) -> str:
        """Standard error of a call that means nothing."""
        with pytest.raises(SystemExit) as ended:
            cli.main(["token", *arguments, *self._url])
        assert ended.value.code == 2
        return self._capsys.readouterr().err


@pytest.fixture
def token(database_url: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command on a database without a token, on SQLite and on PostgreSQL."""
    return Command(database_url, capsys)


@pytest.fixture(autouse=True)
def _asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)


def test_a_token_is_shown_once_and_stored_as_its_hash(token: Command, database: Database) -> None:
    """Alone on standard output, so that it can go into a file."""
    code, text, told = token("create", "agents", "--scope", "ingest", "--cluster", "east", "--expires", "90d")

    assert code == 0
    assert is_token(text)
    assert text not in told
    assert "cluster 'east'" in told
    with database.reading() as session:
        stored = session.scalars(select(StoredToken)).one()
    assert stored.sha256 == sha256_of(text)
    assert (stored.name, stored.scopes, stored.cluster, stored.node) == ("agents", "ingest", "east", None)
    assert stored.expires_at == stored.created_at + timedelta(days=90)
    assert text not in token("list")[1]
    assert text not in repr(vars(stored))


def test_the_list_tells_state_place_and_times(token: Command) -> None:
    """Of tokens that ended, too."""
    assert token("list") == (0, "no tokens; nobody needs one", "")
    token("create", "a", "--scope", "ingest", "--scope", "read", "--cluster", "east", "--node", "n1")
    token("create", "b", "--scope", "read")
    token("revoke", "2")
    token("quarantine", "1")

    listed = token("list")[1].splitlines()

    assert listed[0].split() == [
        "id",
        "name",
        "scopes",
        "may",
        "write",
        "about",
        "state",
        "created",
        "ends",
        "last",
        "used",
    ]
    assert "node 'n1' of cluster 'east'" in listed[2]
    assert "ingest read" in listed[2]
    assert "holds, quarantined" in listed[2]
    assert "nothing" in listed[3]
    assert "revoked" in listed[3]


def test_a_name_is_given_once(token: Command) -> None:
    """Else nobody knows which to revoke."""
    token("create", "a", "--scope", "read")
    code, out, err = token("create", "a", "--scope", "read")

    assert (code, out) == (2, "")
    assert "choose another name" in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["create", "a"],
        ["create", "a", "--scope", "root"],
        ["create", "", "--scope", "read"],
        ["create", "a\x1b[31m", "--scope", "read"],
        ["create", "x" * 101, "--scope", "read"],
        ["create", "a", "--scope", "read", "--expires", "0d"],
        ["create", "a", "--scope", "read", "--expires", "soon"],
        ["create", "a", "--scope", "read", "--expires", "999999d"],
        ["create", "a", "--scope", "ingest", "--cluster", ""],
        ["revoke"],
        ["revoke", "-1"],
        ["revoke", "0"],
        ["revoke", "٣"],
        ["revoke", "99999999999999999999"],
        ["quarantine", "1", "--since", "yesterday"],
    ],
)
def test_a_call_that_means_nothing_ends_with_2(token: Command, arguments: list[str]) -> None:
    """As is usual."""
    assert "usage" in token.misused(*arguments)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["create", "a", "--scope", "ingest", "--node", "n1"], "--cluster"),
        (["create", "a", "--scope", "read", "--cluster", "east"], "whole fleet"),
        (["revoke", "7"], "token list"),
        (["quarantine", "7"], "token list"),
        (["release", "7"], "token list"),
    ],
)
def test_what_does_not_go_together_is_told_with_the_remedy(token: Command, arguments: list[str], remedy: str) -> None:
    """In a sentence."""
    code, out, err = token(*arguments)

    assert (code, out) == (2, "")
    assert remedy in err


def test_a_database_without_tables_is_told(empty_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything else."""
    code, _, err = Command(empty_database_url, capsys)("list")

    assert code == 1
    assert "fleetridge-server migrate" in err


def test_a_revoked_token_is_refused_and_its_end_stays(token: Command, database: Database, database_url: str) -> None:
    """Revoking again changes nothing."""
    text = token("create", "a", "--scope", "read")[1]
    with app_client(database_url) as client:
        held = client.get("/devices", headers=bearer(text)).status_code
        token("revoke", "1")
        refused = client.get("/devices", headers=bearer(text)).status_code
    with database.reading() as session:
        first = session.scalars(select(StoredToken.revoked_at)).one()
    token("revoke", "1")
    with database.reading() as session:
        assert session.scalars(select(StoredToken.revoked_at)).one() == first
    assert (held, refused) == (200, 401)


def test_a_token_s_reports_leave_every_answer_and_come_back(token: Command, database_url: str) -> None:
    """Gpus, nodes and values; the report itself stays, and says where it is."""
    reader = bearer(token("create", "people", "--scope", "read")[1])
    good = bearer(token("create", "good", "--scope", "ingest")[1])
    bad = bearer(token("create", "bad", "--scope", "ingest")[1])
    trusted, suspect = make_report(), make_report(gpu__uuid="GPU-bad", gpu__pci_bus_id=None, node__name="node-99")
    with app_client(database_url) as client:
        for report, headers in ((trusted, good), (suspect, bad)):
            assert client.post("/reports", json=report, headers=headers).status_code == 201

        def seen() -> tuple[int, int, list[str], bool]:
            pages = [
                client.get(f"/{page}/GPU-bad{rest}", headers=reader)
                for page, rest in (("gpus", ""), ("gpus", "/history"))
            ]
            nodes = client.get("/nodes", headers=reader).json()["nodes"]
            document = client.get(f"/reports/{suspect['report_id']}", headers=reader)
            assert document.json() == suspect
            [device] = client.get("/devices", headers=reader).json()["devices"]
            names = sorted(node["name"] for node in nodes)
            assert {page.status_code for page in pages} <= {200, 404}
            return device["gpus"], pages[0].status_code, names, document.headers.get("fleetridge-quarantined") == "yes"

        before = seen()
        code, told, warned = token("quarantine", "3")
        without = seen()
        again = make_report(gpu__uuid="GPU-new", gpu__pci_bus_id=None)
        posted = client.post("/reports", json=again, headers=bad).status_code
        unknown = client.get("/gpus/GPU-new", headers=reader).status_code
        released = token("release", "3")
        after = seen()

    assert code == 0
    assert "1 reports moved" in told
    assert "token revoke" in warned
    assert before == (2, 200, ["node-01", "node-99"], False)
    assert without == (1, 404, ["node-01"], True)
    assert (posted, unknown) == (201, 404)
    assert "2 reports moved" in released[1]
    assert after == (3, 200, ["node-01", "node-99"], False)


def test_only_what_came_since_a_time_is_taken_out(token: Command, database_url: str) -> None:
    """What came before is trusted."""
    reader = bearer(token("create", "people", "--scope", "read")[1])
    agent = bearer(token("create", "agents", "--scope", "ingest")[1])
    with app_client(database_url) as client:
        client.post("/reports", json=make_report(), headers=agent)
        token("quarantine", "2", "--since", "2999-01-01T00:00:00Z")
        untouched = client.get("/gpus/GPU-00000001", headers=reader).status_code
        token("quarantine", "2", "--since", "2000-01-01")
        taken = client.get("/gpus/GPU-00000001", headers=reader).status_code

    assert (untouched, taken) == (200, 404)


def test_every_action_and_option_is_in_the_page_for_operators() -> None:
    """An option that nobody finds is none."""
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    section = page.partition("\n## Access\n")[2].partition("\n## ")[0]

    [commands] = [part for part in arguments.parser()._actions if isinstance(part, argparse._SubParsersAction)]
    [actions] = [part for part in commands.choices["token"]._actions if isinstance(part, argparse._SubParsersAction)]
    options = {
        option for action in actions.choices.values() for part in action._actions for option in part.option_strings
    }

    assert all(f"`token {name}" in section for name in actions.choices)
    assert all(f"`{option}`" in section for option in options - {"-h", "--help"})
