from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, func, make_url, select, text

from fleetridge.report import MAX_REPORTS, Environment
from fleetridge_server.db.tables import Document, Gpu, Report
from fleetridge_server.intake.body import MAX_BODY_BYTES
from fleetridge_server.intake.store import LostRaceError
from support.app_client import app_client
from support.patience import PATIENCE_S
from support.reports import make_report, make_skipped_report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from fleetridge_server.db.database import Database
    from support.app_client import AppClient

pytestmark = pytest.mark.both_databases


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
).map(json.dumps)

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 1e-300, 1e15, 1e300, float("nan"), "", " ", "[N/A]"]),
    st.text(min_size=1),
    st.text(min_size=200, max_size=260),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(), st.text(), max_size=3),
)


def outcomes(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [result["outcome"] for result in answer.json()["results"]]


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    """An error in the one shape that all of them have."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = answer.json()
    assert content.keys() >= {"status", "code", "title", "detail", "errors"}
    assert content["status"] == status
    return content


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in problem(answer, 422)["errors"]]


def stored_reports(database: Database) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(Report)) or 0


def test_one_report_is_created_once(client: AppClient) -> None:
    """201, then 200 for every retry."""
    report = make_report()

    answers = [client.post("/reports", json=report) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [201, 200, 200]
    assert [answer.json()["outcome"] for answer in answers] == ["created", "duplicate", "duplicate"]
    assert answers[0].json() == {"report_id": report["report_id"], "outcome": "created", "errors": []}


def test_the_same_content_spelled_otherwise_is_the_same_report(client: AppClient) -> None:
    """Another order of fields, another zone, another spelling of the id."""
    report = make_report()
    respelled = dict(reversed(report.items())) | {"measured_to": "2026-11-20T11:00:20+09:00"}

    client.post("/reports", json=report)

    assert client.post("/reports", json=respelled).status_code == 200
    assert client.post("/reports", json={**report, "report_id": report["report_id"].upper()}).status_code == 200


def test_another_content_under_a_taken_id_is_a_conflict(client: AppClient) -> None:
    """409, and the first report stays as it is."""
    report = make_report()
    client.post("/reports", json=report)

    answer = client.post("/reports", json={**report, "outcome": "failed", "reason": "crashed"})

    assert problem(answer, 409)["code"] == "conflict"
    assert (answer.json()["report_id"], answer.json()["outcome"]) == (report["report_id"], "conflict")
    assert client.get(f"/reports/{report['report_id']}").json() == report


def test_a_report_comes_back_as_it_was_sent(client: AppClient) -> None:
    """Unknown fields, order, zones and words for no reading stay."""
    report = make_report(later_field={"b": [1, 2.5, None, "é"], "a": 2**63 - 1})
    report |= {"measured_to": "2026-11-20T11:00:20+09:00"}
    report["environment"]["power_limit_w"] = "[Not Supported]"

    client.post("/reports", json=report)
    answer = client.get(f"/reports/{report['report_id']}")

    assert answer.headers["content-type"] == "application/json"
    assert answer.text == json.dumps(report, ensure_ascii=False, separators=(",", ":"))


def test_an_unknown_report_is_not_found(client: AppClient) -> None:
    """And a text that is no id is called so."""
    assert problem(client.get(f"/reports/{uuid4()}"), 404)["code"] == "unknown_report"
    assert fields(client.get("/reports/latest")) == ["path.report_id"]


def test_a_dropped_document_is_gone_but_its_summary_is_told(client: AppClient, database: Database) -> None:
    """Retention keeps what was measured and drops what was sent."""
    report = make_report()
    client.post("/reports", json=report)
    with database.writing() as session:
        session.execute(delete(Document))

    gone = problem(client.get(f"/reports/{report['report_id']}"), 410)

    summary = gone["summary"]
    assert {name: summary[name] for name in ("gpu_id", "device", "node", "cluster", "outcome", "driver")} == {
        "gpu_id": report["gpu"]["uuid"],
        "device": "H200",
        "node": "node-01",
        "cluster": "east",
        "outcome": "measured",
        "driver": "580.159.04",
    }
    assert [roof["value"] for roof in summary["roofs"]] == [roof["value"] for roof in report["roofs"]]
    assert client.post("/reports", json=report).status_code == 200


def test_a_bad_report_is_refused_by_field(client: AppClient) -> None:
    """With its id and outcome, for a program that sent many."""
    report = make_report(run__kind="guess", later={"x": 1})
    report["points"][0]["ms"] = -1

    answer = client.post("/reports", json=report)

    assert sorted(fields(answer)) == ["points[0].ms", "run.kind"]
    assert (answer.json()["report_id"], answer.json()["outcome"]) == (report["report_id"], "rejected")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"later": NaN}', "later"),
        (b'{"later": [1, Infinity]}', "later[1]"),
        (b'{"node": {"name": "n1\\u0000"}}', "node.name"),
        (b'{"gpu": {"memory_bytes": 18446744073709551616}}', "gpu.memory_bytes"),
        (b'{"later": 1e999}', "later"),
        (b'{"later": ' + b"[" * 100 + b"]" * 100 + b"}", "later" + "[0]" * 63),
    ],
)
def test_json_that_cannot_be_kept_is_refused_by_field(client: AppClient, body: bytes, field: str) -> None:
    """The same answer on both databases."""
    assert fields(client.post("/reports", content=body)) == [field]


@pytest.mark.parametrize(
    "body", [b"", b"pi=13.5", b'{"a": 1', b"\xff\xfe{}", b"[" * 100_000, b'{"a": "\\ud800"}', b"1" * 10_000]
)
def test_what_is_not_json_is_refused(client: AppClient, body: bytes) -> None:
    """Whatever the bytes are."""
    assert problem(client.post("/reports", content=body), 422)["code"] == "not_json"


@pytest.mark.parametrize("body", ["[]", "5", "null", '"report"', "[{}]"])
def test_json_that_is_no_object_is_refused(client: AppClient, body: str) -> None:
    """A bare list too: it has no place for the time of sending."""
    assert "reports" in problem(client.post("/reports", content=body), 422)["detail"]


def test_a_list_is_taken_report_by_report(client: AppClient) -> None:
    """One that is bad, or not even a report, costs no other, and the order is kept."""
    good, other = make_report(), make_report(gpu__uuid="GPU-2")
    bad = make_report(gpu=None)
    items = [good, bad, good, None, {**good, "outcome": "failed", "reason": "x"}, other, {"report_id": 4}]

    answer = client.post("/reports", json={"sent_at": "2026-11-20T02:01:00Z", "reports": items})

    assert outcomes(answer) == ["created", "rejected", "duplicate", "rejected", "conflict", "created", "rejected"]
    results = answer.json()["results"]
    assert [result["report_id"] for result in results] == [
        good["report_id"],
        bad["report_id"],
        good["report_id"],
        None,
        good["report_id"],
        other["report_id"],
        None,
    ]
    assert [bool(result["errors"]) for result in results] == [False, True, False, True, False, False, True]
    assert client.get(f"/reports/{other['report_id']}").status_code == 200


def test_a_number_that_json_does_not_know_costs_its_own_report_only(client: AppClient) -> None:
    """A bare NaN in one report of a list."""
    body = json.dumps({"reports": [make_report(), make_report(later=float("nan")), make_report()]})

    answer = client.post("/reports", content=body)

    assert outcomes(answer) == ["created", "rejected", "created"]
    assert answer.json()["results"][1]["errors"][0]["field"] == "later"


@pytest.mark.parametrize("sent_at", [None, "2026-11-20T02:01:00Z", "2026-11-20T11:01:00+09:00", "2026-11-20T02:01:00"])
def test_a_list_may_say_when_it_was_sent(client: AppClient, sent_at: str | None) -> None:
    """In any zone, in none, or not at all."""
    assert outcomes(client.post("/reports", json={"sent_at": sent_at, "reports": [make_report()]})) == ["created"]


@pytest.mark.parametrize(
    ("envelope", "field"),
    [
        ({"reports": []}, "reports"),
        ({"reports": {}}, "reports"),
        ({"reports": None}, "reports"),
        ({"reports": [0] * (MAX_REPORTS + 1)}, "reports"),
        ({"reports": [0], "sent_at": 1767225600}, "sent_at"),
        ({"reports": [0], "sent_at": "noon"}, "sent_at"),
        ({"reports": [0], "by": "\u0000"}, "by"),
    ],
)
def test_a_faulty_envelope_is_refused_as_a_whole(client: AppClient, envelope: dict[str, Any], field: str) -> None:
    """Nothing in it is looked at."""
    answer = client.post("/reports", json=envelope)

    assert fields(answer) == [field]
    assert answer.json()["code"] == "invalid_envelope"


def test_a_whole_node_fits_in_one_call(client: AppClient) -> None:
    """64 partitions of one host, each its own gpu."""
    partitions = [make_report(gpu__uuid=f"GPU-{n:02}", gpu__partition="CPX/NPS4") for n in range(64)]

    assert outcomes(client.post("/reports", json={"reports": partitions})) == ["created"] * 64


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
def test_a_body_may_be_compressed(client: AppClient, encoding: str) -> None:
    """With gzip, under either of its names."""
    body = gzip.compress(json.dumps(make_report()).encode())

    assert client.post("/reports", content=body, headers={"Content-Encoding": encoding}).status_code == 201


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_other_encodings_are_refused(client: AppClient, encoding: str) -> None:
    """And the answer says which one is known."""
    answer = client.post("/reports", content=b"{}", headers={"Content-Encoding": encoding})

    assert problem(answer, 415)["code"] == "unsupported_encoding"
    assert answer.headers["accept-encoding"] == "gzip"


def test_a_bomb_is_refused(client: AppClient) -> None:
    """16 kB that would become more than the limit."""
    body = gzip.compress(b" " * (MAX_BODY_BYTES + 1), compresslevel=9)

    answer = client.post("/reports", content=body, headers={"Content-Encoding": "gzip"})

    assert "split" in problem(answer, 413)["detail"]


def test_what_is_not_gzip_is_refused(client: AppClient) -> None:
    """Although it says so."""
    answer = client.post("/reports", content=b"{}", headers={"Content-Encoding": "gzip"})

    assert problem(answer, 422)["code"] == "not_gzip"


def test_a_body_that_announces_too_much_is_refused_unread(client: AppClient) -> None:
    """The length alone is enough."""
    headers = {"Content-Length": str(50 * 1024**2)}

    assert problem(client.post("/reports", content=b"{}", headers=headers), 413)["code"] == "body_too_large"


def test_a_body_without_a_length_is_counted_as_it_comes(client: AppClient) -> None:
    """Chunked bodies are refused once they pass the limit, long before their end."""
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * MAX_BODY_BYTES:
            sent += 2**20
            yield bytes(2**20)

    answer = client.post("/reports", content=endless())

    assert problem(answer, 413)["code"] == "body_too_large"
    assert client.get("/livez").status_code == 200


def test_after_refusals_there_is_room_again(client: AppClient) -> None:
    """Bodies that were refused do not count as waiting."""
    for _ in range(20):
        client.post("/reports", content=bytes(MAX_BODY_BYTES // 2) + b"x")

    assert client.post("/reports", json=make_report()).status_code == 201


@pytest.mark.parametrize(
    ("ahead", "flagged"),
    [
        (timedelta(minutes=2), False),
        (timedelta(minutes=30), True),
        (timedelta(days=3), True),
        (timedelta(days=29_000), True),
    ],
)
def test_a_clock_ahead_is_accepted_and_never_newest_for_ever(
    client: AppClient, database: Database, ahead: timedelta, flagged: bool
) -> None:
    """A later report of a right clock is the newest again."""
    wrong = (datetime.now(timezone.utc) + ahead).isoformat()
    assert client.post("/reports", json=make_report(measured_to=wrong, gpu__index=1)).status_code == 201
    right = datetime.now(timezone.utc).isoformat()
    assert client.post("/reports", json=make_report(measured_to=right, gpu__index=2)).status_code == 201

    with database.reading() as session:
        assert session.scalar(select(Gpu.gpu_index)) == 2
        flags = session.scalars(select(Report.clock_ahead).order_by(Report.received_at)).all()

    assert flags == [flagged, False]


def test_a_node_whose_clock_is_wrong_is_put_right_by_when_it_sent(client: AppClient, database: Database) -> None:
    """Its error now is its error then; so the report stands ten minutes before its arrival."""
    by_its_clock = datetime(2031, 1, 1, tzinfo=timezone.utc)
    measured_to = (by_its_clock - timedelta(minutes=10)).isoformat()
    envelope = {"sent_at": by_its_clock.isoformat(), "reports": [make_report(measured_to=measured_to)]}

    assert outcomes(client.post("/reports", json=envelope)) == ["created"]
    with database.reading() as session:
        stored = session.scalars(select(Report)).one()

    assert stored.ordered_at is not None
    assert stored.received_at - stored.ordered_at == timedelta(minutes=10)
    assert stored.clock_ahead


def test_times_in_any_form_are_the_same_moment(client: AppClient, database: Database) -> None:
    """With Z, with another zone, without any."""
    forms = ["2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00+09:00"]
    for form in forms:
        report = make_report(measured_from=form, measured_to=form)
        assert client.post("/reports", json=report).status_code == 201

    with database.reading() as session:
        assert set(session.scalars(select(Report.ordered_at))) == {datetime(2026, 1, 1, tzinfo=timezone.utc)}


def test_a_node_that_cannot_measure_is_heard(client: AppClient) -> None:
    """The reason is kept, without a gpu."""
    for reason in ("nvml_unknown_error", "driver_library_mismatch", "cuda_not_ready"):
        report = make_skipped_report(reason, outcome="failed", gpu=None)
        assert client.post("/reports", json=report).status_code == 201


def test_agents_that_post_at_once_lose_nothing(client: AppClient, database: Database) -> None:
    """64 agents, ten reports each, and people who read meanwhile: all are stored, or told to come again."""
    statuses: Counter[int] = Counter()

    def agent(number: int) -> None:
        for _ in range(10):
            report = make_report(gpu__uuid=f"GPU-{number}", node__name=f"n{number % 4}")
            answer = client.post("/reports", json=report)
            while answer.status_code == 503:
                assert answer.headers["retry-after"]
                answer = client.post("/reports", json=report)
            statuses.update([answer.status_code, client.get(f"/reports/{report['report_id']}").status_code])

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)

    assert statuses == {201: 640, 200: 640}
    assert stored_reports(database) == 640
    assert client.get("/readyz").status_code == 200


def test_a_database_that_is_locked_is_answered_with_503(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored, reads and health answer meanwhile, and the same call does afterwards."""
    report = make_report()
    with app_client(impatient(database_url, monkeypatch)) as client:
        with database.writing() as session:
            if database.engine.dialect.name == "postgresql":  # SQLite locks as a whole by itself
                session.execute(text("LOCK TABLE reports IN SHARE ROW EXCLUSIVE MODE"))
            answer = client.post("/reports", json=report)
            meanwhile = [client.get("/livez"), client.get("/readyz"), client.get(f"/reports/{report['report_id']}")]
        afterwards = client.post("/reports", json=report)

    assert problem(answer, 503)["code"] == "database_unavailable"
    assert int(answer.headers["retry-after"]) > 0
    assert [answer.status_code for answer in meanwhile] == [200, 200, 404]
    assert afterwards.status_code == 201


def test_a_race_that_is_lost_for_good_is_a_matter_of_waiting(
    client: AppClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored, and the sender is told to come again."""

    def lose(*_arguments: object, **_named: object) -> None:
        raise LostRaceError

    with monkeypatch.context() as patched:
        patched.setattr("fleetridge_server.intake.store.store_calls", lose)
        answer = client.post("/reports", json=make_report())

    assert problem(answer, 503)["code"] == "busy"
    assert answer.headers["retry-after"]
    assert stored_reports(database) == 0


def impatient(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address under which the database waits for a lock for a moment only."""
    monkeypatch.setattr("fleetridge_server.db.database._SQLITE_BUSY_MS", 100)
    url = make_url(database_url)
    if url.get_backend_name() == "postgresql":
        url = url.update_query_dict({"options": "-c statement_timeout=3000"})
    return url.render_as_string(hide_password=False)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=json_texts | st.binary() | json_texts.map(lambda item: f'{{"reports": [{item}, {item}]}}'))
def test_no_body_makes_the_server_fail(client: AppClient, body: str | bytes) -> None:
    """Any bytes get an answer that says what is wrong with them."""
    answer = client.post("/reports", content=body)

    assert answer.status_code in {200, 422}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_report_with_anything_in_any_place_is_kept_whole_or_refused(client: AppClient, data: st.DataObject) -> None:
    """What the models let through, both databases can hold and give back."""
    report = make_report(later={"x": [1]}, detail="x", run__roster_complete=True)
    place: Any = report
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(odd_values)

    answer = client.post("/reports", content=json.dumps(report))

    assert answer.status_code in {201, 422}, answer.text
    if answer.status_code == 201:
        assert client.get(f"/reports/{report['report_id']}").json() == report


def test_a_small_body_that_unfolds_into_endless_values_is_too_large(client: AppClient) -> None:
    """Told like a large one, so that the sender of a list splits it."""
    body = gzip.compress(b'{"x":[' + b"0," * 8_000_000 + b"0]}")

    answer = client.post("/reports", content=body, headers={"Content-Encoding": "gzip"})

    assert len(body) < 50_000
    assert problem(answer, 413)["code"] == "body_too_large"


def test_an_answer_to_a_list_of_faulty_reports_is_short(client: AppClient) -> None:
    """Each is told why, the later ones in fewer words."""
    faulty = make_report(environment=dict.fromkeys(Environment.model_fields, "x" * 300))
    reports = [faulty | {"outcome": "x" * 1000, "report_id": str(uuid4())} for _ in range(MAX_REPORTS)]

    answer = client.post("/reports", json={"reports": reports})

    results = answer.json()["results"]
    assert [result["report_id"] for result in results] == [report["report_id"] for report in reports]
    assert all(result["errors"] for result in results)
    assert len(answer.content) < 300_000


def test_an_answer_to_an_endless_fault_is_short(client: AppClient) -> None:
    """What was sent does not come back."""
    answer = client.post("/reports", json=make_report(points=[{"kind": "x" * 1_000_000}]))

    assert problem(answer, 422)["errors"]
    assert len(answer.content) < 5_000


def test_a_report_with_a_field_reports_is_read_as_a_list(client: AppClient) -> None:
    """No report has a field of this name."""
    report, inner = make_report(), make_report()

    answer = client.post("/reports", json=report | {"reports": [inner]})

    assert outcomes(answer) == ["created"]
    assert client.get(f"/reports/{report['report_id']}").status_code == 404
