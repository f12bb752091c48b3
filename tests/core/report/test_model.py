"""The wire report: what is taken, what is refused and why."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fleetridge import strict_json
from fleetridge.report import MAX_REPORTS, Envelope, Report
from support.reports import compute_roof, make_report, make_skipped_report


def problems(content: Any) -> str:
    """What pydantic says of a refused report."""
    with pytest.raises(ValidationError) as caught:
        Report.model_validate(content)
    return str(caught.value)


def test_a_measured_report_is_taken() -> None:
    """The factory's default is a good report."""
    assert Report.model_validate(make_report()).outcome == "measured"


def test_an_unknown_field_is_kept_at_every_level() -> None:
    """A newer agent loses nothing on its way through."""
    content = make_report(novel={"a": [1]}, gpu__novel=1, environment__novel="x")
    content["points"][0]["novel"] = 2.5
    content["roofs"][0]["novel"] = None

    kept = Report.model_validate(content).model_dump(mode="json")

    assert kept["novel"] == {"a": [1]}
    assert (kept["gpu"]["novel"], kept["environment"]["novel"]) == (1, "x")
    assert (kept["points"][0]["novel"], kept["roofs"][0]["novel"]) == (2.5, None)


@pytest.mark.parametrize(
    "reading", ["[N/A]", "N/A", "[Not Supported]", "Not Supported", "", "[GPU requires reset]", None]
)
def test_an_absent_reading_is_null_and_never_zero(reading: str | None) -> None:
    """Drivers and their tools have many words for it."""
    report = Report.model_validate(
        make_report(evidence={"phases": [{"phase": "burst", "power_w": reading, "temperature_c": 41}]})
    )

    phase = report.evidence.phases[0]
    assert phase.power_w is None
    assert phase.temperature_c == 41


@pytest.mark.parametrize("reading", ["41", "41 W", True])
def test_a_reading_that_is_no_number_is_refused(reading: Any) -> None:
    """Guessing at units or truth values would invent data."""
    assert "environment.power_limit_w" in problems(make_report(environment__power_limit_w=reading))


@pytest.mark.parametrize("ms", [0, -1.0, 0.0, 1e-300, 1e300, True, "0.5", None])
def test_a_time_must_be_a_positive_number(ms: Any) -> None:
    """Rates are made by dividing by it."""
    content = make_report()
    content["points"][0]["ms"] = ms

    assert "points.0.gemm.ms" in problems(content)


def test_a_rate_that_follows_from_its_operands_is_taken() -> None:
    """Rounded to four digits, as tables print it."""
    content = make_report()
    content["points"][0]["tflops"] = 845.9
    content["points"][1]["gbps"] = 4432.0

    Report.model_validate(content)


@pytest.mark.parametrize(("position", "rate"), [(0, {"tflops": 860.0}), (1, {"gbps": 4500.0})])
def test_a_rate_that_contradicts_its_operands_is_refused(position: int, rate: dict[str, float]) -> None:
    """By more than 0.1 %, with the rate that would be right."""
    content = make_report()
    content["points"][position].update(rate)

    assert "contradicts" in problems(content)


@pytest.mark.parametrize("version", ["2.0", "1.1", "0.9", "1", "", "one"])
def test_an_unknown_schema_version_is_refused_with_those_that_are_taken(version: str) -> None:
    """Either side may be the older one."""
    assert "this side takes 1.0" in problems(make_report(schema_version=version))


def test_a_measured_report_without_rates_is_refused() -> None:
    """No data is never a measurement."""
    assert "points or roofs" in problems(make_report(points=[], roofs=[]))


def test_a_measured_report_without_a_gpu_is_refused() -> None:
    """A rate belongs to something."""
    assert "names its gpu" in problems(make_report(gpu=None))


def test_a_report_without_rates_says_why() -> None:
    """A reason in one word."""
    assert "gives a reason" in problems(make_report(outcome="skipped"))


def test_a_report_about_the_node_needs_no_gpu() -> None:
    """Where the driver cannot even be asked, there is none to name."""
    report = Report.model_validate(make_skipped_report("nvml_unknown_error", outcome="failed", gpu=None))

    assert report.gpu is None


