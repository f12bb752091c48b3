"""
What ends a command, in a sentence.

It knows every error that a command may end with, and so imports what raises them: it is asked once there is one.
"""

from dataclasses import dataclass

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

_FAILURES = (
    SchemaError, ServedAlreadyError, StartError, LostRaceError, PostingError, BackupError, CopyError, MonthsBusyError,
    RightsError,
)  # fmt: skip
_MISUSES = (
    SettingError, DatabaseUrlError, ListenError, HeaderError, UnknownDeviceError, PlanError, AddressError, WebhookError,
    TokenNameError, TokenUseError, UnknownTokenError, UnknownRevisionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a command ended, in a sentence with the remedy; by `is_misuse` it was called wrongly, rather than failed."""

    sentence: str
    is_misuse: bool


def failure_of(error: Exception, database_url: str | None) -> Failure | None:
    """What an error means to whoever gave a command (on a database, if known); None where it is a fault of our own."""
    if isinstance(error, _MISUSES):
        return Failure(str(error), is_misuse=True)
    if isinstance(error, _FAILURES):
        return Failure(str(error), is_misuse=False)
    if isinstance(error, OSError):
        return Failure(f"cannot open {error.filename}: {error.strerror}", is_misuse=True)
    if isinstance(error, DBAPIError) and database_url is not None:
        reason = as_printable(" ".join(str(error.orig).split()))
        sentence = (
            f"cannot use the database {shown_url(database_url)}: {reason}; see whether it runs and may be written"
        )
        return Failure(sentence, is_misuse=False)
    return None
