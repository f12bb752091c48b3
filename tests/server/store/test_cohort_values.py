"""Values of whole fleets, read as numbers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from fleetridge_server.compare.cohort import GpuValue, is_judged
from fleetridge_server.compare.ridge import Filter
from fleetridge_server.compare.span import Span
from fleetridge_server.store.cohort_values import cohort_values, gpus_measured_with, leveled_values
from fleetridge_server.store.current import values_of_devices
from fleetridge_server.store.database import Database
from fleetridge_server.store.lookup import device_named
from fleetridge_server.store.models import Gpu
from fleetridge_server.store.places import Where, gpus_there
from support.app_client import AppClient
from support.fleet import post
from support.reports import compute_roof, make_report, memory_roof

NEWEST = datetime(2026, 11, 20, 2, tzinfo=timezone.utc)
NOW = Span(datetime(2026, 12, 31, tzinfo=timezone.utc))
PAST = Span(NEWEST - timedelta(hours=12))
SINCE = Span(NOW.as_of, NEWEST - timedelta(hours=12))


@pytest.fixture
def device_id(client: AppClient, database: Database) -> int:
    """A device whose gpus were measured on two days, in several roofs and with two drivers."""
    reports = []
    for day, driver in enumerate(("570.1", "580.2")):
        for number, pi in enumerate((845.0, 840.0, 600.0, 850.0)):
            roofs = [
                compute_roof(pi + day),
                compute_roof(0.8 * pi, regime="sustained", out_dtype="float32"),
                compute_roof(2 * pi, dtype="int8"),
                compute_roof(1.02 * pi, kernel="gemm_best"),
                memory_roof(4430.0 - number),
            ]
            own = {"gpu__uuid": f"GPU-{number}", "environment__driver": driver if number else "570.1"}
            at = NEWEST - timedelta(days=1 - day)
            times = {"measured_from": at.isoformat(), "measured_to": at.isoformat()}
            reports.append(make_report(roofs=roofs[number == 3 :], **own, **times))
    post(client, reports)
    with database.reading() as session:
        device = device_named(session, "H200")
        assert device is not None
        return device.id


def numbers(values: list[GpuValue]) -> set[tuple[object, ...]]:
    """Whole values as numbers."""
    return {(own.cohort, own.gpu_id, own.value) for own in values}


@pytest.mark.parametrize("span", [NOW, PAST, SINCE])
@pytest.mark.parametrize("only", [Filter(), Filter("bfloat16"), Filter(regime="sustained"), Filter("int8", "burst")])
def test_they_are_those_of_whole_values(database: Database, device_id: int, span: Span, only: Filter) -> None:
    """Now, at an earlier time, and of the newest reports alone."""
    with database.reading() as session:
        whole = [own for own in values_of_devices(session, [device_id], span)[device_id] if is_judged(own.cohort.roof)]
        gpus = gpus_there(session, device_id, span, Where())
        found = cohort_values(session, device_id, span, only, betas=False)
        with_betas = cohort_values(session, device_id, span, only, betas=True)

    read = {(cohort, gpus[gpu], value) for cohort, own in found.items() for gpu, value in own.items()}
    more = {(cohort, gpus[gpu], value) for cohort, own in with_betas.items() for gpu, value in own.items()}
    betas = [own for own in whole if own.cohort.roof.kind == "memory"]
    taken = [own for own in whole if only.takes(own)]
    assert read == numbers(taken)
    assert more == numbers([*taken, *betas])
    assert taken


@pytest.mark.parametrize("span", [NOW, PAST])
def test_a_level_is_that_of_the_report_behind_the_value(database: Database, device_id: int, span: Span) -> None:
    """The newest of them."""
    with database.reading() as session:
        gpus = gpus_there(session, device_id, span, Where())
        found = {
            (gpus[gpu], level) for _, gpu, _, level in leveled_values(session, device_id, span, Filter(), "driver")
        }

    newer = "570.1" if span is PAST else "580.2"
    assert found == {("GPU-0", "570.1"), ("GPU-1", newer), ("GPU-2", newer), ("GPU-3", newer)}


@pytest.mark.parametrize(
    ("span", "driver", "gpus"),
    [(NOW, "580.2", {1, 2, 3}), (NOW, "570.1", {0}), (PAST, "580.2", set()), (NOW, "\0", set())],
)
def test_gpus_are_found_by_the_driver_of_their_newest_value(
    database: Database, device_id: int, span: Span, driver: str, gpus: set[int]
) -> None:
    """As of any time."""
    with database.reading() as session:
        found = gpus_measured_with(session, device_id, span, driver)
        names = {session.get_one(Gpu, row).identity for row in found}

    assert names == {f"GPU-{number}" for number in gpus}
