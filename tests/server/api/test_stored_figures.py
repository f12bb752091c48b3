"""Every answer rests on what one evaluation stored, and on no other gpu than those that are shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from fleetridge_server.api import gpu_lists
from fleetridge_server.api.devices import RidgeQuery, read_ridge
from fleetridge_server.db.database import open_database
from fleetridge_server.db.tables import Gpu
from fleetridge_server.responses.verdict import Drawn
from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import gpu_ids, post, read, ridge
from support.reports import compute_roof, memory_roof

# A filter that takes everything.
LONG_AGO = "2020-01-01T00:00:00Z"

RATES = [SOUND + 1.5 * number for number in range(-5, 6)]


def fleet_of(rates: Iterable[float], name: str = "n01") -> list[dict[str, Any]]:
    """A node whose gpus also differ in memory; bursts and sustained products."""
    reports = []
    for index, rate in enumerate(rates):
        roofs = [
            compute_roof(rate),
            compute_roof(0.9 * rate + index, regime="sustained"),
            compute_roof(1.01 * rate, kernel="gemm_best"),
            memory_roof(4430.0 - index),
        ]
        own: dict[str, Any] = {
            "gpu__uuid": gpu_id(name, index),
            "gpu__index": index,
            "gpu__pci_bus_id": f"0000:{index:02X}:00.0",
        }
        reports += runs(name, [rate], roofs=roofs, **own)
    return reports


@pytest.fixture
def evaluated(client: AppClient, database_url: str) -> AppClient:
    """Twelve gpus, one of them slow, which an evaluation knows."""
    post(client, fleet_of([*RATES, SLOW]))
    evaluate(database_url)
    return client


def ageless(answer: Any) -> Any:
    """What an answer says apart from the moment at which it was asked for."""
    if isinstance(answer, dict):
        return {name: ageless(part) for name, part in answer.items() if name not in ("age_s", "as_of")}
    return [ageless(part) for part in answer] if isinstance(answer, list) else answer


def pages(client: AppClient, **params: Any) -> Iterator[Any]:
    """All pages of a ridge, one after the other."""
    answer = ridge(client, **params)
    while True:
        yield answer
        if answer["next"] is None:
            return
        answer = ridge(client, after=answer["next"], **params)


@contextmanager
def counted_statements() -> Iterator[list[str]]:
    """All that is asked of any database meanwhile, whether there are tokens apart."""
    statements: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement != "BEGIN" and "FROM tokens" not in statement:
            statements.append(statement)

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", count)


def test_a_filter_that_takes_everything_changes_nothing(evaluated: AppClient) -> None:
    """Figures, order and every row."""
    found = ridge(evaluated)

    assert len(found["ridges"]) == 2
    assert gpu_ids(found)[0] == gpu_id("n01", 11)
    for params in ({"since": LONG_AGO}, {"verdict": "outlier,ok"}, {"cluster": "east"}, {"driver": "580.159.04"}):
        assert ageless(ridge(evaluated, **params)) == ageless(found)


def test_the_figures_are_those_of_the_verdicts(evaluated: AppClient) -> None:
    """Number and median of each cohort, in the fleet's figures and in its bands."""
    answer = ridge(evaluated)

    bands = {cohort["roof"]["regime"]: cohort["bands"] for cohort in answer["cohorts"] if cohort["unit"] == "TFLOP/s"}
    for found in answer["ridges"]:
        [band] = bands[found["regime"]]
        assert (found["pi_tflops"]["n"], found["pi_tflops"]["median"]) == (band["n"], band["median"])


