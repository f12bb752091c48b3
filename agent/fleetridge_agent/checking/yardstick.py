"""What the gpus of a check are held against: the fleet, what is kept of it, or a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from fleetridge.quantities import since
from fleetridge_agent.checking.band import Band, bands_of
from fleetridge_agent.checking.band_file import keep_bands, kept_bands
from fleetridge_agent.checking.baseline import Baseline
from fleetridge_agent.checking.fleet import NoAnswerError, UnknownDeviceError
from fleetridge_agent.checking.subject import Subject

Ask = Callable[[str], Mapping[str, Any]]
"""Asks the server for the ridge of a device by its name; raises NoAnswerError."""


@dataclass(frozen=True, slots=True)
class Held:
    """
    Bands for one gpu.

    Attributes:
        origin: where they are from, in words.
        is_answered: False where the server was to be asked and gave no answer.
        is_news: whether it is the first time that they are given.
    """

    bands: tuple[Band, ...]
    origin: str
    is_answered: bool = True
    is_news: bool = True


class Yardstick(Protocol):
    """Gives the bands for a gpu."""

    def for_gpu(self, subject: Subject, uuid: str | None) -> Held:
        """Bands for this gpu; none where nothing is known that could be held against it."""
        ...


class ByBaseline:
    """Holds each gpu against a file that was kept earlier."""

    def __init__(self, baseline: Baseline, *, path: Path, tolerance: float, now: datetime) -> None:
        self._baseline = baseline
        self._path = path
        self._tolerance = tolerance
        self._now = now

    def for_gpu(self, subject: Subject, uuid: str | None) -> Held:
        """The gpu's own figures of then, else the median of those of its kind."""
        bands, whose = self._baseline.bands(subject, uuid, tolerance=self._tolerance)
        return Held(bands, f"{whose}, baseline {self._path} of {since(self._now - self._baseline.saved_at)}")


class ByFleet:
    """
    Holds gpus against the fleet: what the server says, and if it does not answer, what it said last.

    Args:
        ask: the server; None where none is named.
        server: its address.
        state_dir: where answers are kept.
        now: the time.
        on_trouble: is told what went wrong on the way.
    """

    def __init__(
        self,
        ask: Ask | None,
        *,
        server: str | None,
        state_dir: Path,
        now: Callable[[], datetime],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._server = server
        self._state_dir = state_dir
        self._now = now
        self._on_trouble = on_trouble
        self._held: dict[str, Held] = {}

    def for_gpu(self, subject: Subject, uuid: str | None) -> Held:  # noqa: ARG002 # a fleet's band is nobody's own
        """The band of the gpu's device; asked for once."""
        known = self._held.get(subject.device)
        if known is not None:
            return replace(known, is_news=False)
        self._held[subject.device] = self._asked(subject.device)
        return self._held[subject.device]

    def _asked(self, device: str) -> Held:
        if self._ask is None:
            return self._kept(device, "no server is named; give --server")
        try:
            answer = self._ask(device)
        except UnknownDeviceError as error:
            return Held((), str(error))
        except NoAnswerError as error:
            return self._kept(device, str(error))
        self._keep(device, answer)
        return Held(bands_of(answer), f"the fleet's band, from {self._server}")

    def _keep(self, device: str, answer: Mapping[str, Any]) -> None:
        try:
            keep_bands(self._state_dir, server=self._server or "", device=device, answer=answer, at=self._now())
        except OSError as error:
            self._on_trouble(f"the band cannot be kept in {self._state_dir} ({error.strerror}); give --state-dir")

    def _kept(self, device: str, why: str) -> Held:
        kept = kept_bands(self._state_dir, device, server=self._server)
        if kept is None:
            return Held((), f"no band: {why}; and none was kept earlier", is_answered=False)
        when = since(self._now() - kept.fetched_at)
        if not kept.is_usable(self._now()):
            return Held((), f"no band: {why}; the one that was kept {when} is of no use any more", is_answered=False)
        return Held(bands_of(kept.answer), f"the fleet's band as kept {when}: {why}", is_answered=False)
