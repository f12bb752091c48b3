"""A reader can work out every verdict from what the answers show, and comes to the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from support.app_client import AppClient
from support.evaluated import DAY, HOUR, NOW, SLOW, SOUND, evaluate, runs
from support.fleet import post, read
from support.recomputing import recomputed, shown

OLD, NEW = "580.159.04", "590.10"

Reports = list[dict[str, Any]]


def node(name: str, rates: Sequence[float], *, noise: float, days: range = range(4), driver: str = OLD) -> Reports:
    """Reports of a node on some days before now, each run a little off its gpu's rate."""
    return [
        run
        for day in days
        for run in runs(
            name,
            [round(rate * _noise(f"{name} {index} {day}", noise), 2) for index, rate in enumerate(rates)],
            days=1,
            until=NOW - day * DAY,
            environment__driver=driver,
        )
    ]


def _noise(run: str, noise: float) -> float:
    """What a run is off by, the same each time."""
    return Random(run).gauss(1, noise)  # noqa: S311 # noise


def plain() -> Reports:
    """Like gpus, one of which is slow, and one that was for two days."""
    recovered = node("n02", [SOUND] * 7 + [SLOW], noise=0.003, days=range(3, 5))
    return [
        *node("n01", [SOUND] * 7 + [SLOW], noise=0.003),
        *recovered,
        *node("n02", [SOUND] * 8, noise=0.003, days=range(3)),
    ]


def scattered() -> Reports:
    """Gpus that differ by some per cent for good, so that their own spread is the scale."""
    rates = [SOUND * (1 + 0.012 * place) for place in range(-4, 5)]
    return [*node("n01", rates, noise=0.002), *node("n02", [SOUND, 0.8 * SOUND], noise=0.002)]


def split() -> Reports:
    """Half of eight gpus on a slower driver, and two of the other half slow: the faster half is their yardstick."""
    sound = node("n01", [SOUND] * 2, noise=0.002)
    slow = [run for name in ("n02", "n03") for run in node(name, [0.87 * SOUND], noise=0.002)]
    newer = [
        run for name in ("n04", "n05", "n06", "n07") for run in node(name, [0.95 * SOUND], noise=0.002, driver=NEW)
    ]
    return [*sound, *slow, *newer]


def upgraded() -> Reports:
    """Half of the gpus met a slower driver yesterday; one of them has been slow all along."""
    rates = [SOUND] * 7 + [0.9 * SOUND]
    before = node("n01", rates, noise=0.002, days=range(1, 5))
    after = node("n01", [0.94 * rate for rate in rates], noise=0.002, days=range(1), driver=NEW)
    return [*before, *after, *node("n02", [SOUND] * 8, noise=0.002)]


FLEETS: dict[str, Callable[[], Reports]] = {
    "plain": plain,
    "scattered": scattered,
    "split": split,
    "upgraded": upgraded,
}


def answers(client: AppClient, database_url: str, reports: Reports) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The ridge of the device, and the verdicts of all its gpus."""
    post(client, reports)
    evaluate(database_url, at=NOW + HOUR / 60)
    ridge = read(client, "/devices/h200/ridge", limit=1000)
    return ridge, [read(client, f"/gpus/{gpu['gpu_id']}")["verdict"] for gpu in ridge["gpus"]]


@pytest.mark.parametrize("fleet", list(FLEETS))
def test_all_numbers_of_all_verdicts_can_be_worked_out(fleet: str, client: AppClient, database_url: str) -> None:
    """Value, median, scale, floor, limit, loss, z, p, q and standing of every gpu in every judged roof."""
    _, verdicts = answers(client, database_url, FLEETS[fleet]())

    worked_out, told = recomputed(verdicts), shown(verdicts)

    assert worked_out.keys() == told.keys()
    for pair, expected in told.items():
        for name, number in expected.items():
            own = worked_out[pair][name]
            if number is None:
                # It is given where there is anything to decide.
                assert (name, expected["standing"]) == ("q", "clear"), pair
            elif isinstance(number, str | int):
                assert own == number, (pair, name)
            else:
                assert own == pytest.approx(number, rel=1e-6, abs=1e-9), (pair, name)


@pytest.mark.parametrize(
    ("fleet", "standings"),
    [
        ("plain", {"clear", "outlier"}),
        ("scattered", {"clear", "outlier"}),
        ("split", {"clear", "suspect"}),
        ("upgraded", {"clear", "outlier"}),
    ],
)
def test_the_fleets_that_are_worked_out_have_something_to_find(
    fleet: str, standings: set[str], client: AppClient, database_url: str
) -> None:
    """Else the arithmetic would be that of sound gpus alone."""
    _, verdicts = answers(client, database_url, FLEETS[fleet]())

    assert {own["standing"] for verdict in verdicts for own in verdict["roofs"]} == standings


def test_the_bands_of_a_device_are_those_of_its_gpus(client: AppClient, database_url: str) -> None:
    """Where a reader looks them up makes no difference."""
    ridge, verdicts = answers(client, database_url, upgraded())

    bands = [band for cohort in ridge["cohorts"] for band in cohort["bands"]]

    assert all(own["band"] in bands for verdict in verdicts for own in verdict["roofs"])


def test_what_an_upgrade_did_to_earlier_runs_is_shown_with_them(client: AppClient, database_url: str) -> None:
    """The value as it was measured, and by what it counts today."""
    _, verdicts = answers(client, database_url, upgraded())

    [own] = [own for own in verdicts[0]["roofs"] if own["roof"]["kind"] == "compute"]

    assert own["runs"][0]["carried"] == 1.0
    assert own["runs"][1]["carried"] == pytest.approx(0.94, abs=0.01)


def test_a_level_judged_by_its_faster_half_says_so(client: AppClient, database_url: str) -> None:
    """Else its median could not be found again."""
    _, verdicts = answers(client, database_url, split())

    halves = {
        own["band"]["levels"][0]["name"]: own["band"]["of_faster_half"]
        for verdict in verdicts
        for own in verdict["roofs"]
        if own["band"]["levels"]
    }

    assert halves == {OLD: True, NEW: False}
