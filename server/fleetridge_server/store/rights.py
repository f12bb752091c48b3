"""What the server's user may do in PostgreSQL: all rows it must be able to read and write, tables it should own."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, text

from fleetridge_server.store.all_tables import REVISION_TABLE
from fleetridge_server.store.document_months import MONTHS_AHEAD

_CLOSED_TABLES = text("""
    SELECT relname FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND NOT (has_table_privilege(oid, 'SELECT') AND (relname = :revisions OR has_table_privilege(oid, 'INSERT')
    AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')))
    ORDER BY relname
""")

_CLOSED_SEQUENCES = text("""
    SELECT relname FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace
    AND CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') END
    ORDER BY relname
""")

_FOREIGN_TABLES = text("""
    SELECT EXISTS (
        SELECT FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND NOT pg_has_role(relowner, 'USAGE')
    )
""")


class RightsError(RuntimeError):
    """The server's user may not do in the database what a server does; the message says what to grant."""


def check_rights(engine: Engine) -> None:
    """
    Make sure that the server's user may read and write every table; on SQLite the file's own rights decide.

    Raises:
        RightsError: it may not.
    """
    if engine.dialect.name != "postgresql":
        return
    with engine.connect() as connection:
        closed = connection.scalars(_CLOSED_TABLES, {"revisions": REVISION_TABLE}).all()
        sequences = connection.scalars(_CLOSED_SEQUENCES).all()
        if closed or sequences:
            raise RightsError(_lacking([*closed, *sequences], *_user_and_schema(connection)))


def told_of_owner(engine: Engine) -> str | None:
    """What the server's user cannot do for want of owning the tables, and the remedy; None where it can."""
    if engine.dialect.name != "postgresql":
        return None
    with engine.connect() as connection:
        if not connection.scalar(_FOREIGN_TABLES):
            return None
        user, _schema = _user_and_schema(connection)
    return (
        f"the database's user {user!r} does not own the tables: this server can neither make the tables of coming "
        "months nor drop old ones; as their owner run `fleetridge-server migrate` every month, which makes "
        f"{MONTHS_AHEAD} ahead, and `fleetridge-server retention --once` where documents shall go"
    )


def _user_and_schema(connection: Connection) -> tuple[str, str]:
    user, schema = connection.execute(text("SELECT current_user, current_schema()")).one()
    return str(user), str(schema)


def _lacking(closed: list[str], user: str, schema: str) -> str:
    return (
        f"the database's user {user!r} may not use {', '.join(closed)}; let their owner run "
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO "{user}"; '
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO "{user}"'
    )
