"""Which gpus answers are of between two evaluations: a new one, one of another device now, one in quarantine."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import create_engine, select, update
from sqlalchemy.orm import Session

from fleetridge_server.db.tables import Device, Gpu
from support.app_client import AppClient
from support.evaluated import HOUR, NOW, SLOW, SOUND, gpu_id, runs
from support.fleet import post, post_judged, read

RIDGE = "/devices/h200/ridge"
WORKLOADS = "/devices/h200/workloads"
FIRST = gpu_id("n01", 0)


@pytest.fixture
def judged(client: AppClient) -> AppClient:
    """Four gpus of which the last is slow."""
    post_judged(client, runs("n01", [SOUND] * 3 + [SLOW], until=NOW - HOUR))
    return client


def change_gpu(client: AppClient, identity: str, **values: object) -> None:
    """As its row in the table has it."""
    engine = create_engine(client.database_url)
    with Session(engine) as session, session.begin():
        session.execute(update(Gpu).where(Gpu.identity == identity).values(**values))
    engine.dispose()


def listed(client: AppClient, **params: object) -> list[str]:
    """Ids of the gpus in the list, sorted."""
    return sorted(gpu["gpu_id"] for gpu in read(client, RIDGE, **params)["gpus"])


def now() -> str:
    """The time, as it is asked for."""
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def counts(client: AppClient, **params: object) -> list[tuple[int, dict[str, int]]]:
    """Gpus and verdicts of each device in both lists of devices, and once of the fleet."""
    fleet = read(client, "/fleet", **params)
    assert fleet["devices"] != []
    return [
        (own["gpus"], own["verdicts"])
        for own in (*read(client, "/devices", **params)["devices"], *fleet["devices"], fleet)
    ]


@pytest.mark.both_databases
def test_a_gpu_that_changed_device_stays_with_the_one_it_was_judged_of(judged: AppClient) -> None:
    """In every list, count and group, and by itself, until the next evaluation."""
    before, placed = listed(judged), read(judged, WORKLOADS)["ridges"]
    _report_as_of_another_device(judged)

    assert listed(judged) == listed(judged, node="n01") == listed(judged, as_of=now()) == before
    assert read(judged, WORKLOADS)["ridges"] == read(judged, WORKLOADS, as_of=now())["ridges"] == placed
    gpu = read(judged, f"/gpus/{FIRST}")
    assert (gpu["device"]["slug"], gpu["verdict"]["state"]) == ("h200", "ok")
    assert (4, {"suspect": 1, "ok": 3}) in counts(judged)


def _report_as_of_another_device(client: AppClient) -> None:
    """The first gpu, by a report that arrives now."""
    report = max(runs("n01", [SOUND]), key=lambda own: str(own["measured_to"]))
    report["gpu"]["device"] = "NVIDIA L4"
    post(client, [report])
    engine = create_engine(client.database_url)
    with Session(engine) as session:
        name = select(Device.name).join(Gpu, Gpu.device_id == Device.id).where(Gpu.identity == FIRST)
        assert session.scalar(name) == "L4"
    engine.dispose()


def test_quarantine_leaves_a_gpu_out_at_once_and_moves_no_median(judged: AppClient) -> None:
    """Lists, counts and metrics are without it; figures of the group are those of the evaluation."""
    slow, placed = gpu_id("n01", 3), read(judged, WORKLOADS)["ridges"]
    change_gpu(judged, slow, quarantined=True)

    assert slow not in listed(judged)
    assert read(judged, RIDGE)["verdicts"] == {"ok": 3}
    assert set(map(str, counts(judged))) == set(map(str, counts(judged, as_of=now()))) == {str((3, {"ok": 3}))}
    assert slow not in judged.get("/metrics").text
    assert read(judged, WORKLOADS)["ridges"] == placed


def test_a_gpu_that_is_not_judged_yet_counts_as_it_is_listed(judged: AppClient) -> None:
    """Among the gpus, of which the verdicts are fewer by one."""
    post(judged, runs("n02", [SOUND]))

    assert len(listed(judged)) == 5
    assert set(map(str, counts(judged))) == set(map(str, counts(judged, as_of=now())))
    assert counts(judged)[0] == (5, {"suspect": 1, "ok": 3})
