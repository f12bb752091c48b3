"""
One truth: whatever is asked, and however, the same has the same number.

For any fleet no filter, page, form, time of now or other route changes a number that is said of a gpu, of its peers or
of its cohort: filters choose what is listed, never who the peers are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from fleetridge_server.engine.statistics import distribution
from support.app_client import app_client
from support.asked_fleet import AskedFleet, FleetServer, moment_now
from support.said import (
    Roof,
    Said,
    bands_said,
    beta_roof,
    cohort_key,
    cohorts_said,
    comparison_said,
    contradictions,
    distribution_said,
    gpu_said,
    named_roof,
    node_said,
    pi_roof,
    ridge_said,
    roofs_said,
    slowest_said,
    strangers,
    subjects,
    workloads_said,
)
from support.said_in_words import (
    csv_said,
    device_page_said,
    devices_text_said,
    gpu_page_said,
    gpu_text_said,
    ridge_text_said,
    workloads_text_said,
)
from support.small_fleets import SmallFleet, small_fleets

# Each example is a fleet that is posted, evaluated and asked some dozen questions: a fraction of the usual number, and
# none to make a failing one smaller, which takes minutes.
any_fleets = settings(
    max_examples=max(4, settings().max_examples // 20),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def server(database_url: str) -> Iterator[FleetServer]:
    """A server without limits of calls, on SQLite and on PostgreSQL."""
    with app_client(database_url, calls_per_s=0) as client:
        yield FleetServer.of(client, database_url)


def now() -> datetime:
    return datetime.now(timezone.utc)


def filters_of(asked: AskedFleet, whole: Any) -> list[dict[str, str]]:
    """Every filter that takes something, each by itself."""
    rows = whole["gpus"]
    roofs = [own for row in rows for own in row["ridges"]]
    reports = [asked.gpu(row["gpu_id"])["latest"] for row in rows]
    chosen = {
        "dtype": {own["dtype"] for own in roofs} | {"float32"},
        "regime": {own["regime"] for own in roofs},
        "cluster": {row["cluster"] for row in rows},
        "node": {row["node"] for row in rows if row["node"] is not None},
        "driver": {report["driver"] for report in reports if report is not None and report["driver"] is not None},
        "verdict": {row["verdict"]["state"] for row in rows if row["verdict"] is not None},
        "since": {LONG_AGO, *((now() - timedelta(days=days)).isoformat() for days in (0.5, 2, 30))},
    }
    return [{name: value} for name, values in chosen.items() for value in sorted(values)]


def question(params: Mapping[str, Any]) -> str:
    """How a question is called where its answer differs."""
    return "?" + "&".join(f"{name}={value}" for name, value in params.items())


@any_fleets
@given(fleet=small_fleets(), chosen=st.data())
def test_filters_and_the_time_of_now_change_no_number(
    server: FleetServer, fleet: SmallFleet, chosen: st.DataObject
) -> None:
    """Each filter alone, with another, and as of this very moment."""
    asked = server.with_fleet(fleet, now())
    whole = asked.ridge()
    filters = filters_of(asked, whole)
    both = chosen.draw(st.sampled_from(filters)) | chosen.draw(st.sampled_from(filters))
    questions = [*filters, both, {"as_of": moment_now()}, {"as_of": moment_now()} | both]

    said = list(ridge_said(whole, "plain"))
    for params in questions:
        said += ridge_said(asked.ridge(**params), question(params))

    note(str(asked.fleet))
    assert contradictions(said) == []


@any_fleets
@given(fleet=small_fleets())
def test_filters_choose_gpus_and_leave_the_cohorts_alone(server: FleetServer, fleet: SmallFleet) -> None:
    """A filter by place, driver, verdict or time lists fewer gpus beside the very same cohorts."""
    asked = server.with_fleet(fleet, now())
    whole = asked.ridge()
    order = [row["gpu_id"] for row in whole["gpus"]]
    cohorts = [*cohorts_said(whole, ""), *bands_said(whole["cohorts"], "")]

    note(str(asked.fleet))
    for params in filters_of(asked, whole):
        answer = asked.ridge(**params)
        listed = [row["gpu_id"] for row in answer["gpus"]]
        assert listed == [gpu_id for gpu_id in order if gpu_id in listed] or "dtype" in params or "regime" in params
        if not {"dtype", "regime"} & set(params):
            assert [*cohorts_said(answer, ""), *bands_said(answer["cohorts"], "")] == cohorts, params


@any_fleets
@given(fleet=small_fleets(), limit=st.integers(1, 4))
def test_pages_and_forms_change_no_number(server: FleetServer, fleet: SmallFleet, limit: int) -> None:
    """Page by page, as text, as CSV, as a page of the dashboard, and as the band that a preflight asks for."""
    asked = server.with_fleet(fleet, now())
    whole, url = asked.ridge(), f"/devices/{asked.slug}/ridge"
    pages = list(asked.pages(limit=limit))

    said = list(ridge_said(whole, "plain"))
    paged = [one for answer in pages for one in ridge_said(answer, f"?limit={limit}")]
    table = list(csv_said(asked.text(f"{url}.csv", limit=1000), "CSV"))
    said += [*paged, *table, *ridge_said(asked.band(), "band of a preflight")]
    said += ridge_text_said(asked.text(url, limit=1000), whole, "text")
    said += device_page_said(asked.page(f"/ui/devices/{asked.slug}"), whole, "page")

    note(str(asked.fleet))
    assert contradictions(said) == []
    assert [row for answer in pages for row in _ids(answer)] == _ids(whole)
    assert subjects(paged) == subjects(ridge_said(whole, "plain"))
    assert subjects(table) == {one for row in whole["gpus"] for one in subjects(roofs_said(row, ""))}


@any_fleets
@given(fleet=small_fleets())
def test_a_gpu_by_itself_has_the_numbers_that_it_has_among_others(server: FleetServer, fleet: SmallFleet) -> None:
    """In its answer, in the verdict there, in its text, on its page and on its node's, now and as of now."""
    asked = server.with_fleet(fleet, now())
    whole = asked.ridge()
    said = list(ridge_said(whole, "plain"))
    alone = []
    for row in whole["gpus"]:
        url = f"/gpus/{row['gpu_id']}"
        answer = asked.read(url)
        said += [*gpu_said(answer, url), *gpu_said(asked.read(url, as_of=moment_now()), f"{url}?as_of=now")]
        said += gpu_text_said(asked.text(url), answer, f"{url} as text")
        said += gpu_page_said(asked.page(f"/ui{url}"), answer, f"/ui{url}")
        if row["node"] is not None:
            said += node_said(asked.read(f"/nodes/{row['node']}", cluster=row["cluster"]), f"/nodes/{row['node']}")
        alone += strangers(answer, whole)

    note(str(asked.fleet))
    assert contradictions(said) == []
    assert alone == []


