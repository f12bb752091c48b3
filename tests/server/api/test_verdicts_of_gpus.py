"""Verdict and history of one gpu."""

from __future__ import annotations

import math
from datetime import datetime

import pytest

from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, gpu_id, runs
from support.fleet import AS_TEXT, post, read
from support.reports import compute_roof, make_skipped_report

GPU = gpu_id("n01", 7)


def test_a_verdict_can_be_recomputed_from_what_is_shown(sick_node: AppClient) -> None:
    """Every number of it."""
    gpu = read(sick_node, f"/gpus/{GPU}")

    own, band = gpu["verdict"]["roofs"][0], gpu["verdict"]["roofs"][0]["band"]
    assert own["value"] == sorted(run["value"] for run in own["runs"][:3])[1]
    assert own["loss"] == pytest.approx(1 - own["value"] / band["median"])
    assert own["z"] == pytest.approx((own["value"] - band["median"]) / band["scale"])
    assert own["p"] == pytest.approx(math.erfc(abs(own["z"]) / math.sqrt(2)))
    assert band["limit"] == pytest.approx(min(0.10, max(band["gate"], 3.5 * band["scale"] / band["median"])))
    assert {run["report_id"] for run in own["runs"]} == {report["report_id"] for report in gpu["reports"]}


def test_a_gpu_says_since_when_it_is_what_it_is(sick_node: AppClient) -> None:
    """As of the evaluation that first said so."""
    gpu = read(sick_node, f"/gpus/{GPU}")

    assert gpu["verdict"]["state"] == "outlier"
    assert gpu["verdict_since"] == gpu["evaluated_as_of"]


def test_a_gpu_says_since_when_it_is_slow_by_its_runs(sick_node: AppClient) -> None:
    """Not from when somebody looked; no older run is known here."""
    verdict = read(sick_node, f"/gpus/{GPU}")["verdict"]

    oldest = (NOW - HOUR - 2 * DAY).isoformat().replace("+00:00", "Z")
    own = verdict["roofs"][0]
    assert (verdict["slow_since"], verdict["slow_since_is_bound"]) == (oldest, True)
    assert (own["slow_since"], own["runs_beyond"], own["newest_beyond"]) == (oldest, 3, 3)
    assert f"since {NOW - HOUR - 2 * DAY:%Y-%m-%d %H:%M} UTC or before" in verdict["text"]
    assert verdict["flags"] == []


