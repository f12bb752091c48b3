from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import OperationalError

from fleetridge_server.auth.permissions import Caller
from fleetridge_server.intake import examine
from fleetridge_server.intake import take as taking
from fleetridge_server.intake import take as together
from fleetridge_server.intake.store import LostRaceError, write_calls
from fleetridge_server.intake.take import take, write_together
from fleetridge_server.problems import ProblemError
from fleetridge_server.telemetry.logs import logs_to
from fleetridge_server.telemetry.metrics import add_database_time
from support.calls import a_call, of_gpus, outcomes_of, status_of, told_by
from support.reports import make_report
from support.soak import stored_ids
from support.times import NOW

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from fleetridge.strict_json import Json
    from fleetridge_server.db.database import Database
    from fleetridge_server.intake.examine import Accepted, Item
    from fleetridge_server.intake.store import Stored
    from fleetridge_server.intake.take import Call, Outcome

OF_WEST = Caller(None, frozenset({"ingest"}), "west")


def a_report(name: str) -> dict[str, Any]:
    return make_report(node__name=name)


def logged(database: Database, calls: Sequence[Call]) -> tuple[list[int], list[dict[str, Any]]]:
    """Statuses of the answers, and what is logged meanwhile."""
    stream = io.StringIO()
    with logs_to(stream, log_format="json", environ={}):
        answers = take(database, calls)
    return [status_of(answer) for answer in answers], [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_to_examine(monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any]) -> None:
    """Have one report break what looks at it."""
    examined = examine.examined

    def breaking(item: Json, *, sent_at: datetime | None, received_at: datetime, token_id: int | None) -> Item:
        if item == bad:
            raise LookupError("of this one alone")
        return examined(item, sent_at=sent_at, received_at=received_at, token_id=token_id)

    monkeypatch.setattr(examine, "examined", breaking)


