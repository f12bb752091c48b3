"""The fleet as reference: asked, and remembered for when it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from fleetridge_agent.check.fleet_client import NoAnswerError, UnknownDeviceError
from fleetridge_agent.check.measured_gpu import MeasuredGpu, measured_gpu
from fleetridge_agent.check.reference import FleetReference, ReferenceBands
from fleetridge_agent.sweep.options import SweepOptions
from support.ridges import ridge_answer
from support.sweeps import swept

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
URL = "https://f.example"

Ask = Callable[[str], Mapping[str, Any]]


@pytest.fixture(scope="module")
def subject() -> MeasuredGpu:
    return measured_gpu(swept(options=SweepOptions(profile="quick")))


def unanswered(_: str) -> Mapping[str, Any]:
    raise NoAnswerError("https://f.example cannot be reached (refused); check --server and the network")


def held(
    subject: MeasuredGpu, folder: Path, ask: Ask | None, *, url: str | None = URL, later: timedelta = timedelta()
) -> ReferenceBands:
    trouble: list[str] = []
    reference = FleetReference(ask, server=url, state_dir=folder, now=lambda: NOW + later, on_trouble=trouble.append)
    found = reference.for_gpu(subject, None)
    assert trouble == []
    return found


def test_the_server_is_asked_once_for_each_device(subject: MeasuredGpu, tmp_path: Path) -> None:
    asked: list[str] = []

    def ask(device: str) -> Mapping[str, Any]:
        asked.append(device)
        return ridge_answer()

    reference = FleetReference(ask, server=URL, state_dir=tmp_path, now=lambda: NOW, on_trouble=lambda _: None)
    news = [reference.for_gpu(subject, uuid).is_news for uuid in ("GPU-a", "GPU-b")]

    assert asked == ["NVIDIA H200"]
    assert news == [True, False]


def test_what_the_server_said_last_stands_in_for_it_and_says_its_age(subject: MeasuredGpu, tmp_path: Path) -> None:
    fresh = held(subject, tmp_path, lambda _: ridge_answer())
    kept = held(subject, tmp_path, unanswered, later=timedelta(days=2, hours=5))

    assert fresh.is_answered
    assert not kept.is_answered
    assert kept.bands == fresh.bands
    assert "kept 2 d 5 h ago: https://f.example cannot be reached" in kept.origin


def test_a_band_is_too_old_after_a_month(subject: MeasuredGpu, tmp_path: Path) -> None:
    held(subject, tmp_path, lambda _: ridge_answer())

    assert held(subject, tmp_path, unanswered, later=timedelta(days=30)).bands
    assert held(subject, tmp_path, unanswered, later=timedelta(days=30, seconds=1)).bands == ()


def test_a_band_from_the_future_is_believed_no_more_than_an_old_one(subject: MeasuredGpu, tmp_path: Path) -> None:
    held(subject, tmp_path, lambda _: ridge_answer())

    assert held(subject, tmp_path, unanswered, later=-timedelta(days=2)).bands == ()


def test_without_a_band_of_then_there_is_none(subject: MeasuredGpu, tmp_path: Path) -> None:
    found = held(subject, tmp_path, unanswered)

    assert found.bands == ()
    assert "none was kept" in found.origin


def test_the_band_of_another_server_is_not_ours(subject: MeasuredGpu, tmp_path: Path) -> None:
    held(subject, tmp_path, lambda _: ridge_answer())

    assert held(subject, tmp_path, unanswered, url="https://other.example").bands == ()


def test_without_a_server_whatever_was_kept_serves(subject: MeasuredGpu, tmp_path: Path) -> None:
    held(subject, tmp_path, lambda _: ridge_answer())
    found = held(subject, tmp_path, None, url=None)

    assert found.bands
    assert "no server is named" in found.origin


def test_a_device_that_the_server_does_not_know_has_no_band_however_it_was_before(
    subject: MeasuredGpu, tmp_path: Path
) -> None:
    def unheard_of(_: str) -> Mapping[str, Any]:
        raise UnknownDeviceError("the server has no gpu of this device")

    held(subject, tmp_path, lambda _: ridge_answer())
    found = held(subject, tmp_path, unheard_of)

    assert (found.bands, found.is_answered) == ((), True)


def test_a_kept_file_that_is_broken_is_none(subject: MeasuredGpu, tmp_path: Path) -> None:
    held(subject, tmp_path, lambda _: ridge_answer())
    (kept,) = (tmp_path / "check").iterdir()
    kept.write_bytes(kept.read_bytes()[:-9])

    assert held(subject, tmp_path, unanswered).bands == ()


def test_a_band_that_cannot_be_kept_is_used_nevertheless_and_said(subject: MeasuredGpu, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    trouble: list[str] = []
    reference = FleetReference(
        lambda _: ridge_answer(), server=URL, state_dir=tmp_path / "file", now=lambda: NOW, on_trouble=trouble.append
    )

    assert reference.for_gpu(subject, None).bands
    assert "cannot be kept" in trouble[0]
