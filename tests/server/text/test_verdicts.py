"""Verdicts, reasons and notices as people read them."""

from __future__ import annotations

import pytest

from fleetridge_server.engine.notices import NoticeKind
from fleetridge_server.engine.wording import Fact
from fleetridge_server.text.words import facts, notices, state_word
from fleetridge_server.verdicts.evaluation_shapes import NoticeShown
from fleetridge_server.verdicts.roof_shapes import RoofName

LIMIT = Fact("power_limit_w", "500 W", "700 W", 500.0, 700.0, "W")
DRAW = Fact("power_w", "490 W", "690 W", 490.0, 690.0, "W")
DRIVER = Fact("driver", "535.54.03", "580.95.05")


def notice(text: str, regime: str, effect: float | None = None, *, kind: NoticeKind = "factor_step") -> NoticeShown:
    """A notice on pi in a regime; the interval reaches one per cent to either side."""
    roof = RoofName("compute", "bfloat16", "bfloat16", None, regime, "device", "gemm_reference")
    low, high = (None, None) if effect is None else (effect - 0.01, effect + 0.01)
    return NoticeShown(kind, text, roof, None, effect, low, high, (), 0, ())


@pytest.mark.parametrize(
    ("found", "beside", "said"),
    [
        ((LIMIT, DRAW), "power limit 500 W, peers 700 W", " (power draw 490 W, peers 690 W)"),
        ((DRIVER,), "driver 535.54.03 (most peers 580.95.05)", ""),
        ((Fact("remapped_rows_pending", "yes", ""),), "a memory repair waits for a reset", ""),
        ((), "", ""),
    ],
)
def test_a_reading_that_the_sentence_says_is_not_said_again(found: tuple[Fact, ...], beside: str, said: str) -> None:
    assert facts(found, beside=beside) == said


def test_a_state_about_measurements_keeps_what_the_gpu_was_accused_of() -> None:
    assert state_word("stale", "outlier") == "stale (outlier)"
    assert state_word("missing", "ok") == "missing"
    assert state_word("insufficient_peers") == "few peers"


def test_notices_that_differ_in_roof_and_figures_only_are_one_sentence() -> None:
    text = "driver 590 (8 gpus) differs from 580 (8 gpus) by {}; each gpu is judged among its own"
    steps = [
        notice(text.format("−3.7 % (−4.7 % to −2.7 %)"), "burst", -0.037),
        notice(text.format("−5.0 % (−6.0 % to −4.0 %)"), "sustained", -0.05),
    ]
    assert notices(steps).replace("\n", " ") == (
        "factor step: driver 590 (8 gpus) differs from 580 (8 gpus); each gpu is judged among its own: "
        "pi bfloat16 burst −3.7 % (−4.7 % to −2.7 %), pi bfloat16 sustained −5.0 % (−6.0 % to −4.0 %)"
    )
    assert notices(steps[:1]).replace("\n", " ").startswith("factor step: pi bfloat16 burst: driver 590 (8 gpus)")


def test_notices_of_different_words_stay_apart() -> None:
    found = [
        notice("8 gpus became slower together, by 2.0 %", "burst", -0.02, kind="fleet_drift"),
        notice("9 gpus became slower together, by 3.0 %", "burst", -0.03, kind="fleet_drift"),
    ]
    assert len(notices(found).splitlines()) == 2
