from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from fleetridge_server.db.verdict_tables import GpuHistoryRow
from fleetridge_server.evaluation import kept_histories
from fleetridge_server.evaluation.judged_reports import judged_reports
from fleetridge_server.evaluation.kept_histories import (
    device_groups_with_due_gpus,
    due_gpus,
    histories,
    refresh_histories,
)
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from fleetridge_server.engine.evidence import JudgedReport
    from fleetridge_server.evaluation.judged_reports import GpuOfDevice


def asked_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the gpus whose reports are read from now on."""
    asked: list[str] = []

    def watched(
        session: Session, subjects: Collection[GpuOfDevice], *, as_of: datetime | None = None
    ) -> dict[int, list[JudgedReport]]:
        asked.extend(subject.gpu_id for subject in subjects)
        return judged_reports(session, subjects, as_of=as_of)

    monkeypatch.setattr(kept_histories, "judged_reports", watched)
    return asked


def due(fleet: Fleet) -> list[int]:
    with fleet.database.reading() as session:
        return due_gpus(session, fleet.device_group())


def refreshed(fleet: Fleet, gpu_rows: Sequence[int] | None = None) -> int:
    chosen = due(fleet) if gpu_rows is None else gpu_rows
    with fleet.database.writing() as session:
        return refresh_histories(session, fleet.device_group(), chosen)


def test_histories_are_kept_of_gpus_that_are_due(fleet: Fleet) -> None:
    """Once; then nothing is due."""
    fleet.store(a_fleet(gpus=3))

    assert (refreshed(fleet), refreshed(fleet)) == (3, 0)
    assert fleet.due_gpus() == []


def test_only_gpus_that_reported_are_read_again(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others' histories are rows that are there."""
    fleet.store(a_fleet(gpus=8))
    fleet.evaluate()
    asked = asked_for(monkeypatch)
    fleet.store([a_report("GPU-3", at=fleet.now)])

    fleet.evaluate(fleet.now + HOUR)

    assert asked == ["GPU-3"]
    assert len(fleet.states()) == 8


def test_what_is_kept_equals_what_is_read(fleet: Fleet) -> None:
    """Whether a history was brought up to date or not."""
    fleet.store(a_fleet({"GPU-1": 0.1}, gpus=4, days=12))
    with fleet.database.reading() as session:
        before = histories(session, fleet.device_group(), fleet.now)
    refreshed(fleet)
    with fleet.database.reading() as session:
        after = histories(session, fleet.device_group(), fleet.now)

    assert before == after
    assert set(after) == {"GPU-0", "GPU-1", "GPU-2", "GPU-3"}


def test_a_past_is_read_from_the_reports_of_those_who_reported_since(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of the others holds for that time, too."""
    fleet.store([*a_fleet(gpus=4), a_report("GPU-2", 700.0, at=NOON + HOUR / 2)])
    refreshed(fleet)
    asked = asked_for(monkeypatch)

    with fleet.database.reading() as session:
        then = histories(session, fleet.device_group(), NOON)
        earlier = histories(session, fleet.device_group(), NOON - 30 * DAY)

    assert asked[0] == "GPU-2"
    assert [own.ordered_at for own in then["GPU-2"].reports] == [NOON, NOON - DAY, NOON - 2 * DAY]
    assert earlier == {}


def test_a_history_of_an_older_format_is_made_anew(fleet: Fleet) -> None:
    """After an upgrade of the server no gpu is due, and all are."""
    fleet.store(a_fleet(gpus=3))
    refreshed(fleet)
    with fleet.database.writing() as session:
        session.execute(update(GpuHistoryRow).where(GpuHistoryRow.gpu_id == 1).values(format=0, body="{}"))

    assert due(fleet) == [1]
    assert refreshed(fleet) == 1
    with fleet.database.reading() as session:
        assert len(histories(session, fleet.device_group(), fleet.now)) == 3


def test_histories_are_read_whole_in_however_many_statements(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left out, kept or not."""
    fleet.store(a_fleet(gpus=7, days=1))
    refreshed(fleet, due(fleet)[:4])
    monkeypatch.setattr(kept_histories, "_ROWS_PER_QUERY", 2)

    with fleet.database.reading() as session:
        assert sorted(histories(session, fleet.device_group(), fleet.now)) == [f"GPU-{number}" for number in range(7)]


def test_a_history_that_somebody_else_made_meanwhile_is_left_alone(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that evaluate at once share the work."""
    fleet.store(a_fleet(gpus=3, days=1))
    listed = due(fleet)
    refreshed(fleet, listed[:2])
    asked = asked_for(monkeypatch)

    assert refreshed(fleet, listed) == 1
    assert asked == ["GPU-2"]


def test_a_gpu_that_is_of_another_device_by_now_stays_due(fleet: Fleet) -> None:
    """Its new device's evaluation makes its history, with the roofs of that one."""
    fleet.store([a_report("GPU-1", gpu__device=None, gpu__architecture="sm_90")])
    former, listed = fleet.device_group(), due(fleet)
    fleet.store([a_report("GPU-1", at=NOON + HOUR / 2)])

    with fleet.database.writing() as session:
        assert refresh_histories(session, former, listed) == 0
    assert fleet.due_gpus() == ["GPU-1"]


def test_populations_with_due_gpus_are_found(fleet: Fleet) -> None:
    """For whoever takes over from an evaluator that was killed."""
    fleet.store([a_report("GPU-1"), a_report("GPU-1", node__cluster="simulated")])
    refreshed(fleet)

    with fleet.database.reading() as session:
        assert [own.simulated for own in device_groups_with_due_gpus(session)] == [True]
