"""What the gpus of a check are held against: the fleet as its server answers, what is kept of it, or a baseline."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fleetridge.quantities import since
from fleetridge.report import Report
from fleetridge_agent.check.bands import Band, bands_of, keep_bands, kept_bands
from fleetridge_agent.check.baseline import Baseline
from fleetridge_agent.check.fleet_client import NoAnswerError, UnknownDeviceError, ridge_answer
from fleetridge_agent.check.measured_gpu import MeasuredGpu, measured_gpu
from fleetridge_agent.deliver.server_address import Server

log = logging.getLogger(__name__)

Ask = Callable[[str], Mapping[str, Any]]
"""Asks the server for the ridge of a device by its name; raises NoAnswerError."""


@dataclass(frozen=True, slots=True)
class ReferenceBands:
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


class Reference(Protocol):
    """Something that gpus are held against, which gives the bands for one of them."""

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:
        """Bands for this gpu; none where nothing is known that could be held against it."""
        ...


class BaselineReference:
    """Holds each gpu against a file that was kept earlier."""

    def __init__(self, baseline: Baseline, *, path: Path, tolerance: float, now: datetime) -> None:
        self._baseline = baseline
        self._path = path
        self._tolerance = tolerance
        self._now = now

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:
        """The gpu's own figures of then, else the median of those of its kind."""
        bands, whose = self._baseline.bands(subject, uuid, tolerance=self._tolerance)
        return ReferenceBands(bands, f"{whose}, baseline {self._path} of {since(self._now - self._baseline.saved_at)}")


class FleetReference:
    """
    Holds gpus against the fleet: what the server says, and if it does not answer, what it said last.

    Args:
        ask: the server; None where none is named.
        server: its address.
        state_dir: where answers are kept.
        now: the time.
        on_trouble: called with what went wrong on the way.
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
        self._held: dict[str, ReferenceBands] = {}

    def for_gpu(self, subject: MeasuredGpu, uuid: str | None) -> ReferenceBands:  # noqa: ARG002 # a fleet's band is nobody's own
        """The band of the gpu's device; asked for once."""
        known = self._held.get(subject.device)
        if known is not None:
            return replace(known, is_news=False)
        self._held[subject.device] = self._bands_of_device(subject.device)
        return self._held[subject.device]

    def _bands_of_device(self, device: str) -> ReferenceBands:
        if self._ask is None:
            return self._kept(device, "no server is named; give --server")
        try:
            answer = self._ask(device)
        except UnknownDeviceError as error:
            return ReferenceBands((), str(error))
        except NoAnswerError as error:
            return self._kept(device, str(error))
        self._keep(device, answer)
        return ReferenceBands(bands_of(answer), f"the fleet's band, from {self._server}")

    def _keep(self, device: str, answer: Mapping[str, Any]) -> None:
        try:
            keep_bands(self._state_dir, server=self._server or "", device=device, answer=answer, at=self._now())
        except OSError as error:
            self._on_trouble(f"the band cannot be kept in {self._state_dir} ({error.strerror}); give --state-dir")

    def _kept(self, device: str, why: str) -> ReferenceBands:
        kept = kept_bands(self._state_dir, device, server=self._server)
        if kept is None:
            return ReferenceBands((), f"no band: {why}; and none was kept earlier", is_answered=False)
        when = since(self._now() - kept.fetched_at)
        if not kept.is_usable(self._now()):
            return ReferenceBands(
                (), f"no band: {why}; the one that was kept {when} is of no use any more", is_answered=False
            )
        return ReferenceBands(bands_of(kept.answer), f"the fleet's band as kept {when}: {why}", is_answered=False)


def fleet_reference(server: Server | None, state_dir: Path) -> FleetReference:
    """The fleet as the server knows it, or as it was kept."""
    return FleetReference(
        None if server is None else partial(ridge_answer, server),
        server=None if server is None else server.url,
        state_dir=state_dir,
        now=now,
        on_trouble=log.warning,
    )


def bands_for(reference: Reference, report: Report) -> ReferenceBands:
    """What the gpu of a report is held against; said in the log, once."""
    if report.outcome != "measured":
        return ReferenceBands((), "")
    held = reference.for_gpu(measured_gpu(report), None if report.gpu is None else report.gpu.uuid)
    if held.is_news:
        log.log(logging.INFO if held.is_answered else logging.WARNING, "held against %s", held.origin)
    return held


def now() -> datetime:
    """The time by this node's clock."""
    return datetime.now(timezone.utc)
