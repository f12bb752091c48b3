"""The page of a gpu: its verdict can be checked by hand, and everything that it rests on can be taken along."""

from __future__ import annotations

import io
import json
import zipfile
from hashlib import sha256

import pytest

from fleetridge.quantities import percent, quantity, significant
from support.app_client import AppClient
from support.evaluated import SOUND, evaluate, gpu_id, runs
from support.fleet import post, read
from support.html_pages import page_of

SICK = gpu_id("n02", 7)
PAGE = f"/ui/gpus/{SICK}"


def test_the_verdict_stands_with_its_numbers(sick_fleet: AppClient) -> None:
    page, verdict = page_of(sick_fleet, PAGE), read(sick_fleet, f"/gpus/{SICK}")["verdict"]

    assert verdict["text"] in page.text
    for own in verdict["roofs"]:
        kind = "pi" if own["roof"]["kind"] == "compute" else "beta"
        row = page.row(f"{kind} {own['roof']['dtype']} {own['roof']['regime']}")
        band = own["band"]
        assert row[1:9] == [
            quantity(own["value"], own["unit"]),
            quantity(band["median"], own["unit"]),
            str(band["n"]),
            percent(own["loss"]),
            percent(band["limit"]),
            quantity(band["scale"], own["unit"]),
            significant(own["z"]),
            significant(own["q"]),
        ]


def test_the_arithmetic_in_words_gives_the_loss_and_the_distance(sick_fleet: AppClient) -> None:
    page, verdict = page_of(sick_fleet, PAGE), read(sick_fleet, f"/gpus/{SICK}")["verdict"]

    own = verdict["roofs"][0]
    value, median, scale = (
        significant(number) for number in (own["value"], own["band"]["median"], own["band"]["scale"])
    )
    assert f"loss: 1 − {value} / {median} = {percent(own['loss'])}" in page.text
    assert f"z: ({value} − {median}) / {scale} = {significant(own['z'])}" in page.text


def test_each_reason_stands_there_and_one_next_step(sick_fleet: AppClient) -> None:
    page, verdict = page_of(sick_fleet, PAGE), read(sick_fleet, f"/gpus/{SICK}")["verdict"]

    def words(step: str) -> str:
        return " ".join(step.replace("`", " ").split())

    shown = " ".join(page.text.split())
    assert verdict["reasons"]
    assert verdict["next_step"] == verdict["reasons"][0]["next_step"]
    assert shown.count("Next:") == 1
    assert f"Next: {words(verdict['next_step'])}" in shown
    for reason in verdict["reasons"]:
        assert reason["text"][1:] in page.text
        assert reason["next_step"] == verdict["next_step"] or words(reason["next_step"]) not in shown


def test_a_sound_gpu_is_called_so(sick_fleet: AppClient) -> None:
    page = page_of(sick_fleet, f"/ui/gpus/{gpu_id('n01', 0)}")

    assert "n01 gpu 0 ✓ ok" in page.text
    assert "Why" not in page.text


def test_runs_and_points_are_those_that_were_sent(sick_fleet: AppClient) -> None:
    page, history = page_of(sick_fleet, PAGE), read(sick_fleet, f"/gpus/{SICK}/history")

    for run in history["runs"]:
        assert f"/reports/{run['report_id']}" in page.addresses
    points = {row[0]: row[1] for row in page.rows if len(row) == 8}
    assert (points["reference"], points["read"]) == ("1536 × 13568 × 11264", "4.00 GiB")


@pytest.mark.parametrize("chart", ["history", "roofline"])
def test_each_chart_is_a_file_as_well(sick_fleet: AppClient, chart: str) -> None:
    assert f"{PAGE}/{chart}.svg" in page_of(sick_fleet, PAGE).addresses
    assert sick_fleet.get(f"{PAGE}/{chart}.svg").text.startswith("<svg ")


def test_the_only_gpu_of_its_kind_is_compared_with_nothing_and_the_page_says_so(
    client: AppClient, database_url: str
) -> None:
    post(client, runs("n01", [SOUND]))
    evaluate(database_url)

    page = page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}")

    assert "only one gpu of this kind here" in page.text
    assert "what its maker publishes" in page.text
    assert "no verdict: " in page.text


def test_a_gpu_without_an_evaluation_says_what_to_do(client: AppClient) -> None:
    post(client, runs("n01", [SOUND] * 4))

    page = page_of(client, f"/ui/gpus/{gpu_id('n01', 0)}")

    note = read(client, f"/gpus/{gpu_id('n01', 0)}")["evaluation_note"]
    assert note in page.text


def test_the_page_of_any_time_can_be_drawn(sick_fleet: AppClient) -> None:
    assert SICK in page_of(sick_fleet, f"{PAGE}?as_of=9999-12-31T23:59:59.999999Z").text


def test_the_bundle_holds_verdict_history_charts_and_the_reports_as_sent(sick_fleet: AppClient) -> None:
    answer = sick_fleet.get(f"{PAGE}/evidence.zip")

    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"].startswith("attachment;")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    files = {name.removeprefix("fleetridge-evidence/"): archive.read(name) for name in archive.namelist()}
    gpu = read(sick_fleet, f"/gpus/{SICK}")
    assert json.loads(files["gpu.json"])["verdict"] == gpu["verdict"]
    assert gpu["verdict"]["reasons"][0]["text"] in " ".join(files["verdict.txt"].decode().split())
    assert files["history.svg"].startswith(b"<svg ")
    for report in gpu["reports"]:
        sent = sick_fleet.get(f"/reports/{report['report_id']}").content
        assert files[f"reports/{report['report_id']}.json"] == sent
    for name, content in files.items():
        assert name == "README.txt" or f"{sha256(content).hexdigest()}  {name}" in files["README.txt"].decode()


def test_an_unknown_gpu_is_told_on_a_page(empty_server: AppClient) -> None:
    assert "There is no such gpu" in page_of(empty_server, "/ui/gpus/GPU-nope", status=404).text
    assert "cluster" in page_of(empty_server, "/ui/gpus/GPU-nope?cluster=east", status=422).text
