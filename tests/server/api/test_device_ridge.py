"""The main question: how fast are the gpus of a device, and which are slower than their peers?"""

from __future__ import annotations

import pytest

from support.app_client import AppClient
from support.fleet import AS_TEXT, fleet, post, post_judged, read, ridge
from support.reports import compute_roof, make_report, make_skipped_report, memory_roof

# Hours after the reports that `make_report` makes, before their figures are stale.
SOON = "2026-11-20T12:00:00Z"


def test_gpus_are_listed_worst_first_beside_the_median_of_their_peers(client: AppClient) -> None:
    """Each figure can be checked by hand."""
    post_judged(client, fleet([13.6, 13.7, 13.5, 8.1]))

    worst = ridge(client)["gpus"][0]

    assert worst["gpu_id"] == "GPU-a003"
    assert worst["worst"] == {
        "roof": "pi",
        "dtype": "bfloat16",
        "regime": "burst",
        "value": 8.1,
        "median": 13.55,
        "deviation": pytest.approx(8.1 / 13.55 - 1),
        "peers": 4,
    }


def test_a_gpus_ridge_has_pi_beta_and_their_ratio(client: AppClient) -> None:
    """With what it rests on."""
    roofs = [compute_roof(845.0, sm_clock_mhz=1935.0, power_w=690.5), memory_roof(4430.0)]
    post_judged(client, [make_report(roofs=roofs)])

    [found] = ridge(client)["gpus"][0]["ridges"]

    assert (found["pi_tflops"], found["beta_gbps"], found["beta_regime"]) == (845.0, 4430.0, "burst")
    assert found["ridge_flop_per_byte"] == pytest.approx(190.745, abs=1e-3)
    assert (found["sm_clock_mhz"], found["power_w"], found["temperature_c"]) == (1935.0, 690.5, None)
    assert (found["reports"], found["measured_to"]) == (1, "2026-11-20T02:00:20Z")


def test_the_fleets_ridge_is_the_distribution_of_the_gpus_ridges(client: AppClient) -> None:
    """Not the ratio of two medians."""
    rates = [(100.0, 1000.0), (200.0, 4000.0), (300.0, 1500.0)]
    post_judged(
        client, [make_report(gpu__uuid=f"GPU-a{n}", pi_tflops=pi, beta_gbps=beta) for n, (pi, beta) in enumerate(rates)]
    )

    [found] = ridge(client)["ridges"]

    assert found["ridge_flop_per_byte"]["median"] == pytest.approx(100.0)
    assert (found["pi_tflops"]["median"], found["beta_gbps"]["median"]) == (200.0, 1500.0)


def test_bandwidth_is_compared_also_where_nothing_was_multiplied(client: AppClient) -> None:
    """A sweep of memory alone."""
    post_judged(client, fleet([1.0] * 4, roofs=[memory_roof(4430.0)]))

    answer = ridge(client)

    assert (answer["ridges"], answer["bandwidths"][0]["peers"]) == ([], 4)
    assert answer["gpus"][0]["bandwidths"][0]["beta_deviation"] == 0


def test_the_best_of_a_search_is_shown_and_not_compared(client: AppClient) -> None:
    """Beside pi, and no roof of its own."""
    post_judged(client, [make_report(roofs=[compute_roof(845.0), compute_roof(871.0, kernel="gemm_best")])])

    answer = ridge(client)

    assert len(answer["ridges"]) == 1
    assert answer["gpus"][0]["ridges"][0]["best_pi_tflops"] == 871.0


def test_only_the_newest_three_reports_count(client: AppClient) -> None:
    """The median of three, whatever came before."""
    rates = [500.0, 510.0, 840.0, 850.0, 845.0]
    post_judged(
        client,
        [
            make_report(
                pi_tflops=pi, measured_from=f"2026-11-2{day}T02:00:00Z", measured_to=f"2026-11-2{day}T02:01:00Z"
            )
            for day, pi in enumerate(rates)
        ],
    )

    [found] = ridge(client)["gpus"][0]["ridges"]

    assert (found["pi_tflops"], found["reports"], found["measured_to"]) == (845.0, 3, "2026-11-24T02:01:00Z")


def test_hourly_checks_do_not_hide_the_sweep_that_measures_more(client: AppClient) -> None:
    """A month of sweeps is looked through, and checks count apart."""
    checks = [
        make_report(
            run__kind="check",
            measured_from=f"2026-11-{20 + hour // 24}T{hour % 24:02}:30:00Z",
            measured_to=f"2026-11-{20 + hour // 24}T{hour % 24:02}:30:05Z",
        )
        for hour in range(3, 48)
    ]
    post_judged(client, [make_report(roofs=[compute_roof(1600.0, dtype="float8_e4m3fn")]), *checks])

    answer = ridge(client)

    assert [found["dtype"] for found in answer["ridges"]] == ["bfloat16", "float8_e4m3fn"]


def test_fewer_than_four_peers_are_said_to_be_too_few(client: AppClient) -> None:
    """For the fleet and for the gpu, in words."""
    post_judged(client, fleet([845.0, 600.0]))

    answer = ridge(client)

    words = "too few peers to compare: 2 of at least 4"
    assert (answer["ridges"][0]["note"], answer["gpus"][0]["ridges"][0]["note"]) == (words, words)


