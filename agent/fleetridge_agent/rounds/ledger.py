"""When the next round is due, kept in the state directory so that a restart alone measures nothing."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from fleetridge_agent.deliver.durable_file import write_durably
from fleetridge_agent.lock import file_name_of
from fleetridge_agent.rounds.moment import Moment

log = logging.getLogger(__name__)

_MOMENT = TypeAdapter(Moment)


@dataclass(frozen=True, slots=True)
class Ledger:
    """
    One node's file.

    The file carries the node's name because a home directory, and the state in it, may be shared by many nodes.
    """

    path: Path

    def due(self) -> Moment | None:
        """What was kept, None where nothing was or it cannot be read."""
        try:
            return _MOMENT.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("%s cannot be read (%s); going on as at a first start", self.path, error)
            return None

    def keep(self, due: Moment) -> None:
        """Keep a moment; where the disk cannot be written it lives as long as this process."""
        try:
            write_durably(self.path, _MOMENT.dump_json(due))
        except OSError as error:
            log.warning("%s: %s; after a restart this node measures earlier than due", self.path, error.strerror)


def ledger_of(state_dir: Path, node: str) -> Ledger:
    """Ledger of a node."""
    return Ledger(state_dir / "rounds" / f"{file_name_of(node)}.json")