@any_fleets
@given(fleet=small_fleets())
def test_all_routes_of_a_device_tell_of_the_same_cohorts(server: FleetServer, fleet: SmallFleet) -> None:
    """The list of devices, workloads and comparisons, with filters, as text and as of now."""
    asked = server.with_fleet(fleet, now())
    whole, url = asked.ridge(), f"/devices/{asked.slug}"
    said = list(ridge_said(whole, "plain"))
    workloads = asked.read(f"{url}/workloads")
    said += workloads_said(workloads, whole, "workloads")
    said += workloads_text_said(asked.text(f"{url}/workloads"), workloads, "workloads as text")
    for params in ({"dtype": "bfloat16"}, {"regime": "burst"}, {"as_of": moment_now()}):
        said += workloads_said(asked.read(f"{url}/workloads", **params), whole, f"workloads{question(params)}")
    for cluster in sorted({row["cluster"] for row in whole["gpus"]}):
        there = asked.read(f"{url}/workloads", cluster=cluster)["ridges"]
        said += [one for group in there for one in slowest_said(group, f"workloads of {cluster}")]
    for params in ({"by": "driver"}, {"by": "cluster"}, {"by": "cluster", "as_of": moment_now()}):
        said += comparison_said(asked.read(f"{url}/compare", **params), f"compare{question(params)}")
    for params in ({}, {"cluster": "east"}, {"as_of": moment_now()}):
        for device in asked.devices(**params):
            said += cohorts_said(device, f"devices{question(params)}")
    for device in asked.devices():
        said += devices_text_said(asked.text("/devices", limit=1000), device, "devices as text")

    note(str(asked.fleet))
    assert contradictions(said) == []