def test_a_measured_gpu_that_was_never_evaluated_is_not_unmeasured(client: AppClient) -> None:
    """In the list and by itself; its verdict alone says so."""
    post(client, fleet([845.0] * 4))
    listed = ridge(client)["gpus"]
    own = read(client, f"/gpus/{listed[0]['gpu_id']}")

    assert [row["flags"] for row in (*listed, own)] == [[]] * 5
    assert "unmeasured" not in client.get("/devices/h200/ridge", headers=AS_TEXT).text


def test_a_gpu_that_was_never_measured_is_listed_last_with_its_reason(client: AppClient) -> None:
    """No data is neither good nor slow."""
    post_judged(client, [*fleet([845.0] * 4), make_skipped_report("busy", gpu__uuid="GPU-b")])

    last = ridge(client)["gpus"][-1]

    assert (last["gpu_id"], last["worst"], last["flags"]) == ("GPU-b", None, ["unmeasured"])
    assert (last["outcome"], last["reason"]) == ("skipped", "busy")


def test_old_figures_are_flagged_as_stale(client: AppClient) -> None:
    """After three days."""
    post(client, [make_report()])

    flags = [ridge(client, as_of=f"2026-11-{day}T02:00:20Z")["gpus"][0]["flags"] for day in (20, 23, 24)]

    assert flags == [[], [], ["stale"]]


def test_figures_that_did_not_converge_are_flagged(client: AppClient) -> None:
    """They are given all the same."""
    post(client, [make_report(roofs=[compute_roof(845.0, converged=False), memory_roof(4430.0, converged=True)])])

    assert ridge(client, as_of=SOON)["gpus"][0]["flags"] == ["not_converged"]


def test_as_of_an_earlier_time_the_answer_is_that_of_then(client: AppClient) -> None:
    """Whatever was measured since."""
    post(client, fleet([845.0] * 4))
    then = ridge(client, as_of=SOON)
    post(client, fleet([600.0] * 4, measured_from="2026-11-21T02:00:00Z", measured_to="2026-11-21T02:01:00Z"))

    assert ridge(client, as_of=SOON) == then


def test_before_the_first_report_there_is_nothing(client: AppClient) -> None:
    """Not even gpus without a value."""
    post(client, [make_report()])

    answer = ridge(client, as_of="2020-01-01T00:00:00Z")

    assert (answer["ridges"], answer["gpus"]) == ([], [])


def test_a_time_without_a_zone_is_utc_and_another_zone_is_converted(client: AppClient) -> None:
    """As in reports."""
    post(client, [make_report()])

    moments = ["2026-11-20T12:00:00", "2026-11-20T12:00:00Z", "2026-11-20T21:00:00+09:00"]

    assert {ridge(client, as_of=moment)["as_of"] for moment in moments} == {"2026-11-20T12:00:00Z"}


@pytest.mark.parametrize("moment", ["yesterday", "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00", ""])
@pytest.mark.parametrize("parameter", ["as_of", "since"])
def test_a_time_that_is_none_is_refused(client: AppClient, parameter: str, moment: str) -> None:
    """With the parameter named."""
    post(client, [make_report()])

    answer = client.get("/devices/h200/ridge", params={parameter: moment})

    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, f"query.{parameter}")


def test_an_unknown_device_is_a_problem_that_says_where_to_look(client: AppClient) -> None:
    """Nothing is guessed."""
    post(client, [make_report()])

    answer = client.get("/devices/NVIDIA%20H20/ridge")

    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_device")
    assert "GET /devices" in answer.json()["detail"]


def test_the_text_form_shows_the_fleet_then_the_gpus_worst_first(client: AppClient) -> None:
    """One screen for one question."""
    post(client, fleet([845.0, 840.0, 850.0, 600.0], node__name="n07"))

    answer = client.get("/devices/NVIDIA%20H200/ridge", params={"as_of": SOON}, headers=AS_TEXT)

    lines = answer.text.splitlines()
    assert lines[0].startswith("H200 (reported as NVIDIA H200), as of ")
    assert any(line.startswith("bfloat16 burst") for line in lines)
    [worst] = [line for line in lines if line.startswith("pi bfloat16 burst") and "GPU-a003" in line]
    assert "−28.8 %" in worst
    assert "n07" in worst


def test_the_text_form_says_that_more_follows(client: AppClient) -> None:
    """Nobody should take the first page for the fleet."""
    post(client, fleet([845.0] * 4))

    text = client.get("/devices/h200/ridge", params={"limit": 2}, headers=AS_TEXT).text

    assert "more gpus follow" in text


def test_the_text_form_names_flagged_and_unmeasured_gpus(client: AppClient) -> None:
    """What should not be trusted or is not there."""
    post_judged(client, [*fleet([845.0] * 4, roofs=[compute_roof(845.0, converged=False)])])
    post_judged(client, [make_skipped_report("busy", gpu__uuid="GPU-b")])

    text = client.get("/devices/h200/ridge", headers=AS_TEXT).text

    assert "not_converged: GPU-a000, GPU-a001" in text
    assert "skipped: busy" in text