def test_the_list_of_devices_has_the_same_figures(evaluated: AppClient) -> None:
    """And counts, as of the evaluation."""
    [device] = read(evaluated, "/devices")["devices"]
    answer = ridge(evaluated)

    assert (device["ridges"], device["bandwidths"]) == (answer["ridges"], answer["bandwidths"])
    assert (device["gpus"], device["nodes"], device["verdicts"]) == (12, 1, {"outlier": 1, "ok": 11})
    assert device["newest_report"] == (NOW - HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_one_gpu_is_compared_with_the_stored_figures(evaluated: AppClient) -> None:
    """By itself as in the list."""
    [row] = [row for row in ridge(evaluated)["gpus"] if row["gpu_id"] == gpu_id("n01", 3)]
    gpu = read(evaluated, f"/gpus/{gpu_id('n01', 3)}")

    assert ageless([gpu["worst"], gpu["ridges"], gpu["bandwidths"]]) == ageless(
        [row["worst"], row["ridges"], row["bandwidths"]]
    )


def test_a_gpu_that_reported_since_says_so_beside_the_numbers_of_the_evaluation(
    evaluated: AppClient, database_url: str
) -> None:
    """In the list as by itself; the next evaluation has them all."""
    before, gpu_before = ridge(evaluated), read(evaluated, f"/gpus/{gpu_id('n01', 4)}")
    now = datetime.now(timezone.utc)
    for ago in (10, 0):
        reports = runs("n01", [1.1 * SOUND] * 5, days=1, until=now + HOUR - timedelta(minutes=ago))
        [again] = [run for run in reports if run["gpu"]["index"] == 4]
        post(evaluated, [again])

    after, gpu_after = ridge(evaluated), read(evaluated, f"/gpus/{gpu_id('n01', 4)}")
    evaluate(database_url)
    later = ridge(evaluated)

    waiting = {row["gpu_id"]: row.pop("not_judged_yet") for row in after["gpus"]}
    assert {row.pop("not_judged_yet") for row in before["gpus"]} == {None}
    assert waiting.pop(gpu_id("n01", 4))["report_id"] == again["report_id"]
    assert set(waiting.values()) == {None}
    assert ageless(after) == ageless(before)
    assert gpu_before["not_judged_yet"] is None
    assert gpu_after["not_judged_yet"]["report_id"] == again["report_id"]
    assert ageless(gpu_after["ridges"]) == ageless(gpu_before["ridges"])
    assert {row["not_judged_yet"] for row in later["gpus"]} == {None}
    assert later["ridges"] != before["ridges"]


def test_gpus_that_no_evaluation_knows_come_last(evaluated: AppClient, database_url: str) -> None:
    """New ones without a verdict, so that nothing is said of them and they are not hidden."""
    post(evaluated, fleet_of([SLOW, SLOW], name="n02"))

    answers = list(pages(evaluated, limit=5))
    evaluate(database_url)

    listed = [row for answer in answers for row in answer["gpus"]]
    assert [row["gpu_id"] for row in listed[12:]] == [gpu_id("n02", 0), gpu_id("n02", 1)]
    assert [row["verdict"] for row in listed[12:]] == [None, None]
    assert len(listed) == 14
    assert set(gpu_ids(ridge(evaluated))[:3]) == {gpu_id("n01", 11), gpu_id("n02", 0), gpu_id("n02", 1)}


def test_what_is_measured_in_a_new_way_waits_for_the_next_evaluation(evaluated: AppClient, database_url: str) -> None:
    """Then it stands alone, compared with nobody."""
    new = runs("n02", [SOUND], days=1, until=NOW + HOUR, roofs=[compute_roof(1600.0, dtype="int8")])
    post(evaluated, new)
    before = ridge(evaluated)["gpus"][-1]
    evaluate(database_url)
    [row] = [row for row in ridge(evaluated)["gpus"] if row["gpu_id"] == gpu_id("n02", 0)]

    assert (before["gpu_id"], before["ridges"], before["verdict"]) == (gpu_id("n02", 0), [], None)
    assert before["not_judged_yet"]["report_id"] == new[0]["report_id"]
    [own] = row["ridges"]
    assert (own["dtype"], own["peers"], own["note"]) == ("int8", 1, "too few peers to compare: 1 of at least 4")
    assert "unmeasured" not in row["flags"]


def test_pages_neither_skip_nor_repeat_while_an_evaluation_changes_the_order(
    client: AppClient, database_url: str
) -> None:
    """A list goes on in the order in which it began; a gpu that came meanwhile is the last."""
    post(client, runs("n01", RATES))
    evaluate(database_url)
    order = gpu_ids(ridge(client))

    answer = ridge(client, limit=4)
    found = gpu_ids(answer)
    post(client, runs("n01", RATES[::-1], days=1, until=datetime.now(timezone.utc) + HOUR))
    post(client, runs("n01", RATES[::-1], days=1, until=datetime.now(timezone.utc) + HOUR))
    post(client, runs("n02", [SLOW]))
    evaluate(database_url)
    while answer["next"] is not None:
        answer = ridge(client, limit=4, after=answer["next"])
        found += gpu_ids(answer)

    assert found == [*order, gpu_id("n02", 0)]
    assert gpu_ids(ridge(client))[:3] != order[:3]


def test_a_list_of_an_evaluation_and_one_without_are_told_apart(client: AppClient, database_url: str) -> None:
    """What began before the first evaluation goes on with the gpus that are left; no token is taken for a past time."""
    post(client, runs("n01", RATES))
    began = ridge(client, limit=4)
    evaluate(database_url)

    rest = ridge(client, limit=100, after=began["next"])
    newer = ridge(client, limit=4)
    refused = client.get("/devices/h200/ridge", params={"limit": 4, "after": newer["next"], "as_of": newer["as_of"]})

    assert sorted(gpu_ids(began) + gpu_ids(rest)) == sorted(gpu_ids(ridge(client)))
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"cluster": "west"}, ["n02"]),
        ({"node": "n01"}, ["n01"]),
        ({"cluster": "east", "node": "n02"}, []),
        ({"cluster": "nowhere"}, []),
    ],
)
def test_filters_by_place_choose_from_the_stored_order(
    client: AppClient, database_url: str, params: dict[str, str], expected: list[str]
) -> None:
    """Page by page as all at once."""
    post(client, runs("n01", RATES))
    post(client, runs("n02", RATES[:6], node__cluster="west"))
    evaluate(database_url)

    found = [gpu for answer in pages(client, limit=3, **params) for gpu in gpu_ids(answer)]

    assert {gpu.removeprefix("GPU-")[:3] for gpu in found} == set(expected)
    assert found == gpu_ids(ridge(client, **params))


