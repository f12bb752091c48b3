"""Verdicts in the answers about devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.app_client import AppClient
from support.databases import Databases
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import AS_TEXT, gpu_ids, post, read, ridge
from support.read_only import fleet_to_read


def slow_fleet() -> list[dict[str, Any]]:
    """Sixteen gpus on two nodes, the last of them slow under a lower power limit."""
    limited = runs("n02", [SOUND] * 7 + [SLOW], environment__power_limit_w=500.0)
    return [
        *runs("n01", [SOUND] * 8),
        *runs("n02", [SOUND] * 7),
        *(run for run in limited if run["gpu"]["index"] == 7),
    ]


@pytest.fixture(scope="module")
def slow_client(databases: Databases) -> Iterator[AppClient]:
    """That fleet, evaluated, and nothing can be written."""
    with fleet_to_read(databases, slow_fleet()) as client:
        yield client


def test_the_slow_gpu_comes_first_with_its_verdict_and_reasons(slow_client: AppClient) -> None:
    """And with what to do about it."""
    first, second, *_ = ridge(slow_client)["gpus"]

    verdict = first["verdict"]
    assert (first["gpu_id"], verdict["state"], verdict["last_state"]) == (gpu_id("n02", 7), "outlier", None)
    assert verdict["reasons"][0]["code"] == "power_limit_lower"
    assert "restore the default limit" in verdict["reasons"][0]["next_step"]
    assert verdict["text"].startswith("pi bfloat16 burst 14.8 % below the median of 16 gpus")
    assert (second["verdict"]["state"], second["verdict"]["reasons"]) == ("ok", [])


def test_the_answer_says_on_which_evaluation_it_rests(slow_client: AppClient) -> None:
    """Time judged, time made, and rules."""
    answer = ridge(slow_client)

    assert answer["evaluated_as_of"] <= answer["as_of"]
    assert answer["evaluated_at"] >= answer["evaluated_as_of"]
    assert (answer["rule_version"] >= 1, answer["evaluation_note"]) == (True, None)
    assert answer["verdicts"] == {"outlier": 1, "ok": 15}


def test_bands_tell_from_where_on_a_gpu_is_accused(slow_client: AppClient) -> None:
    """One for each cohort; a filter lists those of its roofs."""
    cohorts = ridge(slow_client, dtype="bfloat16")["cohorts"]

    [[band]] = [cohort["bands"] for cohort in cohorts]
    assert (band["n"], band["median"]) == (16, SOUND)
    assert SLOW < band["lowest"] < SOUND


def test_before_the_first_evaluation_there_is_no_verdict_and_a_word_why(client: AppClient) -> None:
    """No data is not ok."""
    post(client, runs("n01", [SOUND] * 8))

    answer = ridge(client)

    assert (answer["evaluated_as_of"], answer["verdicts"]) == (None, {})
    assert [row["verdict"] for row in answer["gpus"]] == [None] * 8
    assert "fleetridge-server evaluate --device h200" in answer["evaluation_note"]


def test_a_filter_lists_only_gpus_in_those_states(slow_client: AppClient) -> None:
    """Several with commas between them."""
    assert gpu_ids(ridge(slow_client, verdict="outlier,suspect")) == [gpu_id("n02", 7)]
    assert len(gpu_ids(ridge(slow_client, verdict="ok"))) == 15
    assert gpu_ids(ridge(slow_client, verdict="stale")) == []


def test_a_slow_gpu_that_is_gone_is_found_by_what_it_was(client: AppClient, database_url: str) -> None:
    """Else a node that a scheduler leaves out would come back unmeasured."""
    post(client, runs("n01", [SOUND] * 8))
    post(client, runs("n02", [SLOW], until=NOW - 5 * DAY))
    evaluate(database_url)

    [row] = ridge(client, verdict="outlier")["gpus"]

    assert (row["verdict"]["state"], row["verdict"]["last_state"]) == ("stale", "outlier")


def test_a_state_that_does_not_exist_is_refused_with_those_that_do(client: AppClient) -> None:
    """A misspelt filter would list nothing and look fine."""
    post(client, runs("n01", [SOUND]))

    answer = client.get("/devices/h200/ridge", params={"verdict": "slow"})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "outlier" in answer.json()["detail"]


def test_pages_list_every_gpu_once(slow_client: AppClient) -> None:
    """Accused ones first."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        answer = ridge(slow_client, limit=5, **after)
        found += gpu_ids(answer)
        if answer["next"] is None:
            break
        after = {"after": answer["next"]}

    assert found[0] == gpu_id("n02", 7)
    assert (len(found), len(set(found))) == (16, 16)


