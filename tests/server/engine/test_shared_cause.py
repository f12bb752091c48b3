"""What the gpus of a slow place have in common."""

from __future__ import annotations

import pytest

from fleetridge_server.engine.remedies import REMEDIES, SHARED_STEPS, Reason, ReasonCode, facts_words, shared_cause
from fleetridge_server.engine.wording import Fact, number_fact


def hot(temperature_c: float) -> list[Reason]:
    """Causes of a hot gpu."""
    facts = (number_fact("temperature_c", temperature_c, 65.0), number_fact("sw_thermal_slowdown", 600.0, 0.0, "ms"))
    return [
        Reason("clock_lower", "SM clock 1400 MHz, peers 1500 MHz", (number_fact("sm_clock_mhz", 1400.0, 1500.0),)),
        Reason("thermal", "held back by SW thermal slowdown", facts),
    ]


def capped(limit_w: float) -> list[Reason]:
    """Causes of a gpu with a lower limit."""
    fact = number_fact("power_limit_w", limit_w, 700.0)
    return [Reason("power_limit_lower", f"power limit {fact.own}, peers {fact.peers}", (fact,), noun="power limit")]


def test_the_first_cause_that_most_gpus_show_is_what_they_share() -> None:
    shared = shared_cause("node", [*[hot(88.0)] * 7, []])
    assert shared is not None
    assert (shared.code, shared.gpus, shared.of) == ("thermal", 7, 8)
    assert shared.text == "7 of 8 gpus held back by SW thermal slowdown"


def test_readings_are_medians_over_the_gpus() -> None:
    shared = shared_cause("node", [hot(86.0), hot(88.0), hot(99.0)])
    assert shared is not None
    assert facts_words(shared.facts) == " (temperature 88 °C, peers 65 °C; SW thermal slowdown 600 ms, peers 0 ms)"


def test_a_sentence_that_is_made_of_a_reading_has_the_median() -> None:
    shared = shared_cause("rack", [capped(480.0), capped(500.0), capped(520.0)])
    assert shared is not None
    assert shared.text == "3 of 3 gpus: power limit 500 W, peers 700 W"
    assert "the whole rack" in shared.next_step


def test_what_half_of_the_gpus_show_is_not_shared() -> None:
    assert shared_cause("node", [hot(88.0), hot(88.0), [], []]) is None
    assert shared_cause("node", [[], []]) is None


def test_words_that_most_gpus_share_stand_for_all() -> None:
    def driver(version: str) -> list[Reason]:
        return [Reason("software_differs", f"driver {version}", (Fact("driver", version, "580"),))]

    shared = shared_cause("node", [driver("535"), driver("535"), driver("550")])
    assert shared is not None
    assert (shared.text, shared.facts) == ("3 of 3 gpus: driver 535", (Fact("driver", "535", "580"),))


@pytest.mark.parametrize("code", [code for code, remedy in REMEDIES.items() if remedy.is_cause])
def test_no_step_for_a_place_returns_a_card(code: ReasonCode) -> None:
    """A link is no cause of a slow node."""
    step = SHARED_STEPS.get(code, REMEDIES["whole_node"].next_step)
    assert "return the card" not in step
