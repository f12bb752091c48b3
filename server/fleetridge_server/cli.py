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
from typing import get_args

from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

import fleetridge
from fleetridge.report.identity import DEFAULT_CLUSTER, Node
from fleetridge.strict_json import as_printable
from fleetridge_server.access.cli import TokenUseError, add_token_command
from fleetridge_server.access.log_lines import LogFormat, is_logged_as_json, logs_to
from fleetridge_server.evaluating.cli import UnknownDeviceError, add_evaluate
from fleetridge_server.expecting.cli import add_inventory
from fleetridge_server.importing.csv_import import Import, Tally
from fleetridge_server.importing.csv_lines import BadRow, HeaderError
from fleetridge_server.importing.csv_rows import COLUMNS
from fleetridge_server.keeping.backup import BackupError
from fleetridge_server.keeping.cli import add_keeping
from fleetridge_server.keeping.copying import CopyError
from fleetridge_server.notifying.target import WebhookError
from fleetridge_server.problems import problem_of
from fleetridge_server.serving import ListenError, StartError, require_safe_host, serve
from fleetridge_server.settings import Settings
from fleetridge_server.simulating.cli import add_simulate
from fleetridge_server.simulating.plan import PlanError
from fleetridge_server.simulating.posting import AddressError, PostingError
from fleetridge_server.store import schema
from fleetridge_server.store.database import DatabaseUrlError, open_database, shown_url
from fleetridge_server.store.document_months import MonthsBusyError
from fleetridge_server.store.file_lock import ServedAlreadyError, sole_server
from fleetridge_server.store.rights import RightsError, check_rights, told_of_owner
from fleetridge_server.store.schema import SchemaError, UnknownRevisionError, check_schema
from fleetridge_server.store.tokens import TokenNameError, UnknownTokenError, is_any_token
from fleetridge_server.store.writing import LostRaceError

DONE, FAILED, USAGE = 0, 1, 2

_FAILURES = (
    SchemaError, ServedAlreadyError, StartError, LostRaceError, PostingError, BackupError, CopyError, MonthsBusyError,
    RightsError,
)  # fmt: skip
_MISUSES = (
    DatabaseUrlError, ListenError, HeaderError, UnknownDeviceError, PlanError, AddressError, WebhookError,
    TokenNameError, TokenUseError, UnknownTokenError, UnknownRevisionError,
)  # fmt: skip


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
    try:
        settings = _settings(options)
        code: int = options.command(options, settings)
        sys.stdout.flush()  # here, where it is known what to do if nobody reads it
    except _MISUSES as error:
        return _say(str(error), USAGE)
    except _FAILURES as error:
        return _say(str(error), FAILED)
    except BrokenPipeError:
        # Whoever read what was printed has gone; Python would say so once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _say(f"cannot open {error.filename}: {error.strerror}", USAGE)
    except DBAPIError as error:
        return _say(_database_trouble(error, settings), FAILED)
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
    try:
        return Node(cluster=name).cluster
    except ValidationError as error:
        raise argparse.ArgumentTypeError(problem_of(error.errors()[0])) from error


def _settings(options: argparse.Namespace) -> Settings:
    given = {name: value for name, value in vars(options).items() if name in Settings.model_fields}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise ListenError(f"a setting cannot be used: {'; '.join(faults)}") from error


def _serve(options: argparse.Namespace, settings: Settings) -> int:
    with sole_server(settings.database_url):
        if options.migrate:
            schema.migrate(settings.database_url)
        _require_schema(settings)
        _require_rights(settings)
        require_safe_host(settings, has_token=_has_token(settings))
        serve(settings, on_ready=lambda address: print(f"fleetridge-server listens on {address}", flush=True))
    return DONE


def _migrate(options: argparse.Namespace, settings: Settings) -> int:
    if options.to is None:
        schema.migrate(settings.database_url)
        print(f"{shown_url(settings.database_url)} is up to date")
    else:
        schema.move(settings.database_url, options.to)
        print(f"{shown_url(settings.database_url)} has schema {options.to}")
    return DONE


def _import(options: argparse.Namespace, settings: Settings) -> int:
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
    database = open_database(settings.database_url)
    try:
        with database.reading() as session:
            return is_any_token(session)
    finally:
        database.close()


def _require_schema(settings: Settings) -> None:
    database = open_database(settings.database_url)
    try:
        check_schema(database.engine)
    finally:
        database.close()


def _require_rights(settings: Settings) -> None:
    database = open_database(settings.database_url)
    try:
        check_rights(database.engine)
        lacking = told_of_owner(database.engine)
    finally:
        database.close()
    if lacking is not None:
        _log.warning("%s", lacking)


def _say_bad(row: BadRow) -> None:
    for error in row.errors:
        print(f"line {row.line}: {f'{error.field}: ' if error.field else ''}{error.problem}", file=sys.stderr)


def _database_trouble(error: DBAPIError, settings: Settings) -> str:
    reason = as_printable(" ".join(str(error.orig).split()))
    return (
        f"cannot use the database {shown_url(settings.database_url)}: {reason}; see whether it runs and may be written"
    )


def _say(sentence: str, code: int) -> int:
    if is_logged_as_json():
        _log.error("%s", sentence)
    else:
        print(f"fleetridge-server: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
