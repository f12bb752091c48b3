from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
from sqlalchemy import Table, select

from fleetridge_server.ingest.intake import Accepted, examined
from fleetridge_server.store.current import keep_values
from fleetridge_server.store.models import Gpu, GpuRoof
from fleetridge_server.store.writing import write_reports
from support.reports import compute_roof, make_report, memory_roof
from support.times import NOW

if TYPE_CHECKING:
    from fleetridge_server.store.database import Database

KEPT = cast("Table", GpuRoof.__table__)
CALLS = 14


def kept(database: Database) -> set[tuple[Any, ...]]:
    """Kept values of all gpus, whatever their order."""
    with database.reading() as session:
        return {tuple(row)[:1] + tuple(row)[2:] for row in session.execute(select(KEPT))}


def kept_from_all_of_history(database: Database) -> set[tuple[Any, ...]]:
    with database.writing() as session:
        keep_values(session, session.scalars(select(Gpu.id)).all())
    return kept(database)


def at(hours: float, *roofs: dict[str, Any], **changes: Any) -> Accepted:
    moment = (NOW - timedelta(hours=hours)).isoformat()
    made = make_report(measured_from=moment, measured_to=moment, roofs=list(roofs), **changes)
    item = examined(made, sent_at=None, received_at=NOW)
    assert isinstance(item, Accepted), item
    return item


def any_report(random: Random) -> Accepted:
    """A report of one of two gpus whose settings, kind of run, node and roofs change often, in any order of time."""
    value = random.uniform(700, 900)
    roofs = [
        compute_roof(value),
        compute_roof(value / 2, dtype="float16", out_dtype="float16"),
        memory_roof(value * 5),
        compute_roof(value, regime="sustained"),
    ]
    return at(
        random.choice([*range(1, 60), 5, 5]),
        *random.sample(roofs, random.randint(1, len(roofs))),
        run__kind=random.choice(["cron", "cron", "daemon", "check"]),
        gpu__uuid=random.choice(["GPU-1", "GPU-2"]),
        gpu__device=random.choice(["NVIDIA H200", "NVIDIA H200", "NVIDIA H200", "NVIDIA H100"]),
        gpu__memory_bytes=random.choice([141 * 10**9, 141 * 10**9, 141 * 10**9, 70 * 10**9]),
        agent__method=random.choice(["standard", "standard", "custom"]),
        sweep__fill=random.choice(["normal", "normal", "normal", "zeros"]),
        node__name=random.choice(["n1"] * 12 + ["n2"]),
        evidence__contended=random.random() < 0.1,
    )


@pytest.mark.parametrize("seed", range(8))
def test_what_is_kept_is_what_all_of_history_gives(database: Database, seed: int) -> None:
    """However reports come, those that nobody looks at again would have changed nothing."""
    random = Random(seed)  # noqa: S311 # made-up reports
    for _ in range(CALLS):
        write_reports(database, [any_report(random) for _ in range(random.randint(1, 4))])

        assert kept(database) == kept_from_all_of_history(database)


def test_a_gpu_that_goes_back_to_old_settings_counts_its_old_reports_again(database: Database) -> None:
    """Although what was kept meanwhile does not reach back to them."""
    for hours, fill in ((5, "normal"), (4, "normal"), (3, "zeros"), (2, "normal")):
        write_reports(database, [at(hours, compute_roof(800.0 + hours), sweep__fill=fill)])

    assert [row[KEPT.columns.keys().index("reports") - 1] for row in kept(database)] == [2]
    assert kept(database) == kept_from_all_of_history(database)


def test_a_roof_that_is_measured_rarely_is_kept_beside_one_that_often_is(database: Database) -> None:
    """A weekly sweep alone measures it, and hourly ones do not push it out."""
    write_reports(database, [at(200, compute_roof(800.0), memory_roof(4400.0))])
    for hours in range(40, 0, -1):
        write_reports(database, [at(hours, compute_roof(800.0), run__kind="check")])

    assert len(kept(database)) == 2
    assert kept(database) == kept_from_all_of_history(database)
