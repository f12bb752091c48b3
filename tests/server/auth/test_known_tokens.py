from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from anyio import CapacityLimiter
from sqlalchemy import event, select, update

from fleetridge_server.auth.token_cache import FRESH_S, KnownTokens, TokenUsage, writing_token_usage
from fleetridge_server.auth.tokens import new_token, note_uses, sha256_of
from fleetridge_server.db.access_tables import StoredToken
from support.tokens import make_token

if TYPE_CHECKING:
    from fleetridge_server.db.database import Database

NOW = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        """Time that the test sets."""
        return self.now_s


class Asked:
    """How many statements a database was sent."""

    def __init__(self, database: Database) -> None:
        self.count = 0
        event.listen(database.engine, "before_cursor_execute", self._note)

    def _note(self, *_: object) -> None:
        self.count += 1


def last_uses(database: Database) -> list[datetime | None]:
    with database.reading() as session:
        return list(session.scalars(select(StoredToken.last_used_at).order_by(StoredToken.id)))


def test_an_end_is_heard_of_within_five_seconds(database: Database) -> None:
    """On every server, as each asks anew."""
    sha256, clock = sha256_of(make_token(database, "read")), Clock()
    servers = [KnownTokens(database, clock) for _ in range(2)]

    async def revoked() -> list[Any]:
        found = []
        for server in servers:
            token = await server.find(sha256)
            assert token is not None
            found.append(token.revoked_at)
        return found

    assert anyio.run(revoked) == [None, None]
    with database.writing() as session:
        session.execute(update(StoredToken).values(revoked_at=NOW))
    clock.now_s += FRESH_S
    assert FRESH_S <= 5
    assert anyio.run(revoked) == [NOW, NOW]


def test_many_requests_of_one_caller_ask_the_database_once(database: Database) -> None:
    """Also those that come at the same moment."""
    sha256 = sha256_of(make_token(database, "read"))
    known, asked = KnownTokens(database, Clock()), Asked(database)

    async def find_often() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(known.find, sha256)

    anyio.run(find_often)

    assert asked.count <= 2
    assert known.has_heard_of(sha256)


def test_a_token_that_is_none_is_not_remembered(database: Database) -> None:
    """Else whoever guesses could fill the memory."""
    known, sha256 = KnownTokens(database, Clock()), sha256_of(new_token())

    assert anyio.run(known.find, sha256) is None
    assert not known.has_heard_of(sha256)


def test_the_first_token_is_heard_of_soon_and_never_forgotten(database: Database) -> None:
    """Whatever becomes of it."""
    clock = Clock()
    known = KnownTokens(database, clock)
    assert not anyio.run(known.is_any)
    make_token(database, "read")
    clock.now_s += FRESH_S

    assert anyio.run(known.is_any)
    with database.writing() as session:
        session.connection().exec_driver_sql("DELETE FROM tokens")
    clock.now_s += 3600
    assert anyio.run(known.is_any)


def test_uses_are_written_together_and_at_the_end(database: Database) -> None:
    """At most once a minute, however many calls there are."""
    for _ in range(2):
        make_token(database, "read")
    asked, pauses = Asked(database), list[float]()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await anyio.sleep_forever()

    async def use() -> None:
        uses = TokenUsage(database, CapacityLimiter(1))
        async with writing_token_usage(uses, pause=pause):
            for second in range(50):
                uses.note(1, NOW + timedelta(seconds=second))
            uses.note(2, NOW)
            await anyio.lowlevel.checkpoint()
            assert last_uses(database) == [None, None]

    anyio.run(use)

    assert last_uses(database) == [NOW + timedelta(seconds=49), NOW]
    assert pauses == [60.0]
    assert asked.count < 10


def test_an_older_use_does_not_take_the_place_of_a_newer_one(database: Database) -> None:
    """Several servers write in any order."""
    make_token(database, "read")
    for at in (NOW, NOW - MINUTE, NOW + MINUTE):
        with database.writing() as session:
            note_uses(session, {1: at})

    assert last_uses(database) == [NOW + MINUTE]


def test_a_database_that_takes_no_uses_gets_them_next_time(database: Database) -> None:
    """And no request fails by it."""
    make_token(database, "read")

    async def write_twice() -> None:
        uses = TokenUsage(database, CapacityLimiter(1))
        uses.note(1, NOW)
        with database.writing() as session:
            session.connection().exec_driver_sql("ALTER TABLE tokens RENAME TO gone")
        await uses.write()
        with database.writing() as session:
            session.connection().exec_driver_sql("ALTER TABLE gone RENAME TO tokens")
        await uses.write()

    anyio.run(write_twice)

    assert last_uses(database) == [NOW]