@pytest.mark.parametrize(
    ("sent", "utc"),
    [
        ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00+09:00", "2025-12-31T15:00:00Z"),
        ("2106-02-07T06:28:15Z", "2106-02-07T06:28:15Z"),
    ],
)
def test_naive_and_zoned_times_are_taken_as_utc(sent: str, utc: str) -> None:
    """Clocks that run ahead too: they are flagged on arrival, not refused."""
    report = Report.model_validate(make_report(measured_from=sent, measured_to=sent))

    assert utc == report.model_dump(mode="json")["measured_to"]


@pytest.mark.parametrize("moment", [1767225600, 1767225600.5, True, "yesterday", "9999-12-31T23:59:59-05:00", ""])
def test_a_time_that_is_no_iso_text_or_lies_outside_the_calendar_is_refused(moment: Any) -> None:
    """Numbers are refused as nobody says whether they are seconds or milliseconds."""
    assert "measured_to" in problems(make_report(measured_to=moment))


def test_a_measurement_does_not_end_before_it_began() -> None:
    """That is a programming error of the sender, not a wrong clock."""
    content = make_report(measured_from="2026-01-01T00:00:01Z", measured_to="2026-01-01T00:00:00Z")

    assert "before measured_from" in problems(content)


def test_only_an_import_may_lack_times() -> None:
    """Measurements made before often did not say."""
    untimed = make_report(measured_from=None, measured_to=None)

    assert "only in an import" in problems(untimed)
    untimed["run"]["kind"] = "import"
    assert Report.model_validate(untimed).measured_to is None


def test_a_roof_is_given_in_the_unit_of_its_kind() -> None:
    """TFLOP/s for compute, GB/s for memory."""
    assert "given in TFLOP/s" in problems(make_report(roofs=[compute_roof(845.0, unit="GB/s")]))


def test_a_roof_rests_on_points_of_its_own_report() -> None:
    """A position past the end is a contradiction."""
    assert "does not have" in problems(make_report(roofs=[compute_roof(845.0, points=[2])]))


@pytest.mark.parametrize("field", ["node__name", "gpu__device", "detail"])
def test_a_control_character_in_text_is_refused(field: str) -> None:
    """Also where a report was not read from JSON text."""
    assert "control character" in problems(make_report(**{field: "a\x00b"}))


def test_sizes_in_bytes_have_64_bits() -> None:
    """A card's memory does not fit 32."""
    report = Report.model_validate(make_report(gpu__memory_bytes=206158430208))

    assert report.gpu is not None
    assert report.gpu.memory_bytes == 206158430208


def test_a_number_that_no_column_holds_is_refused() -> None:
    """Whole numbers are bounded by the column that they go to."""
    assert "gpu.index" in problems(make_report(gpu__index=2**31))
    assert "gpu.memory_bytes" in problems(make_report(gpu__memory_bytes=2**63))


def test_a_report_cannot_be_changed_after_it_was_made() -> None:
    """Reports are facts."""
    report = Report.model_validate(make_report())

    with pytest.raises(ValidationError, match="frozen"):
        report.outcome = "failed"  # type: ignore[misc] # the type checker refuses it too


def test_equal_content_has_one_hash_however_it_is_spelled() -> None:
    """Key order, zones, absent words and integral floats are spelling."""
    content = make_report(measured_from="2026-01-01T00:00:00Z", measured_to="2026-01-01T00:00:00Z")
    respelled = dict(reversed(list(content.items())))
    respelled["measured_to"] = "2026-01-01T09:00:00+09:00"
    respelled["environment"] = {**content["environment"], "vbios": "[N/A]", "power_limit_w": 700}

    assert Report.model_validate(content).content_sha256() == Report.model_validate(respelled).content_sha256()


def test_other_content_has_another_hash() -> None:
    """In a field that this version does not know, too."""
    content = make_report()
    other = {**content, "novel": 1}

    assert Report.model_validate(content).content_sha256() != Report.model_validate(other).content_sha256()


