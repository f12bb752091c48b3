"""
The schema of a database: its tables, its migrations, and the rights that a server needs.

Migrations lie in `migrations_folder`. Several servers may start at once on one database: they migrate one after the
other, and all but the first find nothing left to do. Checks say whether a database has the schema of this version and
whether the server's user may use it.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from fleetridge_server.db import access_tables, tables, verdict_tables
from fleetridge_server.db.database import create_database_engine
from fleetridge_server.db.document_months import MONTHS_AHEAD, make_months_within, months_ahead

_DECLARED_IN = (
    tables.Report,
    verdict_tables.Alert,
    access_tables.Notification,
    access_tables.StoredToken,
    access_tables.StoredSession,
)

METADATA = tables.Base.metadata
"""Every table that the migrations make, except those of single months of documents."""

assert all(declared.metadata is METADATA for declared in _DECLARED_IN)  # noqa: S101 # else one would be left out

REVISION_TABLE = "schema_revision"
"""Table in which Alembic notes the revision; of our own name, since a database may be shared with others who use it."""

_MONTH = re.compile(r"documents_\d{4}_\d{2}")


def is_month(table: str) -> bool:
    """Whether a table's name is that of a month of documents, which no model declares."""
    return _MONTH.fullmatch(table) is not None


REMEDY = "fleetridge-server migrate"

# Table that is there from the first to the last moment of a copy into a database.
UNFINISHED_COPY = "unfinished_copy"

# What a database has that was made before version 0.1.0, whose migrations nobody has any more.
_TABLES_OF_BEFORE = frozenset({"alembic_version", "gpus"})

# Any number that nothing else locks in this database: the first bytes of the word "fleetridge".
_MIGRATION_LOCK = int.from_bytes(b"fleetrid", "big")

# A migration that waits longer for a table gives up, rather than hold up every request behind it.
_POSTGRES_LOCK_TIMEOUT = "15s"


class SchemaError(RuntimeError):
    """A database does not have the schema that this server needs; the message names the remedy."""


class UnknownRevisionError(ValueError):
    """There is no such revision; the message names those that there are."""


