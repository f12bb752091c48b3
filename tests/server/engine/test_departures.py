"""Gpus that left the fleet: replaced cards and slices, machines that lived a day, hosts of one name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, NodeName
from fleetridge_server.engine.nodes import ExpectedNode, NodeRoster
from support.judged import AS_OF, DAY, MONDAY, at_node, fleet, report, series

N1 = NodeName("east", "n1")
HOUR = timedelta(hours=1)
NAMES = "abcdefgh"


def roster(slots: dict[str, str], *, hours_ago: float = 0.5) -> NodeRoster:
    """A complete list of n1, gpus by their bus addresses."""
    return NodeRoster(N1, AS_OF - hours_ago * HOUR, frozenset(slots), complete=True, slots=slots)


def eight(prefix: str, **slow: float) -> list[JudgedReport]:
    """Three daily runs of eight cards of n1."""
    values = {name: slow.get(name, 100.0) for name in NAMES}
    return at_node([own for name, value in values.items() for own in series(f"{prefix}{name}", [value] * 3)], "n1")


def slots_of(prefix: str) -> dict[str, str]:
    """Bus addresses of these cards."""
    return {f"{prefix}{name}": f"0000:{number:02d}:00.0" for number, name in enumerate(NAMES)}


def judged(reports: list[JudgedReport], slots: dict[str, str], *rosters: NodeRoster) -> Evaluation:
    return evaluate(Fleet(reports, rosters=rosters, slots=slots), AS_OF)


def test_a_card_whose_slot_reports_another_is_replaced_and_nobody_misses_it() -> None:
    """Even where it was slow: its accusation goes with it."""
    before = [own for own in eight("old-", b=80.0) if own.ordered_at < MONDAY]
    now = [own for own in eight("old-") if own.ordered_at == MONDAY and own.gpu_id != "old-b"]
    new = at_node([report("new-b", 100.0)], "n1")
    slots = slots_of("old-") | {"new-b": "0000:01:00.0"}
    listed = {gpu: slot for gpu, slot in slots.items() if gpu != "old-b"}
    found = judged([*before, *now, *new], slots, roster(listed))
    assert found.departures["old-b"].kind == "replaced"
    assert found.departures["old-b"].successors == ("new-b",)
    assert "old-b" not in found.states
    assert found.absences == ()
    assert {own.state for own in found.states.values()} == {"ok"}
    assert "old-b by new-b" in found.notices[-1].text


def test_slices_that_are_remade_leave_no_missing_ones() -> None:
    old = at_node([own for n in range(7) for own in series(f"MIG-old-{n}", [14.0])], "n1")
    old = [replace(own, ordered_at=own.ordered_at - DAY) for own in old]
    new = at_node([report(f"MIG-new-{n}", 14.0) for n in range(7)], "n1")
    slots = {own.gpu_id: "0000:01:00.0" for own in (*old, *new)}
    found = judged([*old, *new], slots, roster({own.gpu_id: "0000:01:00.0" for own in new}))
    assert {own.kind for own in found.departures.values()} == {"replaced"}
    assert {own.state for own in found.states.values()} == {"ok"}
    assert found.absences == ()


def test_a_card_that_is_gone_without_a_successor_is_missing() -> None:
    slots = slots_of("old-")
    listed = {gpu: slot for gpu, slot in slots.items() if gpu != "old-b"}
    found = judged(
        [own for own in eight("old-") if own.gpu_id != "old-b" or own.ordered_at < MONDAY], slots, roster(listed)
    )
    assert found.states["old-b"].state == "missing"


def test_two_hosts_of_one_name_hide_no_gpu_of_each_other() -> None:
    """Each lists its own eight cards at the same addresses, an hour after the other."""
    one = eight("one-")
    other = [replace(own, ordered_at=own.ordered_at - HOUR) for own in eight("other-")]
    slots = slots_of("one-") | slots_of("other-")
    for listed in ("one-", "other-"):
        found = judged([*one, *other], slots, roster(slots_of(listed)))
        assert found.absences == ()
        assert found.departures == {}
        assert len(found.states) == 16
        assert {own.state for own in found.states.values()} == {"ok"}


def test_a_second_host_of_a_name_replaces_nobody_at_its_first_run() -> None:
    one = [replace(own, ordered_at=own.ordered_at - 2 * HOUR) for own in eight("one-")]
    other = [own for own in eight("other-") if own.ordered_at == MONDAY]
    found = judged([*one, *other], slots_of("one-") | slots_of("other-"), roster(slots_of("other-")))
    assert found.departures == {}
    assert found.absences == ()


@pytest.mark.parametrize(("days", "schedule"), [(91, None), (31, DAY), (8, DAY / 24)])
def test_machines_that_lived_a_day_leave_the_fleet(days: int, schedule: timedelta | None) -> None:
    gone = [
        replace(own, gpu_id=f"spot-{own.gpu_id}", ordered_at=own.ordered_at - days * DAY) for own in fleet([100.0] * 4)
    ]
    found = evaluate(Fleet([*fleet([100.0] * 8), *gone], schedule=schedule), AS_OF)
    assert {own.kind for own in found.departures.values()} == {"silent"}
    assert len(found.states) == 8
    assert "4 gpus not heard of" in found.notices[-1].text


def test_what_the_inventory_names_is_never_given_up() -> None:
    gone = at_node([replace(report("kept", 100.0), ordered_at=MONDAY - 100 * DAY)], "n1")
    found = evaluate(Fleet([*fleet([100.0] * 8), *gone], inventory=[ExpectedNode(N1, frozenset({"kept"}))]), AS_OF)
    assert found.departures == {}
    assert found.states["kept"].state == "stale"


def test_a_fleet_of_the_past_is_shown_as_it_was() -> None:
    """History that was imported years later is nobody's departure: all of the fleet is as old."""
    found = evaluate(Fleet(fleet([100.0] * 8)), AS_OF + 400 * DAY)
    assert found.departures == {}
    assert len(found.states) == 8


def test_a_card_that_the_driver_lost_is_missing_at_once() -> None:
    lost = replace(report("old-b"), ordered_at=MONDAY + HOUR / 2, outcome="failed", reason="gpu_lost", report_id="lost")
    found = judged([*eight("old-"), *at_node([lost], "n1")], slots_of("old-"), roster(slots_of("old-")))
    assert found.states["old-b"].state == "missing"
    assert [own.gpu_ids for own in found.absences] == [("old-b",)]


def test_a_card_that_was_lost_and_is_measured_again_is_there() -> None:
    lost = replace(report("old-b"), ordered_at=MONDAY - HOUR, outcome="failed", reason="gpu_lost", report_id="lost")
    found = judged([*eight("old-"), *at_node([lost], "n1")], slots_of("old-"), roster(slots_of("old-")))
    assert found.states["old-b"].state == "ok"