@given(st.sampled_from(["NaN", "Infinity", "-Infinity"]))
def test_a_non_finite_number_never_gets_into_a_report(token: str) -> None:
    """Not even in a field that this version does not know."""
    text = json.dumps(make_report(novel=0)).replace('"novel": 0', f'"novel": {token}')

    with pytest.raises(strict_json.StrictJsonError, match="novel"):
        strict_json.loads(text.encode())


def test_an_envelope_holds_at_least_one_report_and_at_most_a_node_s() -> None:
    """Empty lists are a fault of the sender."""
    with pytest.raises(ValidationError, match="reports"):
        Envelope[Report].model_validate({"reports": []})
    with pytest.raises(ValidationError, match="reports"):
        Envelope[Report].model_validate({"reports": [make_report()] * (MAX_REPORTS + 1)})


def test_the_time_of_sending_belongs_to_the_envelope() -> None:
    """So that a report is the same bytes on every retry."""
    report = make_report()
    early = Envelope[Report].model_validate({"sent_at": "2026-01-01T00:00:00Z", "reports": [report]})
    late = Envelope[Report].model_validate({"sent_at": "2026-01-02T00:00:00Z", "reports": [report]})

    assert early.reports[0].content_sha256() == late.reports[0].content_sha256()


@pytest.mark.parametrize("path", ["points", "roofs", "run__roster", "evidence__phases", "agent__arguments"])
def test_an_endless_list_is_refused_by_its_length_and_not_by_its_entries(path: str) -> None:
    """One fault, however many of its entries are faulty too."""
    with pytest.raises(ValidationError) as caught:
        Report.model_validate(make_report(**{path: [{}] * 5000}))

    [fault] = caught.value.errors()
    assert "5000 entries; send at most" in fault["msg"]


def test_an_endless_object_is_refused_by_its_length() -> None:
    """Labels with wrong values are not looked at."""
    with pytest.raises(ValidationError) as caught:
        Report.model_validate(make_report(node__labels={str(key): 1 for key in range(5000)}))

    assert len(caught.value.errors()) == 1


@pytest.mark.parametrize(
    "time", ["20261120", "2026", "46346", "1767225600.5", "-1", "+5", "1e9", " 12 ", 2026, 1.5, True]
)
def test_a_number_is_no_time_however_it_is_spelled(time: Any) -> None:
    """Seconds since 1970 would make a day of that year out of 20261120."""
    assert "ISO 8601" in problems(make_report(measured_to=time))


@pytest.mark.parametrize(
    "uuid",
    [
        "00000000-0000-0000-0000-000000000000",
        "{01a22912-ebe4-7dcb-9109-e122e1e199ec}",
        "urn:uuid:01a22912-ebe4-7dcb-9109-e122e1e199ec",
        "01a22912ebe47dcb9109e122e1e199ec",
        12,
    ],
)
@pytest.mark.parametrize("path", ["report_id", "run__run_id"])
def test_an_id_is_a_plain_uuid_and_not_of_zeros(path: str, uuid: Any) -> None:
    """One id has one spelling; zeros are what broken makers of ids give."""
    assert path.replace("__", ".") in problems(make_report(**{path: uuid}))


def test_an_id_may_be_in_capitals() -> None:
    """Some libraries write it so."""
    Report.model_validate(make_report(report_id="01A22912-EBE4-7DCB-9109-E122E1E199EC"))


def leaves(part: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Paths to everything in a report that holds nothing else."""
    parts = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    return [leaf for key, inner in parts for leaf in leaves(inner, (*path, key))] or [path]


@pytest.mark.parametrize("path", leaves(make_report()), ids=lambda path: ".".join(map(str, path)))
def test_a_null_in_any_place_is_taken_or_refused(path: tuple[str | int, ...]) -> None:
    """It never breaks the check itself, which would be this server's fault and not the sender's."""
    content = make_report()
    holder: Any = content
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = None

    with suppress(ValidationError):
        Report.model_validate(content)


def test_a_point_whose_spread_is_not_known_is_taken() -> None:
    """It is a reading like any other."""
    content = make_report()
    content["points"][0]["spread"] = None

    assert Report.model_validate(content).points[0].spread is None