def migrations_folder() -> Path:
    """
    Folder of the migrations: beside the package in a wheel, else at the root of the checkout.

    Raises:
        SchemaError: it is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "migrations", package.parents[1] / "migrations"):
        if (folder / "env.py").is_file():
            return folder
    raise SchemaError(f"no migrations beside {package}; install fleetridge[server] anew")


def migrate(database_url: str, revision: str = "head", *, migrations: Path | None = None) -> None:
    """
    Bring a database to a revision (the newest by default), upwards, creating all that is missing.

    Raises:
        DatabaseUrlError: the address cannot be used.
        SchemaError: the database is of a newer server, or from before version 0.1.0.
    """
    with _migrating(database_url, migrations) as (config, connection):
        _refuse_unknown(_revision_of(connection), migrations or migrations_folder())
        _upgrade(config, connection, revision)


def move(database_url: str, revision: str, *, migrations: Path | None = None) -> None:
    """
    Bring a database to a revision, whichever way that is; what an older one has no place for is lost.

    Raises:
        DatabaseUrlError: the address cannot be used.
        UnknownRevisionError: there is no such revision.
        SchemaError: the database is of a newer server, or from before version 0.1.0.
    """
    with _migrating(database_url, migrations) as (config, connection):
        folder = migrations or migrations_folder()
        current, order = _revision_of(connection), _order(folder)
        if revision not in order:
            raise UnknownRevisionError(f"there is no schema {revision!r}; this version knows {', '.join(order)}")
        _refuse_unknown(current, folder)
        if current is not None and order.index(revision) < order.index(current):
            command.downgrade(config, revision)
        else:
            _upgrade(config, connection, revision)


def downgrade(database_url: str, revision: str, *, migrations: Path | None = None) -> None:
    """
    Take a database back to an older revision (`base` for none); what that one has no place for is lost.

    Raises:
        SchemaError: the database is from before version 0.1.0.
    """
    with _migrating(database_url, migrations) as (config, _connection):
        command.downgrade(config, revision)


def check_drift(database_url: str, *, migrations: Path | None = None) -> None:
    """
    Compare the tables of a migrated database with the models.

    Raises:
        alembic.util.AutogenerateDiffsDetected: they differ.
    """
    with _migrating(database_url, migrations) as (config, _connection):
        command.check(config)


def draft_revision(database_url: str, message: str, *, migrations: Path | None = None) -> Path:
    """
    Write the next revision, with what the models have and a migrated database has not, for its author to go over.

    The database is best one of PostgreSQL, whose differences Alembic sees best. Returns the new file.
    """
    with _migrating(database_url, migrations) as (config, _connection):
        number = len(_order(migrations or migrations_folder())) + 1
        script = command.revision(config, message, autogenerate=True, rev_id=f"{number:04}")
    assert isinstance(script, Script)  # noqa: S101 # a list only where there are branches
    return Path(script.path)


def current_revision(engine: Engine) -> str | None:
    """
    Revision of a database, None where it was never migrated.

    Raises:
        SchemaError: it is from before version 0.1.0.
    """
    with engine.connect() as connection:
        return _revision_of(connection)


def check_schema(engine: Engine) -> None:
    """
    Make sure that a database has this server's schema, and all that was to be copied into it.

    Raises:
        SchemaError: it has none, an older or an unknown one, or is half a copy.
    """
    check_revision(engine)
    if inspect(engine).has_table(UNFINISHED_COPY):
        raise SchemaError(
            "a copy into this database was interrupted; run the same `fleetridge-server copy` again, which takes it up"
        )


def check_revision(engine: Engine) -> None:
    """
    Make sure that a database has this server's schema, whatever its rows are.

    Raises:
        SchemaError: it has none, an older or an unknown one.
    """
    found, needed = current_revision(engine), _head(migrations_folder())
    _refuse_unknown(found, migrations_folder())
    if found != needed:
        state = "no tables yet" if found is None else f"schema {found}, this server needs {needed}"
        raise SchemaError(f"the database has {state}; run `{REMEDY}`")


def refuse_unreleased(tables: Iterable[str]) -> None:
    """
    Refuse a database that was made before the first release, by the names of its tables.

    Raises:
        SchemaError: it was.
    """
    names = set(tables)
    if names >= _TABLES_OF_BEFORE and REVISION_TABLE not in names:
        raise SchemaError(
            "the database was made before version 0.1.0, and no released version can read it; name a new one in "
            f"DATABASE_URL, run `{REMEDY}`, and post or import the reports again"
        )


@contextmanager
def _migrating(database_url: str, migrations: Path | None) -> Iterator[tuple[Config, Connection]]:
    """All in one transaction that excludes every other migration; SQLite's references are checked at its end."""
    engine = create_database_engine(database_url, foreign_keys=False, statement_timeout_ms=0)
    try:
        with engine.execution_options(fleetridge_writes=True).begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
                connection.execute(text(f"SET LOCAL lock_timeout = '{_POSTGRES_LOCK_TIMEOUT}'"))
            config = _config(migrations or migrations_folder())
            config.attributes["connection"] = connection
            _revision_of(connection)  # refuses what was made before the first release
            yield config, connection
            if engine.dialect.name == "sqlite":
                _refuse_broken_references(connection)
    finally:
        engine.dispose()


def _upgrade(config: Config, connection: Connection, revision: str) -> None:
    command.upgrade(config, revision)
    if connection.dialect.name == "postgresql":
        make_months_within(connection, months_ahead(datetime.now(timezone.utc)))


def _config(migrations: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    return config


def _refuse_unknown(revision: str | None, migrations: Path) -> None:
    if revision is not None and revision not in _order(migrations):
        raise SchemaError(
            f"the database has schema {revision}, which this version does not know: a newer server made it; "
            "run that version or a newer one"
        )


@cache
def _order(migrations: Path) -> tuple[str, ...]:
    """All revisions, the oldest first."""
    scripts = ScriptDirectory.from_config(_config(migrations)).walk_revisions()
    return tuple(reversed([script.revision for script in scripts]))


@cache
def _head(migrations: Path) -> str | None:
    return ScriptDirectory.from_config(_config(migrations)).get_current_head()


def _refuse_broken_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(1)
    if broken:
        raise SchemaError(
            f"the migration would leave rows of {broken[0][0]} without what they refer to; nothing changed"
        )


def _revision_of(connection: Connection) -> str | None:
    context = MigrationContext.configure(connection, opts={"version_table": REVISION_TABLE})
    revision = context.get_current_revision()
    if revision is None:
        refuse_unreleased(inspect(connection).get_table_names())
    return revision


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


def ownership_warning(engine: Engine) -> str | None:
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
