"""Lists of gpus, page by page, while evaluations come, orders go, gpus move and others are new."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import delete, select

from fleetridge_server.db.database import open_database
from fleetridge_server.db.verdict_tables import EvaluationColumns, StoredEvaluation
from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.evaluations import Fleet
from support.fleet import gpu_ids, post, read, ridge
from support.reports import make_skipped_report

MINUTE = timedelta(minutes=1)
RATES = [SOUND + number for number in range(-5, 6)]


def rest(client: AppClient, answer: Any, **params: Any) -> Iterator[str]:
    """Gpus of the pages that follow one."""
    while answer["next"] is not None:
        answer = ridge(client, after=answer["next"], **params)
        yield from gpu_ids(answer)


def forget_columns(client: AppClient) -> None:
    """Have every order but that of the newest evaluation be gone, as after many more evaluations."""
    with closing(open_database(client.database_url)) as database, database.writing() as session:
        newest = session.scalars(select(StoredEvaluation.id).order_by(StoredEvaluation.as_of.desc())).first()
        session.execute(delete(EvaluationColumns).where(EvaluationColumns.evaluation_id != newest))


def unmeasured(count: int) -> list[dict[str, Any]]:
    """Reports of gpus that nobody could measure: equally bad all of them."""
    moment = (NOW - 2 * HOUR).isoformat()
    common: dict[str, Any] = {"measured_from": moment, "measured_to": moment, "run__roster": None}
    return [
        make_skipped_report("busy", gpu__uuid=f"GPU-b{number:02}", run__roster_complete=None, **common)
        for number in range(count)
    ]


@pytest.mark.parametrize("params", [{}, {"dtype": "bfloat16"}, {"verdict": "ok"}, {"node": "n01"}, {"cluster": "east"}])
def test_pages_have_every_gpu_once(client: AppClient, params: dict[str, str]) -> None:
    """In the order of the whole list, whatever is filtered."""
    post(client, [*runs("n01", [SOUND] * 6), *runs("n02", [SLOW, SOUND, SOUND + 1])])
    evaluate(client.database_url)
    whole = gpu_ids(ridge(client, **params))

    for limit in (1, 2, 4):
        first = ridge(client, limit=limit, **params)
        assert [*gpu_ids(first), *rest(client, first, limit=limit, **params)] == whole


@pytest.mark.parametrize("params", [{}, {"regime": "burst"}])
def test_a_list_goes_on_in_its_order_while_evaluations_come(client: AppClient, params: dict[str, str]) -> None:
    """With the numbers of the newest, which says so."""
    post(client, runs("n01", RATES, until=NOW - DAY))
    evaluate(client.database_url, at=NOW - DAY)
    whole = gpu_ids(ridge(client, **params))
    answer = ridge(client, limit=4, **params)
    found = gpu_ids(answer)
    for hours in (3, 2):
        post(client, runs("n01", RATES[::-1], days=2, until=NOW - hours * HOUR))
        evaluate(client.database_url, at=NOW - hours * HOUR)
        answer = ridge(client, limit=4, after=answer["next"], **params)
        found += gpu_ids(answer)

    assert found == whole
    assert answer["next"] is None
    assert answer["evaluated_as_of"] == (NOW - 2 * HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert gpu_ids(ridge(client, **params)) != whole


def test_a_page_is_never_as_of_a_time_before_its_evaluation(client: AppClient) -> None:
    """Whom the filter took when the list began stays listed, with what is said of it now and of what age."""
    post(client, runs("n01", RATES, until=NOW - DAY))
    evaluate(client.database_url, at=NOW - DAY)
    whole = gpu_ids(ridge(client, verdict="ok"))
    first = ridge(client, verdict="ok", limit=4)
    again = [SOUND] * 11
    again[int(whole[5].rpartition("-")[2])] = SLOW
    later = datetime.now(timezone.utc)
    post(client, runs("n01", again, until=later + HOUR))
    evaluate(client.database_url)

    second = ridge(client, verdict="ok", limit=4, after=first["next"])
    third = ridge(client, verdict="ok", limit=4, after=second["next"])

    assert [gpu for page in (first, second, third) for gpu in gpu_ids(page)] == whole
    assert second["gpus"][1]["verdict"]["state"] != "ok"
    assert first["as_of"] < second["evaluated_as_of"] <= second["as_of"] == third["as_of"]
    assert min(row["age_s"] for page in (second, third) for row in page["gpus"]) >= 0


def test_a_list_whose_order_is_gone_goes_on_by_how_bad_the_gpus_are(client: AppClient) -> None:
    """Where nothing else changed none is left out or given again."""
    post(client, runs("n01", [SLOW, *RATES]))
    post(client, unmeasured(5))
    evaluate(client.database_url, at=NOW)
    whole = gpu_ids(ridge(client))
    for limit in (1, 3, 13, 14):
        answer = ridge(client, limit=limit)
        evaluate(client.database_url)
        forget_columns(client)

        assert [*gpu_ids(answer), *rest(client, answer, limit=100)] == whole


def test_a_gpu_that_moves_to_another_cluster_shifts_no_page(client: AppClient) -> None:
    """Of a list of one cluster that one is gone and the others follow each other."""
    post(client, runs("n01", RATES))
    evaluate(client.database_url)
    whole = gpu_ids(ridge(client, cluster="east"))
    first = ridge(client, cluster="east", limit=4)
    moved = whole[1]
    again = runs("n01", RATES, days=1, until=NOW + HOUR - MINUTE, node__cluster="west")
    post(client, [run for run in again if run["gpu"]["uuid"] == moved])

    assert [*gpu_ids(first), *rest(client, first, cluster="east", limit=4)] == whole


def test_a_list_that_began_before_the_first_evaluation_has_every_gpu(client: AppClient) -> None:
    """By their ids to its end; those that come after have the numbers of the evaluation."""
    post(client, runs("n01", [SLOW, *RATES]))
    first = ridge(client, limit=4)
    evaluate(client.database_url)
    second = ridge(client, limit=4, after=first["next"])

    found = [*gpu_ids(first), *gpu_ids(second), *rest(client, second, limit=4)]
    assert found == sorted(gpu_id("n01", number) for number in range(12))
    assert {len(row["ridges"]) for row in first["gpus"]} == {0}
    assert {row["not_judged_yet"] is None for row in first["gpus"]} == {False}
    assert {len(row["ridges"]) for row in second["gpus"]} == {1}


def test_new_gpus_come_last_and_are_counted_to_the_end(client: AppClient) -> None:
    """Page by page, also where the last page of judged ones is just full."""
    post(client, runs("n01", RATES[:4]))
    evaluate(client.database_url)
    post(client, runs("n02", RATES[:5]))

    first = ridge(client, limit=4)

    assert [*gpu_ids(first), *rest(client, first, limit=2)] == [
        *gpu_ids(ridge(client, verdict="ok")),
        *(gpu_id("n02", number) for number in range(5)),
    ]


def test_a_place_in_a_list_of_now_is_none_in_one_of_the_past(client: AppClient) -> None:
    """Nor the other way round; of its own list it is, with the time or without."""
    post(client, runs("n01", RATES))
    evaluate(client.database_url, at=NOW)
    past = NOW.isoformat()
    now, then = ridge(client, limit=4), ridge(client, limit=4, as_of=past)

    for params in ({"after": now["next"], "as_of": past}, {"after": then["next"], "as_of": (NOW + HOUR).isoformat()}):
        refused = client.get("/devices/h200/ridge", params=params)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert list(rest(client, then, limit=4)) == list(rest(client, then, limit=4, as_of=past))


def test_a_past_list_has_its_gpus_to_the_end(client: AppClient) -> None:
    """Though more was evaluated meanwhile."""
    post(client, runs("n01", RATES, until=NOW - 5 * DAY))
    past = (NOW - 4 * DAY).isoformat()
    whole = gpu_ids(ridge(client, as_of=past))
    first = ridge(client, limit=4, as_of=past)
    post(client, runs("n01", RATES[::-1]))
    evaluate(client.database_url)

    assert [*gpu_ids(first), *rest(client, first, limit=4)] == whole
    assert len(whole) == 11


def test_what_a_historical_evaluation_knows_is_judged(client: AppClient) -> None:
    """Though it arrived after the time that was asked for; what was measured later is not spoken of."""
    post(client, runs("n01", RATES, until=NOW - 5 * DAY))
    past = (NOW - 4 * DAY).isoformat()
    made = read(client, f"/gpus/{gpu_id('n01', 3)}", as_of=past)
    historical(client, NOW - 4 * DAY)
    stored = read(client, f"/gpus/{gpu_id('n01', 3)}", as_of=past)
    listed = ridge(client, as_of=past)
    post(client, runs("n01", RATES, days=1))
    late = runs("n01", RATES[:1], days=1, until=NOW - 4 * DAY - MINUTE)
    post(client, late)

    after = {row["gpu_id"]: row["not_judged_yet"] for row in ridge(client, as_of=past)["gpus"]}

    assert (made["not_judged_yet"], stored["not_judged_yet"]) == (None, None)
    assert stored["evaluated_at"] is not None
    assert {row["not_judged_yet"] for row in listed["gpus"]} == {None}
    assert {gpu: own["report_id"] for gpu, own in after.items() if own is not None} == {
        gpu_id("n01", 0): late[0]["report_id"]
    }


def historical(client: AppClient, as_of: datetime) -> None:
    """Have the only device evaluated as of a time of the past."""
    with closing(open_database(client.database_url)) as database:
        fleet = Fleet(database, now=datetime.now(timezone.utc))
        fleet.evaluator.evaluate_past(fleet.device_group(), as_of)