def test_devices_count_their_verdicts(slow_client: AppClient) -> None:
    """All, or those of one cluster."""
    [device] = read(slow_client, "/devices")["devices"]
    [there] = read(slow_client, "/devices", cluster="east")["devices"]

    assert device["verdicts"] == {"outlier": 1, "ok": 15}
    assert there["verdicts"] == {"outlier": 1, "ok": 15}
    assert read(slow_client, "/devices", cluster="west")["devices"] == []


def test_made_up_gpus_have_verdicts_of_their_own(client: AppClient, database_url: str) -> None:
    """They share no count and no band with real ones."""
    post(client, slow_fleet())
    evaluate(database_url)
    post(client, runs("s01", [SLOW] * 8, node__cluster="simulated"))
    evaluate(database_url, simulated=True)

    assert ridge(client)["verdicts"] == {"outlier": 1, "ok": 15}
    made_up = ridge(client, cluster="simulated")
    assert (made_up["verdicts"], {row["node"] for row in made_up["gpus"]}) == ({"ok": 8}, {"s01"})


def test_as_of_an_earlier_time_the_verdict_is_that_of_then(client: AppClient, database_url: str) -> None:
    """A stored evaluation answers; a gpu that became slow later was well."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - DAY))
    evaluate(database_url, at=NOW - DAY)
    post(client, runs("n01", [SOUND] * 7 + [SLOW], days=1, until=NOW - HOUR))
    post(client, runs("n01", [SOUND] * 7 + [SLOW], days=1, until=NOW + HOUR / 2))
    evaluate(database_url, at=NOW)

    then = ridge(client, as_of=(NOW - DAY + HOUR).isoformat())
    now = ridge(client, as_of=NOW.isoformat())

    assert then["verdicts"] == {"ok": 8}
    assert [row["verdict"]["state"] for row in then["gpus"]] == ["ok"] * 8
    assert now["gpus"][0]["verdict"]["state"] in ("suspect", "outlier")


def test_a_past_that_nobody_evaluated_is_judged_for_the_answer(client: AppClient) -> None:
    """By the reports up to then, and not stored."""
    post(client, runs("n01", [SOUND] * 7 + [SLOW]))

    answer = ridge(client, as_of=NOW.isoformat())

    assert answer["verdicts"] == {"outlier": 1, "ok": 7}
    assert answer["gpus"][0]["verdict"]["state"] == "outlier"
    assert ridge(client)["evaluated_as_of"] is None
    assert gpu_ids(ridge(client, as_of=NOW.isoformat(), verdict="outlier")) == [gpu_id("n01", 7)]


def test_a_half_upgraded_fleet_is_one_notice(client: AppClient, database_url: str) -> None:
    """And no accusation."""
    for number in range(4):
        post(client, runs(f"n0{number}", [SOUND] * 2))
        post(client, runs(f"n1{number}", [0.95 * SOUND] * 2, environment__driver="590.10"))
    evaluate(database_url)

    answer = ridge(client, dtype="bfloat16")

    assert answer["verdicts"] == {"ok": 16}
    [step] = [notice for notice in answer["notices"] if notice["kind"] == "factor_step"]
    assert (step["effect"], step["gpus"]) == (pytest.approx(-0.05), 8)
    assert [band["levels"][0]["name"] for band in answer["cohorts"][0]["bands"]] == ["580.159.04", "590.10"]


def test_the_text_form_tells_what_is_wrong_and_what_to_do(slow_client: AppClient) -> None:
    """Within 80 columns."""
    text = slow_client.get("/devices/h200/ridge", headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    joined = " ".join(text.split())
    outlier = f"{gpu_id('n02', 7)}: outlier, pi bfloat16 burst"
    for expected in ("1 outlier, 15 ok", outlier, "power limit 500 W, peers 700 W"):
        assert expected in joined
    [row] = [line for line in text.splitlines() if line.startswith("pi bfloat16 burst  −14.8 %")]
    assert "outlier" in row


def test_hostile_names_stay_harmless_in_the_text_forms(client: AppClient, database_url: str) -> None:
    """Escapes are refused on their way in; wide and long names keep to 80 columns."""
    name = "ノード" * 30 + "\u202eevil"
    post(client, [run for run in runs("x", [SOUND] * 7 + [SLOW]) if not run["node"].update(name=name[:90])])
    evaluate(database_url)

    for url in ("/devices", "/devices/h200/ridge", "/nodes", "/fleet", "/alerts"):
        text = client.get(url, headers=AS_TEXT).text
        assert "\u202e" not in text
        assert max(map(len, text.splitlines())) <= 80