def test_the_change_with_which_a_gpu_became_slow_is_named(client: AppClient, database_url: str) -> None:
    """Its own driver, which no other gpu met."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - 2 * DAY))
    post(client, runs("n01", [SOUND] * 7, days=2))
    slow = [run for run in runs("n01", [SLOW] * 8, days=2, environment__driver="590.10") if run["gpu"]["index"] == 7]
    post(client, slow)
    evaluate(database_url)

    own = read(client, f"/gpus/{GPU}")["verdict"]["roofs"][0]

    assert own["slow_with"] == [{"factor": "driver", "before": "580.159.04", "after": "590.10"}]
    text = " ".join(client.get(f"/gpus/{GPU}", headers=AS_TEXT).text.split())
    assert "with the change of driver from 580.159.04 to 590.10" in text


def test_a_gpu_of_the_past_says_dates_of_the_past(client: AppClient, database_url: str) -> None:
    """Judged today it is stale since it was last measured, and as of then it was slow since then."""
    past = NOW - 2000 * DAY
    post(client, runs("n01", [SOUND] * 7 + [SLOW], until=past))
    evaluate(database_url)

    now, then = (read(client, f"/gpus/{GPU}", **when)["verdict"] for when in ({}, {"as_of": past.isoformat()}))

    assert (now["state"], now["text"]) == (
        "stale",
        f"nothing was measured since {past - HOUR:%Y-%m-%d %H:%M} UTC",
    )
    assert (then["state"], then["slow_since"]) == (
        "outlier",
        (past - HOUR - 2 * DAY).isoformat().replace("+00:00", "Z"),
    )


def test_without_an_evaluation_the_verdict_is_null(client: AppClient) -> None:
    """And the answer says what to do."""
    post(client, runs("n01", [SOUND]))

    gpu = read(client, f"/gpus/{gpu_id('n01', 0)}")

    assert (gpu["verdict"], gpu["verdict_since"]) == (None, None)
    assert "not evaluated yet" in gpu["evaluation_note"]


def test_the_text_form_has_reasons_and_arithmetic(sick_node: AppClient) -> None:
    """Within 80 columns."""
    text = sick_node.get(f"/gpus/{GPU}", headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    assert "verdict: outlier, since" in text
    assert "beyond the limit in each of its newest 3 runs, since" in " ".join(text.split())
    [row] = [line for line in text.splitlines() if line.startswith("pi bfloat16 burst") and line.endswith("outlier")]
    assert row.split()[3:8] == ["720", "845", "14.8", "%", "3.0"]


def test_a_history_lists_runs_with_clock_power_and_temperature(client: AppClient) -> None:
    """Judged roofs of each report, newest first; a run without rates says why."""
    roofs = [compute_roof(SOUND, sm_clock_mhz=1935.0, power_w=690.0), compute_roof(900.0, kernel="gemm_best")]
    post(client, runs("n01", [SOUND], roofs=roofs))
    end = (NOW - 30 * HOUR / 60).isoformat()
    post(client, [make_skipped_report("busy", gpu__uuid=gpu_id("n01", 0), measured_from=end, measured_to=end)])

    first, second, *_ = read(client, f"/gpus/{gpu_id('n01', 0)}/history")["runs"]

    assert (first["outcome"], first["reason"], first["roofs"]) == ("skipped", "busy", [])
    [roof] = second["roofs"]
    assert (roof["value"], roof["sm_clock_mhz"], roof["power_w"], roof["temperature_c"]) == (SOUND, 1935.0, 690.0, None)


def test_an_upgrade_begins_an_epoch_and_shows_what_it_did(client: AppClient) -> None:
    """To this gpu, by each of its roofs."""
    post(client, runs("n01", [SOUND], until=NOW - 3 * DAY))
    post(client, runs("n01", [0.9 * SOUND], environment__driver="590.10"))

    history = read(client, f"/gpus/{gpu_id('n01', 0)}/history")

    assert [(epoch["number"], epoch["runs"]) for epoch in history["epochs"]] == [(2, 3), (1, 3)]
    assert history["epochs"][0]["settings"]["driver"] == "590.10"
    [change] = history["changes"]
    assert (change["before"], change["after"]) == ({"driver": "580.159.04"}, {"driver": "590.10"})
    assert [effect["effect"] for effect in change["effects"]] == [pytest.approx(-0.1), pytest.approx(0.0)]
    assert [run["epoch"] for run in history["runs"]] == [2, 2, 2, 1, 1, 1]


def test_a_reading_that_is_missing_is_no_change(client: AppClient) -> None:
    """A driver does not change because one report does not say it."""
    post(client, runs("n01", [SOUND], until=NOW - 3 * DAY))
    post(client, runs("n01", [SOUND], environment__driver=None))

    history = read(client, f"/gpus/{gpu_id('n01', 0)}/history")

    assert (len(history["epochs"]), history["changes"]) == (1, [])


def test_a_contended_run_is_listed_and_no_part_of_an_effect(client: AppClient) -> None:
    """It says nothing of the driver."""
    post(client, runs("n01", [SOUND], until=NOW - 3 * DAY))
    post(client, runs("n01", [SLOW], days=1, until=NOW - DAY, environment__driver="590.10", evidence__contended=True))
    post(client, runs("n01", [SOUND], days=1, environment__driver="590.10"))

    history = read(client, f"/gpus/{gpu_id('n01', 0)}/history")

    assert history["changes"][0]["effects"][0]["after"] == SOUND
    assert [run["contended"] for run in history["runs"]] == [False, True, False, False, False]


def test_a_drift_has_its_onset(client: AppClient, database_url: str) -> None:
    """Beside the gpu's own baseline."""
    steady = [run for index in range(1, 8) for run in runs(f"n{index}", [SOUND], days=20)]
    post(client, [*steady, *runs("n01", [SOUND], days=12, until=NOW - 8 * DAY), *runs("n01", [0.97 * SOUND], days=8)])
    evaluate(database_url)

    history = read(client, f"/gpus/{gpu_id('n01', 0)}/history", dtype="bfloat16")

    [drift] = history["drifts"]
    assert (drift["status"], drift["counts"]) == ("drifted", True)
    assert datetime.fromisoformat(drift["onset"].replace("Z", "+00:00")) == NOW - HOUR - 7 * DAY
    assert read(client, f"/gpus/{gpu_id('n01', 0)}")["verdict"]["state"] in ("drifted", "outlier")


