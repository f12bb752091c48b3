"""
Several calls that bring reports, stored in one transaction.

A transaction takes some twenty statements however few reports it stores. For each call it is as if it had come alone:
one that cannot be stored takes no other with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from fleetridge_server.store.database import Database
from fleetridge_server.store.trouble import trouble
from fleetridge_server.store.writing import Posted, Stored, write_calls

Outcome: TypeAlias = list[Stored] | Exception


def write_together(database: Database, calls: Sequence[Posted]) -> list[Outcome]:
    """
    Store what is new of the reports of some calls.

    Returns:
        For each call what became of each of its reports, or the error because of which nothing of it is stored.
    """
    try:
        return list(write_calls(database, calls))
    except Exception as error:  # noqa: BLE001 # told to whose it is
        if len(calls) == 1 or trouble(error) is not None:  # of the database: it would meet each of them
            return [error] * len(calls)
    return [outcome for call in calls for outcome in write_together(database, [call])]
