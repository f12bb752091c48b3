"""The gpus of a device as CSV."""

from __future__ import annotations

import csv
import io

import pytest

from support.app_client import AppClient
from support.fleet import fleet, post, post_judged
from support.reports import make_report

URL = "/devices/h200/ridge.csv"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_gpu_has_a_row_for_each_judged_roof(client: AppClient) -> None:
    post_judged(client, fleet([845.0, 700.0, 846.0, 844.0]))

    answer = client.get(URL)
    found = rows(answer.text)

    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert found[0]["gpu_id"] == "GPU-a001"
    assert (found[0]["roof"], found[0]["unit"], float(found[0]["value"])) == ("pi", "TFLOP/s", 700.0)
    assert float(found[0]["deviation"]) == pytest.approx(700.0 / 844.5 - 1, rel=1e-6)
    assert {row["roof"] for row in found} == {"pi", "beta"}


def test_the_csv_says_what_the_answer_says(client: AppClient) -> None:
    post_judged(client, fleet([845.0, 700.0, 846.0, 844.0]))
    answer, found = client.get("/devices/h200/ridge").json(), rows(client.get(URL).text)

    told = [
        (gpu["gpu_id"], roof.get("pi_tflops", roof.get("beta_gbps")), roof["report_id"])
        for gpu in answer["gpus"]
        for roof in (*gpu["ridges"], *gpu["bandwidths"])
    ]
    assert [(row["gpu_id"], float(row["value"]), row["report_id"]) for row in found] == told


def test_pages_follow_each_other_by_their_links(client: AppClient) -> None:
    post(client, fleet([845.0 - gpu for gpu in range(5)]))

    url: str | None = f"{URL}?limit=2"
    gpus: list[str] = []
    while url is not None:
        answer = client.get(url)
        gpus += dict.fromkeys(row["gpu_id"] for row in rows(answer.text))
        link = answer.headers.get("link")
        url = None if link is None else link.partition("<")[2].partition(">")[0]

    assert gpus == [gpu["gpu_id"] for gpu in client.get("/devices/h200/ridge").json()["gpus"]]


def test_a_gpu_without_a_value_has_a_row(client: AppClient) -> None:
    post_judged(
        client, [make_report(outcome="skipped", reason="busy", points=[], roofs=[], pi_tflops=None, beta_gbps=None)]
    )

    (row,) = rows(client.get(URL).text)

    assert (row["value"], row["flags"]) == ("", "unmeasured")


def test_no_cell_starts_a_formula(client: AppClient) -> None:
    post(client, [make_report(node__name="=HYPERLINK(1)")])

    assert {row["node"] for row in rows(client.get(URL).text)} == {"'=HYPERLINK(1)"}


def test_a_device_that_there_is_not_is_told_as_everywhere(client: AppClient) -> None:
    answer = client.get("/devices/none/ridge.csv")

    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
