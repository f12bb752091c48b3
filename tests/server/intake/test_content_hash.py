from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.report import Report
from fleetridge_server.intake.body import content_sha256
from support.reports import compute_roof, make_report

LARGEST = 1e15

readings = st.none() | st.floats(-LARGEST, LARGEST) | st.floats(-2e-4, 2e-4) | st.integers(-(10**15), 10**15)
positive = st.floats(1e-12, LARGEST) | st.floats(1e-12, 2e-4)

# Among them such as look like numbers, like the end of a text, and like the spelling of another one.
texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20) | st.sampled_from(
    ["x:0.00001,", "[1e-5]", "5e-06", "0.00005", 'a":0.00001,"b', "\\", '\\":1e-5', "é:3e-7}", "GPU-1e-5-0.00001"]
)
later = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def same(content: dict[str, Any]) -> bool:
    report = Report.model_validate(content)
    return content_sha256(report) == report.content_sha256()


@given(st.lists(readings, min_size=4, max_size=4), st.lists(positive, min_size=2, max_size=2), texts)
def test_numbers_and_texts_of_any_kind_hash_as_the_contract_says(
    numbers: list[float | int | None], sizes: list[float], text: str
) -> None:
    """Tiny rates and texts that look like them are where another writer of JSON could go its own way."""
    low, trend, watts, clock = numbers
    roof = compute_roof(sizes[0], ci_low=low, trend=trend, power_w=watts, sm_clock_mhz=clock, kernel=text)
    content = make_report(roofs=[roof], node__labels={text or "x": text}, detail=text)
    content["points"][0] |= {"ms": sizes[1], "label": text}

    assert same(content)


@given(st.dictionaries(texts.filter(lambda text: text not in Report.model_fields), later, max_size=3))
def test_fields_of_a_later_version_hash_as_the_contract_says(fields: dict[str, Any]) -> None:
    """They may hold numbers that no reading may be."""
    assert same({**make_report(), **fields})


@given(st.lists(st.integers(-(2**80), 2**80), max_size=3))
def test_sizes_beyond_64_bits_hash_as_the_contract_says(sizes: list[int]) -> None:
    """The contract has no bound on them."""
    assert same(make_report(sweep__square=sizes))


@pytest.mark.parametrize("exponent", range(-12, 16))
@pytest.mark.parametrize("factor", [1.0, -1.0, 9.999999999999999, 1.234, -5.0])
def test_each_power_of_ten_hashes_as_the_contract_says(exponent: int, factor: float) -> None:
    """Where spellings change is a matter of the exponent."""
    value = factor * 10.0**exponent if exponent < 15 else factor / 10 * 10.0**exponent

    assert same(make_report(roofs=[compute_roof(845.0, trend=value, ci_low=value / 3)]))
