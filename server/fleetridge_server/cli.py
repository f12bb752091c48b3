"""
The command `fleetridge-server`.

Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import fleetridge
from fleetridge.report.origin import DEFAULT_CLUSTER
from fleetridge_server.commands.evaluate import add_evaluate
from fleetridge_server.commands.inventory import add_inventory
from fleetridge_server.commands.maintenance import add_keeping
from fleetridge_server.commands.simulate import add_simulate
from fleetridge_server.commands.token import add_token_command
from fleetridge_server.csv_import.lines import COLUMNS
from fleetridge_server.telemetry.logs import LogFormat, is_logged_as_json, logs_to

if TYPE_CHECKING:
    from fleetridge_server.csv_import.lines import BadRow
    from fleetridge_server.csv_import.reports import Tally
    from fleetridge_server.settings import Settings


DONE, FAILED, USAGE = 0, 1, 2


_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = _parser().parse_args(arguments)
    with logs_to(sys.stderr, log_format=_log_format(options), environ=os.environ):
        return _carried_out(options)


def _log_format(options: argparse.Namespace) -> LogFormat:
    """As the option says, else the variable; a word that is none is refused with the other settings."""
    named = getattr(options, "log_format", None) or os.environ.get("FLEETRIDGE_LOG_FORMAT")
    return next((known for known in get_args(LogFormat) if known == named), "auto")


def _carried_out(options: argparse.Namespace) -> int:
    database_url: str | None = None
    try:
        settings = _settings(options)
        database_url = settings.database_url
        code: int = options.command(options, settings)
        sys.stdout.flush()  # here, where it is known what to do if nobody reads it
    except BrokenPipeError:
        # Whoever read what was printed has gone; Python would say so once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        from fleetridge_server.commands.failures import failure_of

        failure = failure_of(error, database_url)
        if failure is None:
            raise
        return _say(failure.sentence, USAGE if failure.is_misuse else FAILED)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fleetridge-server", description="Keeps and compares rooflines of GPUs.")
    parser.add_argument("--version", action="version", version=f"fleetridge-server {fleetridge.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument(
        "--database-url", metavar="URL", help="sqlite:///FILE or postgresql://… (default: DATABASE_URL)"
    )

    serving = commands.add_parser("serve", parents=[database], help="answer agents and people over HTTP")
    serving.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    serving.add_argument("--port", type=int, help="port to listen on, 0 for any that is free (default: 8000)")
    serving.add_argument("--migrate", action="store_true", help="bring the database up to date first")
    serving.add_argument(
        "--trust-network",
        action="store_true",
        default=None,
        help="listen beyond this machine without any token, although everyone there may read and write",
    )
    serving.add_argument(
        "--log-format",
        choices=get_args(LogFormat),
        help="logs for people (text) or for programs (json, one object a line); auto is json in a pod without a "
        "terminal (default: auto)",
    )
    serving.set_defaults(command=_serve)

    migrating = commands.add_parser("migrate", parents=[database], help="bring the database up to date")
    migrating.add_argument(
        "--to",
        metavar="REVISION",
        help="bring it to this schema instead of the newest; what an older one has no place for is lost",
    )
    migrating.set_defaults(command=_migrate)

    importing = commands.add_parser(
        "import",
        parents=[database],
        help="take measurements from a CSV file",
        description=(
            f"Takes measurements from a CSV file in UTF-8 with a header, one on each line. Columns, in any order: "
            f"{', '.join(COLUMNS)}. Other columns are kept as text, cut after 255 characters. Times are ISO 8601."
        ),
    )
    importing.add_argument("file", type=Path, metavar="FILE")
    importing.add_argument(
        "--cluster", type=_cluster, default=DEFAULT_CLUSTER, help="cluster of the gpus (default: %(default)s)"
    )
    importing.set_defaults(command=_import)

    add_evaluate(commands, [database])
    add_inventory(commands, database=database, cluster=_cluster)
    add_token_command(commands, database=database, cluster=_cluster)
    add_simulate(commands)
    add_keeping(commands, database)
    return parser


def _cluster(name: str) -> str:
    from pydantic import ValidationError

    from fleetridge.report.origin import Node
    from fleetridge_server.problems import problem_of

    try:
        return Node(cluster=name).cluster
    except ValidationError as error:
        raise argparse.ArgumentTypeError(problem_of(error.errors()[0])) from error


def _settings(options: argparse.Namespace) -> Settings:
    from pydantic import ValidationError

    from fleetridge_server.settings import SettingError, Settings

    given = {name: value for name, value in vars(options).items() if name in Settings.model_fields}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise SettingError(f"a setting cannot be used: {'; '.join(faults)}") from error


def _serve(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.db import schema
    from fleetridge_server.db.locks import sole_server
    from fleetridge_server.serve import require_safe_host, serve

    with sole_server(settings.database_url):
        if options.migrate:
            schema.migrate(settings.database_url)
        _require_schema(settings)
        _require_rights(settings)
        require_safe_host(settings, has_token=_has_token(settings))
        serve(settings, on_ready=lambda address: print(f"fleetridge-server listens on {address}", flush=True))
    return DONE


def _migrate(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.db import schema
    from fleetridge_server.db.database import shown_url

    if options.to is None:
        schema.migrate(settings.database_url)
        print(f"{shown_url(settings.database_url)} is up to date")
    else:
        schema.move(settings.database_url, options.to)
        print(f"{shown_url(settings.database_url)} has schema {options.to}")
    return DONE


def _import(options: argparse.Namespace, settings: Settings) -> int:
    from sqlalchemy.exc import DBAPIError

    from fleetridge_server.csv_import.reports import Import
    from fleetridge_server.db.database import open_database
    from fleetridge_server.intake.store import LostRaceError

    _require_schema(settings)
    database = open_database(settings.database_url)
    job = Import(database, options.cluster, on_bad=_say_bad)
    try:
        # Bytes that are not UTF-8 become surrogates, which make their own row a bad one and no other.
        with options.file.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
            job.run(lines)
        database.analyze()
    except (DBAPIError, LostRaceError):
        print(f"stopped: {_told(job.tally)}; import the file again, nothing counts twice")
        raise
    finally:
        database.close()
    print(_told(job.tally))
    return FAILED if job.tally.bad else DONE


def _told(tally: Tally) -> str:
    return (
        f"{tally.rows} rows read: {tally.created} created, {tally.repeated} repeated in the file, "
        f"{tally.already_stored} already stored, {tally.bad} bad"
    )


def _has_token(settings: Settings) -> bool:
    from fleetridge_server.auth.tokens import is_any_token
    from fleetridge_server.db.database import open_database

    database = open_database(settings.database_url)
    try:
        with database.reading() as session:
            return is_any_token(session)
    finally:
        database.close()


def _require_schema(settings: Settings) -> None:
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_schema

    database = open_database(settings.database_url)
    try:
        check_schema(database.engine)
    finally:
        database.close()


def _require_rights(settings: Settings) -> None:
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_rights, ownership_warning

    database = open_database(settings.database_url)
    try:
        check_rights(database.engine)
        lacking = ownership_warning(database.engine)
    finally:
        database.close()
    if lacking is not None:
        _log.warning("%s", lacking)


def _say_bad(row: BadRow) -> None:
    for error in row.errors:
        print(f"line {row.line}: {f'{error.field}: ' if error.field else ''}{error.problem}", file=sys.stderr)


def _say(sentence: str, code: int) -> int:
    if is_logged_as_json():
        _log.error("%s", sentence)
    else:
        print(f"fleetridge-server: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