@pytest.mark.parametrize(("driver", "gpus"), [("590.10", 6), ("580.159.04", 11), ("unknown", 3), ("570", 0), ("\0", 0)])
def test_a_filter_by_driver_chooses_from_the_stored_order(
    client: AppClient, database_url: str, driver: str, gpus: int
) -> None:
    """That of the newest rates, page by page as all at once."""
    post(client, runs("n01", RATES))
    post(client, runs("n02", RATES[:6], environment__driver="590.10", days=2))
    post(client, runs("n02", RATES[:6], until=NOW - 2 * DAY, days=2))
    post(client, runs("n03", RATES[:3], environment__driver=None))
    evaluate(database_url)

    found = [gpu for answer in pages(client, limit=4, driver=driver) for gpu in gpu_ids(answer)]

    assert len(found) == gpus
    assert found == gpu_ids(ridge(client, driver=driver))


def test_a_filter_by_verdict_takes_what_is_said_now_or_was_when_it_was_measured(
    client: AppClient, database_url: str
) -> None:
    """And counts all gpus all the same."""
    post(client, runs("n01", [*RATES, SLOW]))
    post(client, runs("n02", [SLOW], until=NOW - 10 * DAY))
    evaluate(database_url)

    answer = ridge(client, verdict="outlier,stale")

    assert gpu_ids(answer) == [gpu_id("n01", 11), gpu_id("n02", 0)]
    assert answer["verdicts"] == {"stale": 1, "outlier": 1, "ok": 11}
    assert answer["ridges"] == ridge(client)["ridges"]


def test_made_up_gpus_have_figures_of_their_own(client: AppClient, database_url: str) -> None:
    """Of the same device, evaluated beside the real ones."""
    post(client, runs("n01", RATES))
    post(client, runs("s01", [999.0] * 4, node__cluster="simulated"))
    evaluate(database_url)
    evaluate(database_url, simulated=True)

    real, made_up = ridge(client), ridge(client, cluster="simulated")

    assert (len(real["gpus"]), real["ridges"][0]["pi_tflops"]["n"]) == (11, 11)
    assert (len(made_up["gpus"]), made_up["ridges"][0]["pi_tflops"]["median"]) == (4, 999.0)


def test_gpus_in_quarantine_are_not_listed(evaluated: AppClient, database_url: str) -> None:
    """From the moment on at which they are, and before the next evaluation."""
    hidden = gpu_id("n01", 11)
    with closing(open_database(database_url)) as database, database.writing() as session:
        session.execute(update(Gpu).where(Gpu.identity == hidden).values(quarantined=True))

    assert hidden not in gpu_ids(ridge(evaluated))
    assert hidden not in gpu_ids(ridge(evaluated, verdict="outlier"))
    assert len(gpu_ids(ridge(evaluated))) == 11


