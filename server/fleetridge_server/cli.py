"""
The command `fleetridge-server`.

Answers go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import logging
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

from fleetridge_server.commands.arguments import parser
from fleetridge_server.telemetry.logs import LogFormat, is_logged_as_json, logs_to

if TYPE_CHECKING:
    from fleetridge_server.settings import Settings

DONE, FAILED, USAGE = 0, 1, 2

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    options = parser().parse_args(arguments)
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
        code: int = pkgutil.resolve_name(options.command)(options, settings)
        sys.stdout.flush()  # here, where it is known what to do if nobody reads it
    except BrokenPipeError:
        # Whoever read what was printed has gone; Python would say so once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        failure = _failure_of(error, database_url)
        if failure is None:
            raise
        return _say(*failure)
    return code


def _settings(options: argparse.Namespace) -> Settings:
    from pydantic import ValidationError

    from fleetridge_server.settings import SettingError, Settings

    given = {name: value for name, value in vars(options).items() if name in Settings.model_fields}
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise SettingError(f"a setting cannot be used: {'; '.join(faults)}") from error


def _say(sentence: str, code: int) -> int:
    if is_logged_as_json():
        _log.error("%s", sentence)
    else:
        print(f"fleetridge-server: {sentence}", file=sys.stderr)
    return code


def _failure_of(error: Exception, database_url: str | None) -> tuple[str, int] | None:
    """
    Why a command ended, in a sentence with the remedy, and its exit code; None for a fault of our own.

    It knows every error that a command may end with, and so imports what raises them: once there is one.
    """
    from sqlalchemy.exc import DBAPIError

    from fleetridge.strict_json import as_printable
    from fleetridge_server.auth.tokens import TokenNameError, UnknownTokenError
    from fleetridge_server.commands.evaluate import UnknownDeviceError
    from fleetridge_server.commands.token import TokenUseError
    from fleetridge_server.csv_import.lines import HeaderError
    from fleetridge_server.db.database import DatabaseUrlError, shown_url
    from fleetridge_server.db.document_months import MonthsBusyError
    from fleetridge_server.db.locks import ServedAlreadyError
    from fleetridge_server.db.schema import RightsError, SchemaError, UnknownRevisionError
    from fleetridge_server.intake.store import LostRaceError
    from fleetridge_server.notify.webhook import WebhookError
    from fleetridge_server.ops.backup import BackupError
    from fleetridge_server.ops.copy import CopyError
    from fleetridge_server.serve import ListenError, StartError
    from fleetridge_server.settings import SettingError
    from fleetridge_server.simulate.plan import PlanError
    from fleetridge_server.simulate.posting import AddressError, PostingError

    failures = (
        SchemaError, ServedAlreadyError, StartError, LostRaceError, PostingError, BackupError, CopyError,
        MonthsBusyError, RightsError,
    )  # fmt: skip
    misuses = (
        SettingError, DatabaseUrlError, ListenError, HeaderError, UnknownDeviceError, PlanError, AddressError,
        WebhookError, TokenNameError, TokenUseError, UnknownTokenError, UnknownRevisionError,
    )  # fmt: skip
    if isinstance(error, misuses):
        return str(error), USAGE
    if isinstance(error, failures):
        return str(error), FAILED
    if isinstance(error, OSError):
        return f"cannot open {error.filename}: {error.strerror}", USAGE
    if isinstance(error, DBAPIError) and database_url is not None:
        reason = as_printable(" ".join(str(error.orig).split()))
        sentence = (
            f"cannot use the database {shown_url(database_url)}: {reason}; see whether it runs and may be written"
        )
        return sentence, FAILED
    return None


if __name__ == "__main__":
    sys.exit(main())
