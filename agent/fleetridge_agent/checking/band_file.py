"""The last band of each device, on disk, for when the server cannot be asked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from fleetridge.identity import canonical_device_name, distinct_device_slug
from fleetridge.quantities import MIB
from fleetridge_agent.deliver.durable_file import write_durably

_FOLDER = "check"

# The server itself looks no further back than this; a median of gpus does not move within days.
LONGEST_KEPT = timedelta(days=30)

# A clock that was set back by more than this since then tells no age.
_CLOCK_SLACK = timedelta(hours=1)

# Parts of an answer in which bands are; the list of gpus, its largest part, is not needed.
_PARTS = ("cohorts", "ridges", "bandwidths")

_MOST_BYTES = 8 * MIB


class KeptBands(BaseModel):
    """
    What a server once answered of a device.

    Attributes:
        answer: the parts of it in which bands are, as they came.
    """

    model_config = ConfigDict(frozen=True)

    format: Literal[1] = 1
    server: str
    device: str
    fetched_at: AwareDatetime
    answer: dict[str, Any]

    def is_usable(self, now: datetime) -> bool:
        """Whether it is young enough to judge by."""
        return -_CLOCK_SLACK <= now - self.fetched_at <= LONGEST_KEPT


def keep_bands(state_dir: Path, *, server: str, device: str, answer: Mapping[str, Any], at: datetime) -> None:
    """
    Write down what a server answered.

    Raises:
        OSError: the state directory cannot be written.
    """
    parts = {name: answer[name] for name in _PARTS if name in answer}
    kept = KeptBands(server=server, device=device, fetched_at=at, answer=parts)
    write_durably(_path(state_dir, device), kept.model_dump_json().encode())


def kept_bands(state_dir: Path, device: str, *, server: str | None) -> KeptBands | None:
    """
    What was written down of a device; None where nothing was that can be read.

    Args:
        state_dir: where state is kept.
        device: name of the model.
        server: address whose answer is wanted; None for any.
    """
    try:
        with _path(state_dir, device).open("rb") as file:
            kept = KeptBands.model_validate_json(file.read(_MOST_BYTES))
    except (OSError, ValidationError):
        return None
    return kept if kept.device == device and server in (None, kept.server) else None


def _path(state_dir: Path, device: str) -> Path:
    return state_dir / _FOLDER / f"bands-{distinct_device_slug(canonical_device_name(device))}.json"
