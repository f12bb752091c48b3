"""Words and cells of the text tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from fleetridge_server.engine.cohort import Conditions
from fleetridge_server.engine.statistics import distribution
from fleetridge_server.engine.wording import variant
from fleetridge_server.text import words
from fleetridge_server.verdicts.roof_shapes import FleetBandwidth
from support.readings import STANDARD


@pytest.mark.parametrize(
    ("dtype", "out_dtype", "fast", "regime", "expected"),
    [
        ("bfloat16", "bfloat16", None, "burst", "bfloat16 burst"),
        ("bfloat16", None, None, "sustained", "bfloat16 sustained"),
        ("bfloat16", "float32", None, "unspecified", "bfloat16→float32"),
        ("float8_e4m3fn", "bfloat16", True, "burst", "float8_e4m3fn fast-acc burst"),
        ("float8_e4m3fn", "float16", False, "burst", "float8_e4m3fn→float16 burst"),
        ("int8", "int32", None, "burst", "int8 burst"),
        ("made_up", "made_up", None, "burst", "made_up burst"),
    ],
)
def test_a_roof_is_named_by_what_is_not_usual(
    dtype: str, out_dtype: str | None, fast: bool | None, regime: str, expected: str
) -> None:
    """The usual output of a dtype goes without saying, and so does a regime that nobody said."""
    assert variant(dtype, regime, out_dtype, fast_accumulation=fast) == expected


def bandwidth(conditions: Conditions) -> FleetBandwidth:
    """A group of gpus under some conditions."""
    return FleetBandwidth(
        dtype="float32",
        regime="burst",
        kernel="read",
        conditions=conditions,
        peers=1,
        note=None,
        beta_gbps=distribution([4430.0]),
        published_beta_gbps=None,
        share_of_published=None,
    )


def test_conditions_that_all_groups_share_go_without_saying() -> None:
    """Most fleets have one group."""
    assert words.differing_conditions([bandwidth(STANDARD), bandwidth(STANDARD)]) == ["", ""]


def test_groups_are_told_apart_by_the_conditions_in_which_they_differ() -> None:
    """In the words of the field."""
    groups = [
        STANDARD,
        replace(STANDARD, mig_profile="1g.18gb", memory_gib=18, sm_count=16),
        replace(STANDARD, fill=None, protocol_version=2),
    ]

    named = words.differing_conditions([bandwidth(conditions) for conditions in groups])

    assert named == [
        ", 141 GiB, 132 SMs, no mig profile, fill normal, protocol 1",
        ", 18 GiB, 16 SMs, 1g.18gb, fill normal, protocol 1",
        ", 141 GiB, 132 SMs, no mig profile, no fill, protocol 2",
    ]


def test_an_id_is_cut_where_it_still_tells_gpus_apart() -> None:
    """The first group of a UUID."""
    ids = ["GPU-8a7d43b5-7863-3074-b797-0386fee29476", "GPU-1", "noid-0123456789abcdef"]

    assert [words.short_id(gpu_id) for gpu_id in ids] == ["GPU-8a7d43b5…", "GPU-1", "noid-0123456…"]


def test_a_missing_time_is_a_dash() -> None:
    """Not the year 1970."""
    now = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)

    assert (words.at(None), words.ago(None, now), words.old(None)) == ("–", "–", "–")
    assert (words.at(now), words.ago(now, now), words.old(90.0)) == ("2026-11-20 12:00 UTC", "0 s", "1 min")


def test_a_long_sentence_is_broken_and_escapes_are_spelled_out() -> None:
    """Names come from machines that nobody vouches for."""
    text = words.lines(["a word " * 30, "\x1b[31mred"])

    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_empty_parts_leave_no_gap() -> None:
    """One empty line between those that are there."""
    assert words.blocks("a", "", "b") == "a\n\nb"