@pytest.mark.parametrize("url", ["/devices", "/devices/h200/ridge?limit=3", "/fleet", "/gpus/GPU-n01-0"])
def test_the_number_of_queries_does_not_grow_with_an_evaluated_fleet(
    client: AppClient, database_url: str, url: str
) -> None:
    """Eight gpus or forty."""
    post(client, runs("n01", [SOUND] * 8))
    evaluate(database_url)
    with counted_statements() as few:
        client.get(url)
    post(client, [run for node in range(2, 6) for run in runs(f"n0{node}", [SOUND] * 8)])
    evaluate(database_url)
    with counted_statements() as many:
        client.get(url)

    assert 0 < len(many) == len(few) < 20


def test_coverage_of_now_is_that_which_all_reports_give(client: AppClient, database_url: str) -> None:
    """Whoever was never measured comes first, then whoever was not for longest."""
    post(client, runs("n01", [SOUND] * 4))
    post(client, runs("n02", [SOUND] * 2, until=NOW - 10 * DAY))
    post(client, runs("n03", [SOUND], until=NOW - 12 * DAY))
    post(client, runs("n03", [SOUND], days=1, evidence__contended=True))
    post(client, runs("n04", [SOUND], evidence__contended=True))
    evaluate(database_url)

    now = read(client, "/fleet")
    at_once = read(client, "/fleet", as_of=now["as_of"])

    assert now["coverage"] == at_once["coverage"]
    assert (now["coverage"]["gpus"], now["coverage"]["measured"]) == (8, 4)
    longest = [gpu["gpu_id"] for gpu in now["coverage"]["longest_unmeasured"]]
    assert longest == [gpu_id("n04", 0), gpu_id("n03", 0), gpu_id("n02", 0), gpu_id("n02", 1)]


def drawn(database_url: str, **params: Any) -> Drawn:
    """What the charts of the device are made from."""
    with closing(open_database(database_url)) as database:
        return read_ridge(database, "h200", RidgeQuery(**params), drawn=True).gpus.drawn


def test_charts_have_every_gpu_of_a_small_fleet(evaluated: AppClient, database_url: str) -> None:
    """Whatever the page of the list."""
    found = drawn(database_url, limit=2)

    assert (len(found.gpus), found.listed, found.is_complete, found.quantiles) == (12, 12, True, ())
    assert [gpu.location.gpu_id for gpu in found.gpus] == gpu_ids(ridge(evaluated))
    assert found.summaries[gpu_id("n01", 11)].state == "outlier"


def test_charts_draw_the_values_that_the_list_has(evaluated: AppClient, database_url: str) -> None:
    """Of every gpu and roof, with what it is held against."""
    rows = {row["gpu_id"]: row for row in ridge(evaluated)["gpus"]}

    for gpu in drawn(database_url).gpus:
        row = rows[gpu.location.gpu_id]
        assert [
            (own.pi.own.value, own.pi.against.median, own.beta and own.beta.own.value, own.flop_per_byte)
            for own in gpu.roofs.ridges
        ] == [
            (own["pi_tflops"], own["pi_median_tflops"], own["beta_gbps"], own["ridge_flop_per_byte"])
            for own in row["ridges"]
        ]


def test_gpus_that_nobody_judged_are_in_no_chart(evaluated: AppClient, database_url: str) -> None:
    """They are listed on every page alike, and drawn on none."""
    post(evaluated, fleet_of([SOUND, SOUND], name="n02"))

    found = [drawn(database_url, limit=limit) for limit in (3, 100)]

    assert [(len(own.gpus), own.listed, own.is_complete) for own in found] == [(12, 14, True)] * 2


@pytest.mark.usefixtures("evaluated")
def test_charts_of_a_large_fleet_have_the_accused_and_quantiles(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all peers, from the slowest to the fastest."""
    monkeypatch.setattr(gpu_lists, "MOST_DRAWN", 10)

    found = drawn(database_url)

    assert [gpu.location.gpu_id for gpu in found.gpus] == [gpu_id("n01", 11)]
    assert (found.listed, found.is_complete, len(found.quantiles)) == (12, False, 3)
    [burst] = [own for own in found.quantiles if own.roof.regime == "burst" and own.roof.kind == "compute"]
    assert (len(burst.quantiles), burst.quantiles[0], burst.quantiles[100]) == (101, SLOW, RATES[-1])
    assert (burst.quantiles[50], burst.peers.n) == (burst.peers.median, 12)


@pytest.mark.usefixtures("evaluated")
def test_a_filter_chooses_what_is_drawn_and_moves_nothing(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same gpus, quantiles and count under one that takes everything."""
    monkeypatch.setattr(gpu_lists, "MOST_DRAWN", 10)

    assert drawn(database_url, since=LONG_AGO) == drawn(database_url)
