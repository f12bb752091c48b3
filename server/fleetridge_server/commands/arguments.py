"""What options of several commands share: their types, each of which says what is wrong with a word that is none."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    Commands = _SubParsersAction[argparse.ArgumentParser]


def moment(text: str) -> datetime:
    """A time in ISO 8601, in UTC where no zone is given."""
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write it as in 2026-11-20T02:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def cluster(name: str) -> str:
    """Name of a cluster, as reports may have it."""
    from pydantic import ValidationError

    from fleetridge.report.identity import Node
    from fleetridge_server.problems import problem_of

    try:
        return Node(cluster=name).cluster
    except ValidationError as error:
        raise argparse.ArgumentTypeError(problem_of(error.errors()[0])) from error
