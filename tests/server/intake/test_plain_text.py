from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import to_json

from fleetridge import strict_json
from fleetridge.report import Report
from fleetridge.strict_json import MAX_VALUES_OF_REPORT, StrictJsonError
from fleetridge_server.intake.body import has_unknown_fields, is_plain
from support.reports import compute_roof, make_report

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
places = st.sampled_from(
    ["detail", "node__labels", "node__name", "sweep__square", "sweep__m_sweep", "sweep__dtypes", "sweep__buffer_bytes",
     "agent__arguments", "gpu__device", "gpu__memory_bytes", "environment__power_limit_w", "evidence__phases", "points"]
)  # fmt: skip


def passes(item: dict[str, Any]) -> bool:
    try:
        strict_json.check(item, max_values=MAX_VALUES_OF_REPORT)
    except StrictJsonError:
        return False
    return True


def plain(item: dict[str, Any]) -> bool:
    """Whether an item is a report that is taken without a look at each of its values."""
    try:
        report = Report.model_validate(item)
    except ValidationError:
        return False
    return not has_unknown_fields(report) and is_plain(to_json(item, inf_nan_mode="constants"), report)


@given(places, values | st.lists(st.integers(-(2**70), 2**70), max_size=3) | st.text())
def test_whatever_is_plain_can_be_kept(place: str, value: Any) -> None:
    """The glance never lets pass what a look at each value refuses."""
    item = make_report(**{place: value})

    assert passes(item) or not plain(item)


def test_an_ordinary_report_is_plain() -> None:
    """Otherwise the glance would be for nothing."""
    assert plain(make_report())


def test_a_report_of_very_many_values_is_not_plain() -> None:
    """Its values are counted, one by one."""
    roofs = [compute_roof(845.0, points=[0] * 4096) for _ in range(40)]

    assert not plain(make_report(roofs=roofs))
    assert not passes(make_report(roofs=roofs))


def test_an_unknown_field_is_seen_wherever_it_is() -> None:
    """A part that is overlooked could hold anything."""
    known = make_report(evidence__phases=[{"phase": "burst bfloat16"}])
    parts = [
        known, known["run"], known["run"]["roster"][0], known["agent"], known["node"], known["gpu"],
        known["environment"], known["evidence"], known["evidence"]["phases"][0], known["sweep"], *known["points"],
        *known["roofs"],
    ]  # fmt: skip
    seen = []
    for part in parts:
        part["later"] = 1
        seen.append(has_unknown_fields(Report.model_validate(known)))
        del part["later"]

    assert seen == [True] * len(parts)
    assert not has_unknown_fields(Report.model_validate(known))
