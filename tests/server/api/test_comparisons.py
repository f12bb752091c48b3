"""What a driver, a setting or a place does to a device's gpus."""

from __future__ import annotations

from typing import Any

import pytest

from support.app_client import AppClient
from support.evaluated import DAY, NOW, SOUND, evaluate, runs
from support.fleet import AS_TEXT, post, post_judged, read

BY_DRIVER = {"by": "driver", "dtype": "bfloat16"}


def test_gpus_that_met_a_change_are_compared_with_themselves(client: AppClient, database_url: str) -> None:
    """With interval and number; the groups of now stand beside it."""
    post(client, runs("n01", [SOUND, SOUND + 2, SOUND - 2, SOUND + 1, SOUND, SOUND] * 2, until=NOW - 3 * DAY))
    upgraded = [SOUND, SOUND + 2, SOUND - 2, SOUND + 1, SOUND, SOUND] + [0.95 * SOUND] * 6
    after = runs("n01", upgraded, environment__driver="590.10")
    post(client, [run for run in after if run["gpu"]["index"] >= 6])
    evaluate(database_url)

    [roof] = read(client, "/devices/h200/compare", **BY_DRIVER)["roofs"]

    [pair] = roof["paired"]
    assert (roof["kind"], pair["before"], pair["after"], pair["n"]) == ("paired", "580.159.04", "590.10", 6)
    assert pair["low"] <= pair["effect"] <= pair["high"] < 0
    assert pair["effect"] == pytest.approx(-0.05, abs=0.002)
    assert {group["level"]: group["values"]["n"] for group in roof["groups"]} == {"580.159.04": 6, "590.10": 6}


def test_without_pairs_groups_are_compared_and_labelled_so(client: AppClient) -> None:
    """Against the largest, with an interval."""
    post_judged(client, runs("n01", [SOUND] * 6))
    post_judged(client, runs("n02", [0.95 * SOUND] * 4, environment__driver="590.10"))

    [roof] = read(client, "/devices/h200/compare", **BY_DRIVER)["roofs"]

    assert (roof["kind"], roof["paired"], roof["reference"]) == ("between_groups", [], "580.159.04")
    reference, other = roof["groups"]
    assert (reference["effect"], other["effect"]) == (None, pytest.approx(-0.05))
    assert other["low"] < other["effect"] < other["high"] < 0


def test_groups_of_few_gpus_are_shown_without_an_effect(client: AppClient) -> None:
    """With a word why."""
    post_judged(client, [*runs("n01", [SOUND] * 6), *runs("n02", [SOUND] * 3, environment__driver=None)])

    [roof] = read(client, "/devices/h200/compare", **BY_DRIVER)["roofs"]

    assert (roof["groups"][1]["level"], roof["groups"][1]["effect"]) == ("unknown", None)
    assert roof["groups"][1]["note"] == "too few to compare: 3 of at least 4"


@pytest.mark.parametrize(
    ("by", "changes", "levels"),
    [
        ("torch", {"environment__torch": "2.12.0"}, {"2.11.0", "2.12.0"}),
        ("power_limit_w", {"environment__power_limit_w": 500.0}, {"500", "700"}),
        ("cluster", {"node__cluster": "west"}, {"east", "west"}),
        ("label:rack", {"node__labels": {"rack": "r2"}}, {"r1", "r2"}),
        ("label:rack", {"node__labels": {}}, {"r1", "unknown"}),
    ],
)
def test_gpus_are_grouped_by_what_is_asked_for(
    client: AppClient, by: str, changes: dict[str, Any], levels: set[str]
) -> None:
    """Software, settings, places and labels."""
    post_judged(client, [*runs("n01", [SOUND] * 4), *runs("n02", [SOUND] * 4, **changes)])

    roofs = read(client, "/devices/h200/compare", by=by)["roofs"]

    assert [{group["level"] for group in roof["groups"]} for roof in roofs] == [levels, levels]


def test_a_label_with_many_values_shows_the_largest_groups(client: AppClient) -> None:
    """And counts the others."""
    post_judged(
        client, [run for n in range(60) for run in runs(f"n{n}", [SOUND], days=1, node__labels={"slot": f"s{n}"})]
    )

    [roof] = read(client, "/devices/h200/compare", by="label:slot", dtype="bfloat16")["roofs"]

    assert (len(roof["groups"]), roof["left_out"]) == (50, 10)


@pytest.mark.parametrize("by", ["weather", "label:", "", "x" * 400])
def test_an_unknown_factor_is_refused(client: AppClient, by: str) -> None:
    """With those that there are."""
    post(client, runs("n01", [SOUND]))

    answer = client.get("/devices/h200/compare", params={"by": by})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


def test_a_comparison_needs_a_factor(client: AppClient) -> None:
    """Nothing is guessed."""
    assert client.get("/devices/h200/compare").status_code == 422
    assert client.get("/devices/none/compare?by=driver").json()["code"] == "unknown_device"


def test_made_up_gpus_are_compared_only_where_asked_for(client: AppClient) -> None:
    """And then alone."""
    post_judged(client, [*runs("n01", [SOUND] * 4), *runs("s01", [SOUND] * 3, node__cluster="simulated")])

    def gpus(**params: str) -> int:
        [roof] = read(client, "/devices/h200/compare", **BY_DRIVER, **params)["roofs"]
        total: int = roof["groups"][0]["values"]["n"]
        return total

    assert (gpus(), gpus(cluster="simulated"), gpus(cluster="east")) == (4, 3, 4)


def test_as_of_an_earlier_time_groups_are_those_of_then(client: AppClient) -> None:
    """Before the upgrade there was one."""
    post(client, runs("n01", [SOUND] * 4, until=NOW - 3 * DAY))
    post(client, runs("n01", [SOUND] * 4, environment__driver="590.10"))

    [roof] = read(client, "/devices/h200/compare", **BY_DRIVER, as_of=(NOW - 3 * DAY).isoformat())["roofs"]

    assert [group["level"] for group in roof["groups"]] == ["580.159.04"]


def test_the_text_form_labels_what_it_compares(client: AppClient) -> None:
    """Within 80 columns."""
    post_judged(
        client, [*runs("n01", [SOUND] * 4), *runs("n02", [SOUND] * 4, environment__driver="590.10-" + "x" * 60)]
    )

    text = client.get("/devices/h200/compare", params=BY_DRIVER, headers=AS_TEXT).text

    assert max(map(len, text.splitlines())) <= 80
    assert "between groups: other gpus" in text
    assert "reference" in text