def test_changes_of_the_verdict_are_listed_newest_first(client: AppClient, database_url: str) -> None:
    """With the first reason and the sentence of then."""
    post(client, runs("n01", [SOUND] * 8, until=NOW - 2 * DAY))
    evaluate(database_url, at=NOW - 2 * DAY)
    post(client, [run for run in runs("n01", [SLOW] * 8, days=2) if run["gpu"]["index"] == 7])
    evaluate(database_url, at=NOW)

    changes = read(client, f"/gpus/{GPU}/history")["verdict_changes"]

    assert [change["state"] for change in changes] == ["outlier", "ok"]
    assert "below the median of 8 gpus" in changes[0]["text"]
    assert [
        change["state"]
        for change in read(client, f"/gpus/{GPU}/history", as_of=(NOW - DAY).isoformat())["verdict_changes"]
    ] == ["ok"]


def test_pages_of_a_history_fit_together(client: AppClient) -> None:
    """Every run once, newest first, whatever the page; a token of another list is refused."""
    post(client, runs("n01", [SOUND, SOUND], days=7))
    url = f"/gpus/{gpu_id('n01', 0)}/history"
    times: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = read(client, url, limit=3, **after)
        times += [run["ordered_at"] for run in page["runs"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}

    assert times == sorted(times, reverse=True)
    assert len(times) == 7
    assert client.get(f"/gpus/{gpu_id('n01', 1)}/history", params=after).status_code == 422


def test_a_filter_lists_only_its_roofs(client: AppClient) -> None:
    """In the runs."""
    post(client, runs("n01", [SOUND]))

    history = read(client, f"/gpus/{gpu_id('n01', 0)}/history", dtype="float32")

    assert {roof["roof"]["dtype"] for run in history["runs"] for roof in run["roofs"]} == {"float32"}


def test_a_history_is_that_of_the_real_or_of_the_made_up_gpu(client: AppClient) -> None:
    """Never both."""
    post(client, runs("n01", [SOUND]))
    post(client, runs("n01", [SLOW], days=1, node__cluster="simulated"))

    real = read(client, f"/gpus/{gpu_id('n01', 0)}/history")
    made_up = read(client, f"/gpus/{gpu_id('n01', 0)}/history", cluster="simulated")

    assert (len(real["runs"]), len(made_up["runs"])) == (3, 1)


def test_the_history_of_an_unknown_gpu_is_a_problem_that_says_where_to_look(empty_server: AppClient) -> None:
    """As for the gpu itself."""
    answer = empty_server.get("/gpus/GPU-none/history")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_gpu")
    assert "GET /devices" in answer.json()["detail"]


def test_the_text_form_of_a_history_has_all_of_it(client: AppClient, database_url: str) -> None:
    """Within 80 columns."""
    post(client, runs("n01", [SOUND], until=NOW - 3 * DAY))
    post(client, runs("n01", [0.9 * SOUND], environment__driver="590.10", evidence__contended=True))
    evaluate(database_url)

    text = client.get(f"/gpus/{gpu_id('n01', 0)}/history", headers=AS_TEXT, params={"limit": 4}).text

    assert max(map(len, text.splitlines())) <= 80
    for expected in ("driver 580.159.04 → 590.10", "contended", "more runs follow", "learning"):
        assert expected in text