def fail_to_store(monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any], error: Exception) -> None:
    """Have one report break what stores it."""

    def breaking(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[list[Stored]]:
        if any(item.sent_id == bad["report_id"] for call in calls for item in call):
            raise error
        return write_calls(database, calls)

    monkeypatch.setattr(together, "write_calls", breaking)


def transactions(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Reports of the calls of each transaction from now on."""
    made: list[list[int]] = []

    def noting(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[Outcome]:
        made.append([len(call) for call in calls])
        return write_together(database, calls)

    monkeypatch.setattr(taking, "write_together", noting)
    return made


def test_each_call_is_answered_by_itself_in_the_order_of_the_calls(database: Database, database_url: str) -> None:
    """Whatever is wrong with one is no matter of the others."""
    listed, single = [make_report(), make_report()], make_report()
    other = {**single, "node": {**single["node"], "name": "other"}}
    calls = [
        a_call({"reports": [listed[0], {"report_id": "x"}, listed[1]]}),
        a_call(b"no JSON"),
        a_call(single),
        a_call({"no": "report"}),
        a_call({"reports": []}),
        a_call(single),
        a_call(other),
        a_call(a_report("node-of-the-east"), OF_WEST),
        a_call({"reports": [{}, {"no": "report"}]}),
        a_call([single]),
    ]

    answers = take(database, calls)

    assert [status_of(answer) for answer in answers] == [200, 422, 201, 422, 422, 200, 409, 403, 200, 422]
    assert outcomes_of(answers[0]) == ["created", "rejected", "created"]
    assert [result["report_id"] for result in told_by(answers[0])["results"]] == [
        listed[0]["report_id"],
        "x",
        listed[1]["report_id"],
    ]
    assert outcomes_of(answers[8]) == ["rejected", "rejected"]
    codes = {place: told_by(answers[place])["code"] for place in (1, 3, 4, 6, 7, 9)}
    assert codes == {
        1: "not_json",
        3: "invalid_report",
        4: "invalid_envelope",
        6: "conflict",
        7: "other_place",
        9: "invalid_report",
    }
    assert told_by(answers[6])["report_id"] == single["report_id"]
    assert stored_ids(database_url) == sorted(report["report_id"] for report in (*listed, single))


def test_no_calls_have_no_answers(database: Database) -> None:
    """And nothing is stored."""
    assert take(database, []) == []


def test_calls_that_store_nothing_need_no_transaction(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is busy is none of their business."""
    made = transactions(monkeypatch)

    answers = take(database, [a_call({"no": "report"}), a_call({"reports": [{}]}), a_call(b"")])

    assert [status_of(answer) for answer in answers] == [422, 200, 422]
    assert made == []


def test_no_transaction_takes_more_than_so_many_reports(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls come; one that is larger by itself is one."""
    monkeypatch.setattr(taking, "_MOST_REPORTS", 3)
    made = transactions(monkeypatch)
    sizes = [2, 1, 1, 5, 1, 2]

    answers = take(database, [of_gpus(*range(10 * place, 10 * place + size)) for place, size in enumerate(sizes)])

    assert [outcomes_of(answer) for answer in answers] == [["created"] * size for size in sizes]
    assert made == [[2, 1], [1], [5], [1, 2]]


def test_calls_that_store_nothing_take_no_room_of_a_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is stored counts."""
    monkeypatch.setattr(taking, "_MOST_REPORTS", 2)
    made = transactions(monkeypatch)

    take(database, [of_gpus(1), a_call({"reports": [{}, {}, {}]}), a_call(b""), of_gpus(2)])

    assert made == [[1, 1]]


def test_calls_are_examined_only_when_it_is_their_turn(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was examined is held in memory, and is many times as large as what was sent."""
    monkeypatch.setattr(taking, "_MOST_REPORTS", 1)
    steps: list[str] = []
    examined = examine.examined

    def noting(item: Json, *, sent_at: datetime | None, received_at: datetime, token_id: int | None) -> Item:
        steps.append("examined")
        return examined(item, sent_at=sent_at, received_at=received_at, token_id=token_id)

    def storing(database: Database, calls: Sequence[Sequence[Accepted]]) -> list[Outcome]:
        steps.append("stored")
        return write_together(database, calls)

    monkeypatch.setattr(examine, "examined", noting)
    monkeypatch.setattr(taking, "write_together", storing)
    take(database, [of_gpus(number) for number in range(4)])
    ahead = [steps[:place].count("examined") - steps[:place].count("stored") for place in range(len(steps) + 1)]

    assert (steps.count("examined"), steps.count("stored")) == (4, 4)
    assert max(ahead) == 2  # the one that did not fit is in hand already


def test_a_call_that_cannot_be_examined_is_told_so_alone(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the particulars under its request's id, and the sender none of them."""
    good, bad = make_report(), make_report()
    fail_to_examine(monkeypatch, bad)

    statuses, lines = logged(database, [a_call(good, request_id="good"), a_call({"reports": [bad]}, request_id="bad")])

    assert statuses == [201, 500]
    assert [(line["request_id"], line["level"]) for line in lines] == [("bad", "error")]
    assert "of this one alone" in lines[0]["exception"]
    assert stored_ids(database_url) == [good["report_id"]]


def test_a_call_that_cannot_be_stored_is_told_so_alone(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Likewise, although it was stored together with others at first."""
    good, bad = [make_report(gpu__uuid="GPU-1"), make_report(gpu__uuid="GPU-2")], make_report()
    fail_to_store(monkeypatch, bad, LookupError("of this one alone"))
    calls = [a_call(good[0], request_id="1"), a_call(bad, request_id="bad"), a_call(good[1], request_id="2")]

    statuses, lines = logged(database, calls)

    assert statuses == [201, 500, 201]
    assert [(line["request_id"], line["level"]) for line in lines] == [("bad", "error")]
    assert "of this one alone" in lines[0]["exception"]
    assert stored_ids(database_url) == sorted(report["report_id"] for report in good)


def test_whoever_sent_what_broke_is_told_nothing_of_the_inside(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = make_report()
    fail_to_store(monkeypatch, bad, LookupError("hunter2"))

    [answer] = take(database, [a_call(bad)])

    assert told_by(answer)["code"] == "internal_error"
    assert "hunter2" not in json.dumps(told_by(answer))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OperationalError("BEGIN", {}, Exception("database is locked")), "database_unavailable"),
        (LostRaceError("others send the same"), "busy"),
    ],
)
def test_calls_that_can_be_stored_later_are_told_to_come_again(
    database: Database, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    """With the time to wait, which agents keep to."""
    bad = make_report()
    fail_to_store(monkeypatch, bad, error)

    [answer] = take(database, [a_call(bad)])

    assert isinstance(answer.reply, ProblemError)
    assert (answer.reply.problem.status, answer.reply.problem.code) == (503, code)
    assert int(answer.reply.headers["Retry-After"]) > 0


def test_calls_share_the_database_s_time_of_their_transaction(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the sum over all calls is what the database took; a call that stores nothing has none of it."""

    def storing(_database: Database, calls: Sequence[Sequence[Accepted]]) -> list[Outcome]:
        add_database_time(6.0)
        return [["created"] * len(call) for call in calls]

    monkeypatch.setattr(taking, "write_together", storing)
    calls = [of_gpus(1), a_call(b""), of_gpus(2, 3), a_call({"reports": [{}]}), of_gpus(4)]
    answers = take(database, calls)

    assert [answer.stats.database_s for answer in answers] == [2.0, 0.0, 2.0, 0.0, 2.0]


def test_it_is_noted_how_long_the_database_took(database: Database) -> None:
    """Of each call that stores something."""
    assert all(answer.stats.database_s > 0 for answer in take(database, [of_gpus(1), of_gpus(2)]))


def test_what_became_of_reports_is_noted_call_by_call(database: Database) -> None:
    """With the lag of those that are new; a call that is refused as a whole has no reports that could be counted."""
    report = make_report()
    measured_at = {"measured_from": "2026-11-20T01:59:00Z", "measured_to": "2026-11-20T02:00:00Z"}
    late = {**make_report(), **measured_at}
    calls = [a_call({"reports": [report, late, {}]}), a_call(report), a_call({}), a_call(b"")]

    courses = [answer.stats for answer in take(database, calls)]

    assert [dict(stats.outcomes) for stats in courses] == [
        {"created": 2, "rejected": 1},
        {"duplicate": 1},
        {"rejected": 1},
        {},
    ]
    assert NOW.hour == 3  # an hour later
    assert [sorted(stats.lags_s) for stats in courses] == [[3580.0, 3600.0], [], [], []]


def test_reports_that_could_not_be_stored_are_not_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """They will come again."""
    bad = make_report()
    fail_to_store(monkeypatch, bad, LookupError())

    [answer] = take(database, [a_call({"reports": [bad, {}]})])

    assert (dict(answer.stats.outcomes), answer.stats.lags_s) == ({}, [])
