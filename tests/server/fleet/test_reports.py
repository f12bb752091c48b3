from __future__ import annotations

from datetime import timedelta

from fleetridge_server.engine.cohort import Span
from fleetridge_server.fleet.locations import location_of_gpu
from fleetridge_server.fleet.reports import newest_unjudged
from fleetridge_server.verdicts.series import JudgedUntil
from support.evaluations import NOON, Fleet, a_report


def test_a_report_stored_only_after_an_evaluation_read_is_not_judged_yet_though_it_arrived_before(fleet: Fleet) -> None:
    """Its transaction ended too late for what was read; until it is judged it is shown as such."""
    fleet.store([a_report("GPU-1")])
    fleet.evaluate()
    as_of = fleet.now
    fleet.store([a_report("GPU-1", at=NOON + timedelta(minutes=1))], received_at=as_of - timedelta(seconds=1))

    def waiting() -> list[int]:
        with fleet.database.reading() as session:
            location = location_of_gpu(session, 1, Span(fleet.now, simulated=False))
            assert location is not None
            return list(newest_unjudged(session, [location], JudgedUntil(as_of, as_of), fleet.now))

    before = waiting()
    fleet.evaluate(as_of + timedelta(seconds=5))

    assert (before, waiting()) == ([1], [])
