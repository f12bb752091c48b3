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
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import fleetridge
from fleetridge.report.identity import DEFAULT_CLUSTER
from fleetridge_server.commands.arguments import cluster
from fleetridge_server.commands.evaluate import add_evaluate
from fleetridge_server.commands.inventory import add_inventory
from fleetridge_server.commands.maintenance import add_maintenance
from fleetridge_server.commands.simulate import add_simulate
from fleetridge_server.commands.token import add_token
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
        "--cluster", type=cluster, default=DEFAULT_CLUSTER, help="cluster of the gpus (default: %(default)s)"
    )
    importing.set_defaults(command=_import)

    add_evaluate(commands, database)
    add_inventory(commands, database)
    add_token(commands, database)
    add_simulate(commands)
    add_maintenance(commands, database)
    return parser


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
        require_safe_host(settings, has_token=_needs_token(settings))
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
    from fleetridge_server.db.schema import check_schema
    from fleetridge_server.intake.store import LostRaceError

    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        job = Import(database, options.cluster, on_bad=_say_bad)
        try:
            # Bytes that are not UTF-8 become surrogates, which make their own row a bad one and no other.
            with options.file.open(encoding="utf-8-sig", errors="surrogateescape") as lines:
                job.run(lines)
            database.analyze()
        except (DBAPIError, LostRaceError):
            print(f"stopped: {_counts(job.tally)}; import the file again, nothing counts twice")
            raise
    print(_counts(job.tally))
    return FAILED if job.tally.bad else DONE


def _counts(tally: Tally) -> str:
    return (
        f"{tally.rows} rows read: {tally.created} created, {tally.repeated} repeated in the file, "
        f"{tally.already_stored} already stored, {tally.bad} bad"
    )


def _needs_token(settings: Settings) -> bool:
    """Whether calls need a token, as there ever was one; before that, whether the database is fit to be served."""
    from fleetridge_server.auth.tokens import is_any_token
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_rights, check_schema, ownership_warning

    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        check_rights(database.engine)
        lacking = ownership_warning(database.engine)
        if lacking is not None:
            _log.warning("%s", lacking)
        with database.reading() as session:
            return is_any_token(session)


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
