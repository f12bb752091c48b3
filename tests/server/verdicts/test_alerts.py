from __future__ import annotations

from fleetridge_server.verdicts.alerts import alert_page
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet

SLOW = {"GPU-2": 0.12}


def a_day_later(fleet: Fleet, slow: dict[str, float] | None = None) -> int:
    """A day of reports and the evaluation after it; its id."""
    fleet.now += DAY
    fleet.store(a_fleet(slow, until=fleet.now - HOUR, days=1))
    return fleet.evaluate().evaluation_id


def test_an_alert_is_opened_once_and_resolves_by_itself(fleet: Fleet) -> None:
    """While the gpu is slow it is the same alert; once it is well again it is over."""
    fleet.store(a_fleet(SLOW))
    opened_by = fleet.evaluate().evaluation_id
    a_day_later(fleet, SLOW)
    still = fleet.alerts()
    a_day_later(fleet)
    resolved_by = a_day_later(fleet)

    (alert,) = fleet.alerts()
    assert len(still) == 1
    assert (still[0].resolved_at, still[0].last_seen) == (None, NOON + DAY + HOUR)
    assert (alert.opened_at, alert.opened_by) == (NOON + HOUR, opened_by)
    assert (alert.resolved_at, alert.resolved_by) == (NOON + 3 * DAY + HOUR, resolved_by)
    assert "GPU-2 on node-01 is" in alert.summary


def test_a_gpu_that_breaks_again_has_another_alert(fleet: Fleet) -> None:
    """The first one stays as it ended."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    for slow in ({}, {}, SLOW, SLOW, SLOW):
        a_day_later(fleet, slow)

    first, second = fleet.alerts()
    assert first.resolved_at is not None
    assert second.resolved_at is None
    assert first.subject == second.subject == "GPU-2"


def test_a_slow_node_has_one_alert_instead_of_eight(fleet: Fleet) -> None:
    """And its gpus none."""
    node = {f"GPU-{number}": 0.12 for number in range(8)}
    fleet.store(a_fleet(node, node__name="bad"))
    for name in ("n1", "n2"):
        healthy = a_fleet(node__name=name)
        fleet.store([own | {"gpu": own["gpu"] | {"uuid": f"{name}-{own['gpu']['uuid']}"}} for own in healthy])

    fleet.evaluate()

    (alert,) = fleet.alerts()
    assert (alert.kind, alert.cluster, alert.node, alert.gpu) == ("node", "east", "bad", None)
    assert alert.details["gpus"] == 8


def test_stale_gpus_open_nothing_and_keep_nothing_open(fleet: Fleet) -> None:
    """A gap in the measurements is coverage, not a fault."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate()
    fleet.evaluate(NOON + 6 * DAY)

    assert [alert.resolved_at for alert in fleet.alerts()] == [NOON + 6 * DAY]


def test_alerts_are_listed_newest_first_a_page_at_a_time(fleet: Fleet) -> None:
    """All, or those that are open, of one kind, of one device; made-up ones only where they are asked for."""
    fleet.store(a_fleet({"GPU-2": 0.12, "GPU-5": 0.2}, gpus=16))
    fleet.evaluate()
    device_id = fleet.device_group().device_id

    with fleet.database.reading() as session:
        first = alert_page(session, limit=1)
        second = alert_page(session, limit=5, before_id=first[0].id)
        chosen = [
            len(alert_page(session, limit=9, is_open=True)),
            len(alert_page(session, limit=9, is_open=False)),
            len(alert_page(session, limit=9, kind="node")),
            len(alert_page(session, limit=9, kind="gpu", device_id=device_id)),
            len(alert_page(session, limit=9, simulated=True)),
        ]
    assert [len(first), len(second)] == [1, 1]
    assert chosen == [2, 0, 0, 2, 0]
