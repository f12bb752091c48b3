"""One truth on fleets in which it once was two: impossible rates, gpus of long ago, an upgrade, a rare schedule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from support.app_client import AppClient, app_client
from support.asked_fleet import AskedFleet, FleetServer, moment_now, server_command
from support.fleet import post, read
from support.said import contradictions, gpu_said, ridge_said, workloads_said
from support.small_fleets import GpuPlan, SmallFleet, Trouble

SOUND = 845.0
LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def server(database_url: str) -> Iterator[FleetServer]:
    """A server on SQLite and on PostgreSQL."""
    with app_client(database_url) as client:
        yield FleetServer.of(client, database_url)


def fleet_of(*groups: tuple[int, float, Trouble]) -> SmallFleet:
    """One node with gpus in groups: how many, at which share of what the device can do, and what happens to them."""
    kinds = [(speed, trouble) for gpus, speed, trouble in groups for _ in range(gpus)]
    plans = [
        GpuPlan(
            gpu_id=f"GPU-{index:02}",
            cluster="east",
            node="n",
            index=index,
            speed=speed + index / 2000,
            runs=4,
            trouble=trouble,
            split=False,
            roofs=(("bfloat16", "burst"),),
        )
        for index, (speed, trouble) in enumerate(kinds)
    ]
    return SmallFleet(tuple(plans))


IMPOSSIBLE = fleet_of((4, 1.0, "implausible"), (5, 1.0, "none"))
OLD = fleet_of((5, 1.0, "none"), (6, 0.83, "old"))
UPGRADED = fleet_of((8, 1.0, "upgraded"))


def asked_about(server: FleetServer, fleet: SmallFleet) -> AskedFleet:
    return server.with_fleet(fleet, datetime.now(timezone.utc))


def by_gpu(answer: Any) -> dict[str, tuple[float, float]]:
    """Value and deviation of each gpu that has one."""
    found = {row["gpu_id"][-2:]: row["ridges"] for row in answer["gpus"]}
    return {gpu: (own["pi_tflops"], own["pi_deviation"]) for gpu, ridges in found.items() for own in ridges}


@pytest.mark.parametrize("fleet", [IMPOSSIBLE, OLD, UPGRADED], ids=["impossible", "old", "upgraded"])
def test_one_question_asked_in_many_ways_has_one_answer(server: FleetServer, fleet: SmallFleet) -> None:
    """Plain, by dtype, by regime, since long ago, as of now; of each gpu by itself; of what its roofs are good for."""
    asked = asked_about(server, fleet)
    plain = asked.ridge()
    said = list(ridge_said(plain, "plain"))
    for name, value in (("dtype", "bfloat16"), ("regime", "burst"), ("since", LONG_AGO), ("as_of", moment_now())):
        said += ridge_said(asked.ridge(**{name: value}), name)
    for row in plain["gpus"]:
        said += gpu_said(asked.gpu(row["gpu_id"]), f"gpu {row['gpu_id']}")
    said += workloads_said(asked.read(f"/devices/{asked.slug}/workloads"), plain, "workloads")

    assert contradictions(said) == []


@pytest.mark.parametrize("filters", [{}, {"dtype": "bfloat16"}, {"since": LONG_AGO}])
def test_rates_that_cannot_be_move_no_median_and_no_percentile(server: FleetServer, filters: dict[str, str]) -> None:
    """Four of nine gpus multiply faster than their silicon can."""
    answer = asked_about(server, IMPOSSIBLE).ridge(**filters)

    [found] = answer["ridges"]
    assert (found["peers"], found["pi_tflops"]["median"]) == (5, pytest.approx(SOUND * 1.003))
    assert found["pi_tflops"]["p95"] < SOUND * 1.005
    assert answer["verdicts"] == {"implausible": 4, "ok": 5}


@pytest.mark.parametrize("filters", [{}, {"dtype": "bfloat16"}, {"regime": "burst"}, {"since": LONG_AGO}])
def test_gpus_that_were_last_seen_long_ago_move_no_median(server: FleetServer, filters: dict[str, str]) -> None:
    """Six of eleven were slow when they were measured last, 38 days ago: those of today are no faster for that."""
    answer = asked_about(server, OLD).ridge(**filters)

    [found] = answer["ridges"]
    assert (found["peers"], found["pi_tflops"]["median"]) == (5, pytest.approx(SOUND * 1.001))
    assert all(abs(by_gpu(answer)[f"{gpu:02}"][1]) < 0.002 for gpu in range(5))
    assert all(-0.175 < by_gpu(answer)[f"{gpu:02}"][1] < -0.16 for gpu in range(5, 11) if f"{gpu:02}" in by_gpu(answer))


@pytest.mark.parametrize("filters", [{}, {"dtype": "bfloat16"}, {"driver": "590.10"}, {"since": LONG_AGO}])
def test_after_an_upgrade_no_gpu_is_far_from_its_own_median(server: FleetServer, filters: dict[str, str]) -> None:
    """All eight lost a tenth with a driver this morning: each counts for what it reaches now."""
    asked = asked_about(server, UPGRADED)
    answer = asked.ridge(**filters)

    [found] = answer["ridges"]
    assert found["pi_tflops"]["median"] == pytest.approx(0.9 * SOUND, rel=0.005)
    assert len(by_gpu(answer)) == 8
    assert all(abs(deviation) < 0.005 for _, deviation in by_gpu(answer).values())
    alone = asked.gpu(answer["gpus"][0]["gpu_id"])
    assert alone["verdict"]["roofs"][0]["value"] == alone["ridges"][0]["pi_tflops"]


@pytest.fixture
def weekly(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppClient]:
    """Eight gpus that are measured every week, as the server knows, the last time five days ago."""
    monkeypatch.setenv("FLEETRIDGE_SERVER_MEASURED_EVERY", "P7D")
    with app_client(database_url, measured_every=timedelta(days=7)) as client:
        post(client, weekly_reports(range(8), days_ago=(19, 12, 5)))
        server_command(database_url, "evaluate")
        yield client


def weekly_reports(gpus: Sequence[int], days_ago: Sequence[int]) -> list[dict[str, Any]]:
    plan = fleet_of((len(gpus), 1.0, "none"))
    now = datetime.now(timezone.utc)
    return [gpu.report_of("NVIDIA H200", now - timedelta(days=days)) for days in days_ago for gpu in plan.gpus]


def test_a_gpu_that_is_ok_by_its_schedule_is_nowhere_called_stale(weekly: AppClient) -> None:
    """What is stale is said once, by the schedule: in no flag of a row, of a roof, of a gpu, and in no sentence."""
    answer = read(weekly, "/devices/h200/ridge")
    alone = read(weekly, f"/gpus/{answer['gpus'][0]['gpu_id']}")
    text = weekly.get("/devices/h200/ridge", headers={"accept": "text/plain"}).text
    gpu_text = weekly.get(f"/gpus/{alone['gpu_id']}", headers={"accept": "text/plain"}).text
    table = weekly.get("/devices/h200/ridge.csv").text

    assert answer["verdicts"] == {"ok": 8}
    flags = {flag for row in [*answer["gpus"], alone] for own in _flagged(row) for flag in own["flags"]}
    assert flags == set()
    assert [form for form in (text, gpu_text, table) if "stale" in form] == []


def _flagged(row: Any) -> list[Any]:
    return [row, *row["ridges"], *row["bandwidths"]]
