"""The order in which reports arrive never matters."""

from __future__ import annotations

import random
from typing import Any

import pytest

from support.app_client import AppClient, app_client
from support.databases import Databases
from support.fleet import post
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof

pytestmark = pytest.mark.both_databases

AS_OF = "2025-11-28T00:00:00Z"
PAGES = ("/devices", "/devices/NVIDIA%20H200/ridge", "/gpus/GPU-7", "/gpus/GPU-3")


def a_weeks_reports() -> list[dict[str, Any]]:
    """
    Reports of a small fleet over a week, with what makes order tempting.

    A gpu moves, one is split, a roster shrinks, some are contended or skipped, several share a moment, one changes its
    spelling of the device, one has no time.
    """
    choose = random.Random(20251120)  # noqa: S311 # no secret
    reports = []
    for day in range(20, 27):
        for gpu in range(1, 9):
            moment = f"2025-11-{day}T02:00:{gpu % 3:02}Z"
            common: dict[str, Any] = {
                "gpu__uuid": f"GPU-{gpu}",
                "gpu__index": gpu,
                "gpu__device": choose.choice(["NVIDIA H200", "H200"]),
                "gpu__mig_profile": "1g.18gb" if gpu == 4 and day > 23 else None,
                "node__name": f"node-{(gpu + (day > 22 and gpu == 7)) % 2}",
                "node__labels": {"rack": f"r{day}"},
                "run__roster": [{"uuid": f"GPU-{other}"} for other in range(1, 9 - (day > 24))],
                "measured_from": moment,
                "measured_to": moment,
            }
            if choose.random() < 0.2:
                reports.append(make_skipped_report("busy", **common))
                continue
            roofs = [compute_roof(choose.gauss(845, 5)), memory_roof(choose.gauss(4430, 20))]
            reports.append(make_report(roofs=roofs, evidence__contended=choose.random() < 0.1, **common))
    return [*reports, make_report(gpu__uuid="GPU-1", run__kind="import", measured_from=None, measured_to=None)]


def answers(client: AppClient) -> list[Any]:
    """All answers about that fleet as of one moment, less the times of arrival."""
    found = [client.get(page, params={"as_of": AS_OF, "limit": 1000}).json() for page in PAGES]
    found += [client.get(f"/nodes/node-{n}").json() for n in (0, 1)]
    return [without_arrival(answer) for answer in found]


def without_arrival(value: Any) -> Any:
    """An answer without what says when a report arrived."""
    if isinstance(value, dict):
        return {name: without_arrival(part) for name, part in value.items() if name != "received_at"}
    return [without_arrival(part) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shuffled_reports_give_the_same_answers(databases: Databases, seed: int) -> None:
    """One by one in time, or in a heap backwards and sideways: every page says the same."""
    reports = a_weeks_reports()
    shuffled = random.Random(seed).sample(reports, len(reports))  # noqa: S311 # no secret
    found = []
    for order in (reports, shuffled):
        url = databases.create(migrated=True)
        with app_client(url) as client:
            for start in range(0, len(order), 7):
                post(client, order[start : start + 7])
            found.append(answers(client))
        databases.drop(url)

    assert found[0] == found[1]
    assert len(found[0][1]["gpus"]) == 8


def test_both_databases_give_the_same_answers(sqlite_databases: Databases, postgres_databases: Databases) -> None:
    """To the last digit."""
    reports = a_weeks_reports()
    found = []
    for databases in (sqlite_databases, postgres_databases):
        url = databases.create(migrated=True)
        with app_client(url) as client:
            post(client, reports)
            found.append(answers(client))
        databases.drop(url)

    assert found[0] == found[1]