@any_fleets
@given(fleet=small_fleets())
def test_a_cohort_is_what_its_gpus_are(server: FleetServer, fleet: SmallFleet) -> None:
    """Number, median and quantiles of each cohort follow from the listed values of its recent gpus, cluster or not."""
    asked = server.with_fleet(fleet, now())
    whole = asked.ridge()
    members: dict[tuple[tuple[str, ...], Roof], list[tuple[bool, str, float]]] = defaultdict(list)
    for row in whole["gpus"]:
        values = {pi_roof(own): own["pi_tflops"] for own in row["ridges"]}
        values |= {beta_roof(own): own["beta_gbps"] for own in row["bandwidths"]}
        verdict = asked.gpu(row["gpu_id"])["verdict"]
        for own in [] if verdict is None else verdict["roofs"]:
            roof = named_roof(own["roof"])
            members[cohort_key(own), roof].append((own["recent"], row["cluster"], values[roof]))

    said = list(cohorts_said(whole, "plain"))
    groups: list[Said] = []
    compared = {
        (cohort_key(own), named_roof(own["roof"])): own
        for own in asked.read(f"/devices/{asked.slug}/compare", by="cluster")["roofs"]
    }
    for (of, roof), own in members.items():
        counted = [(cluster, value) for recent, cluster, value in own if recent] or [one[1:] for one in own]
        said += _recounted(of, roof, [value for _, value in counted], "its gpus")
        for group in compared[of, roof]["groups"]:
            there = [value for cluster, value in counted if cluster == group["level"]]
            groups += _recounted((*of, group["level"]), roof, there, "its gpus")
            groups += distribution_said((*of, group["level"]), roof, "", group["values"], "compare?by=cluster")

    note(str(asked.fleet))
    assert contradictions(said) == []
    assert contradictions(groups) == []
    assert strangers_of(whole) == []


@any_fleets
@given(fleet=small_fleets(), again=st.sets(st.integers(0, 9)))
def test_what_was_reported_since_the_evaluation_is_shown_and_changes_no_number(
    server: FleetServer, fleet: SmallFleet, again: set[int]
) -> None:
    """A gpu is "not judged yet" with its newest report until the next evaluation; one that is new has no peers."""
    asked = server.with_fleet(fleet, now())
    before = list(ridge_said(asked.ridge(), "before"))
    known = set(_ids(asked.ridge()))
    newest = {}
    for gpu in asked.fleet.gpus:
        if gpu.index in again and gpu.trouble != "quarantined":
            newest[gpu.gpu_id] = gpu.report_of(asked.raw_name, now(), 1.1)
    server.post(newest.values())

    after = asked.ridge()
    said = [*before, *ridge_said(after, "after")]
    for params in [*filters_of(asked, after), {"as_of": moment_now()}]:
        said += ridge_said(asked.ridge(**params), f"after, {question(params)}")
    gpus = {gpu_id: asked.gpu(gpu_id) for gpu_id in _ids(after)}
    said += [one for answer in gpus.values() for one in gpu_said(answer, "after, by itself")]
    said += workloads_said(asked.read(f"/devices/{asked.slug}/workloads"), after, "after, workloads")

    note(f"{asked.fleet}, again: {sorted(newest)}")
    assert contradictions(said) == []
    assert {row["gpu_id"]: _not_judged_yet(row) for row in after["gpus"] if row["gpu_id"] in known} == {
        gpu_id: newest[gpu_id]["report_id"] if gpu_id in newest else None for gpu_id in known
    }
    assert {gpu_id: _not_judged_yet(answer) for gpu_id, answer in gpus.items()} == {
        row["gpu_id"]: _not_judged_yet(row) for row in after["gpus"]
    }
    assert [one for row in after["gpus"] if row["gpu_id"] not in known for one in roofs_said(row, "")] == []
    asked.evaluate()
    assert {_not_judged_yet(row) for row in asked.ridge()["gpus"]} <= {None}


def strangers_of(answer: Any) -> list[str]:
    """Roofs of all gpus of an answer whose peers are those of no cohort in it."""
    return [one for row in answer["gpus"] for one in strangers(row, answer)]


def _recounted(of: tuple[str, ...], roof: Roof, values: list[float], where: str) -> Iterator[Said]:
    found = distribution(values)
    figures = {name: getattr(found, name) for name in ("n", "median", "q1", "q3", "p5", "p95")}
    yield from distribution_said(of, roof, "", figures, where)


def _ids(answer: Any) -> list[str]:
    return [row["gpu_id"] for row in answer["gpus"]]


def _not_judged_yet(answer: Any) -> str | None:
    """Id of the report that no evaluation knows, if there is one."""
    report = answer["not_judged_yet"]
    return None if report is None else str(report["report_id"])
