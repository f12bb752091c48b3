from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge.report import MAX_REPORTS, Environment
from fleetridge_server.intake.examine import Accepted, EnvelopeError, Rejected, envelope_of, examined, unpacked
from support.reports import make_report, make_skipped_report

NOW = datetime(2026, 11, 20, 3, tzinfo=timezone.utc)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
report_fields = st.sampled_from([*make_report(), "later_field"])


def accepted(item: Any) -> Accepted:
    outcome = examined(item, sent_at=None, received_at=NOW)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def faults(item: Any) -> dict[str, str]:
    outcome = examined(item, sent_at=None, received_at=NOW)
    assert isinstance(outcome, Rejected), outcome
    return {error.field: error.problem for error in outcome.errors}


def test_a_fault_in_a_point_is_named_by_its_place_in_the_report() -> None:
    """The path is the sender's own, without the name of the kind of point."""
    report = make_report()
    del report["points"][1]["kernel"]

    assert set(faults(report)) == {"points[1].kernel"}


def test_of_several_faulty_points_the_first_is_told_with_all_its_faults() -> None:
    """Thousands of them cost no more than one."""
    report = make_report()
    report["points"][0] |= {"ms": "fast", "M": 0}
    del report["points"][1]["kernel"]

    assert set(faults(report)) == {"points[0].ms", "points[0].M"}


def test_a_point_that_contradicts_itself_is_named_as_a_whole() -> None:
    """Neither of two numbers that disagree is the wrong one."""
    report = make_report()
    report["points"][0]["tflops"] = 1.0

    assert "contradicts" in faults(report)["points[0]"]


def test_a_point_of_an_unknown_kind_is_named() -> None:
    """A kind that this server does not know is a fault of that point."""
    report = make_report()
    report["points"][1] = {"kind": "dance"}

    assert list(faults(report)) == ["points[1]"]


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        ("node__name", "n1\u0000", "node.name"),
        ("node__labels", {"rack": "r\u001b[31m"}, "node.labels.rack"),
        ("environment__power_limit_w", float("nan"), "environment.power_limit_w"),
        ("environment__power_limit_w", float("-inf"), "environment.power_limit_w"),
        ("gpu__memory_bytes", 2**64, "gpu.memory_bytes"),
        ("later_field", [[1, {"x": 2**63}]], "later_field[0][1].x"),
        ("measured_to", 1767225600, "measured_to"),
        ("measured_to", "yesterday", "measured_to"),
        ("run__kind", "guess", "run.kind"),
        ("report_id", "12", "report_id"),
        ("schema_version", "9.0", "schema_version"),
        ("gpu", 5, "gpu"),
        ("points", None, "points"),
    ],
)
def test_what_cannot_be_kept_faithfully_is_refused_by_name(path: str, value: Any, field: str) -> None:
    """Each refusal names the field that it is about."""
    assert list(faults(make_report(**{path: value}))) == [field]


def test_nesting_beyond_the_limit_is_refused() -> None:
    """Depth costs memory and recursion in every reader after us."""
    value: Any = 1
    for _ in range(100):
        value = [value]

    [(field, problem)] = faults(make_report(later_field=value)).items()

    assert field.startswith("later_field[0]")
    assert "nested deeper" in problem


def test_the_list_of_faults_is_bounded() -> None:
    """A report that is wrong all over is told in a short answer."""
    outcome = examined(
        make_report(environment={name: [] for name in Environment.model_fields}), sent_at=None, received_at=NOW
    )

    assert isinstance(outcome, Rejected)
    assert 5 < len(outcome.errors) < 50


def test_an_endless_value_is_not_sent_back() -> None:
    """A fault that quotes what was sent quotes its beginning."""
    report = make_report()
    report["points"][0]["kind"] = "x" * 1_000_000

    [problem] = faults(report).values()

    assert len(problem) < 500


def test_a_report_of_endless_values_is_rejected() -> None:
    """Also where they stand in a field that nobody knows."""
    assert "send fewer" in faults(make_report(x=[0] * 200_000))["x"]


def test_a_field_with_an_endless_name_is_named_in_short() -> None:
    """A name of any length comes from outside and goes back cut."""
    [field] = faults(make_report(**{"x" * 100_000: float("nan")}))

    assert len(field) < 300


@pytest.mark.parametrize(("sent", "echoed"), [("abc", "abc"), (7, None), (None, None), ("x" * 1000, None)])
def test_a_rejected_item_is_called_what_it_called_itself(sent: Any, echoed: str | None) -> None:
    """Text comes back as it was sent, anything else as null."""
    outcome = examined({"report_id": sent}, sent_at=None, received_at=NOW)

    assert isinstance(outcome, Rejected)
    assert outcome.sent_id == echoed


@pytest.mark.parametrize("item", [None, True, 5, 2.5, "report", [], [{}], {}])
def test_anything_that_is_no_report_is_rejected(item: Any) -> None:
    """JSON of any kind gets an answer."""
    assert faults(item)


def test_driver_words_for_no_reading_become_null() -> None:
    """A reading that the driver does not give costs no report."""
    report = accepted(make_report(environment__power_limit_w="[N/A]", gpu__index=None)).report

    assert report.environment.power_limit_w is None


def test_a_gpu_without_uuid_and_place_is_rejected_with_a_remedy() -> None:
    """It could not be told from others."""
    problems = faults(make_report(gpu__uuid=None, gpu__pci_bus_id=None, gpu__index=None))

    assert "PCI bus id" in problems["gpu.uuid"]


def test_two_gpus_with_a_uuid_of_zeros_are_two() -> None:
    """Node and bus id stand in for an identity that is none."""
    zeros = "00000000-0000-0000-0000-000000000000"
    one, other = (accepted(make_report(gpu__uuid=zeros, gpu__pci_bus_id=f"0000:{bus}:00.0")) for bus in ("05", "15"))

    assert one.gpu_id != other.gpu_id


def test_mig_slices_whose_long_uuids_begin_alike_are_two() -> None:
    """An identity is kept whole, however long."""
    start = "MIG-" + "a" * 92
    one, other = (accepted(make_report(gpu__uuid=start + end)) for end in ("1", "2"))

    assert (one.gpu_id, other.gpu_id) == (start + "1", start + "2")


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("Tesla V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("V100-SXM2-16GB", "V100-SXM2-16GB"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop GPU"),
        ("", "sm_90 141 GiB"),
        (None, "sm_90 141 GiB"),
        ("[N/A]", "sm_90 141 GiB"),
    ],
)
def test_the_device_goes_by_its_canonical_name(raw: str | None, canonical: str) -> None:
    """Names that differ in brand words are one device; no name is architecture and memory."""
    assert accepted(make_report(gpu__device=raw)).device_name == canonical


def test_a_report_about_the_node_has_no_gpu() -> None:
    """A node that cannot measure says so without a gpu."""
    item = accepted(make_skipped_report("nvml_unknown_error", outcome="failed", gpu=None))

    assert (item.gpu_id, item.device_name) == (None, None)


def test_the_document_is_the_item_as_it_was_sent() -> None:
    """Order of fields, unknown fields, zones and numbers stay; absent words too."""
    sent = {**make_report(measured_to="2026-11-20T11:00:20+09:00"), "later": {"b": 1.5, "a": [None, "é"], "c": 2**62}}
    sent["environment"]["power_limit_w"] = "[N/A]"

    kept = unpacked(accepted(sent).body)

    assert json.loads(kept) == sent
    assert list(json.loads(kept)) == list(sent)


def test_the_hash_is_of_the_content_and_not_of_its_spelling() -> None:
    """A retry through another library is the same report."""
    report = make_report()
    respelled = dict(reversed(report.items())) | {"measured_to": "2026-11-20T11:00:20+09:00", "detail": None}

    assert accepted(respelled).sha256 == accepted(report).sha256
    assert accepted({**report, "later": 1}).sha256 != accepted(report).sha256


@pytest.mark.parametrize(
    ("reports", "named"),
    [
        ([], "at least 1"),
        ({}, "not a list"),
        ("x", "not a list"),
        (None, "not a list"),
        ([1] * (MAX_REPORTS + 1), "send"),
    ],
)
def test_a_list_that_is_none_is_refused_as_a_whole(reports: Any, named: str) -> None:
    """Empty, too long, or not a list at all."""
    with pytest.raises(EnvelopeError, match=named):
        envelope_of({"reports": reports})


@pytest.mark.parametrize(
    "sent_at",
    [
        5,
        "5",
        "20261120",
        "1767225600.5",
        "soon",
        "2026-01-01T00:00:00\u0000",
        float("nan"),
        [],
        "0001-01-01T00:00:00+10:00",
    ],
)
def test_a_bad_time_of_sending_is_refused_as_a_whole(sent_at: Any) -> None:
    """Without a right `sent_at` no clock can be put right."""
    with pytest.raises(EnvelopeError) as refusal:
        envelope_of({"sent_at": sent_at, "reports": [1]})

    assert refusal.value.error.field == "sent_at"


@pytest.mark.parametrize("sent_at", ["2026-01-01T09:00:00+09:00", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z"])
def test_a_time_of_sending_may_have_any_zone_or_none(sent_at: str) -> None:
    """A time without a zone is UTC."""
    assert envelope_of({"sent_at": sent_at, "reports": [1]}).sent_at == datetime(2026, 1, 1, tzinfo=timezone.utc)


@given(json_values)
def test_any_json_gets_an_answer(item: Any) -> None:
    """No value of any kind makes the intake fail."""
    assert isinstance(examined(item, sent_at=None, received_at=NOW), Rejected)


@given(report_fields, json_values)
def test_a_report_with_any_one_field_replaced_gets_an_answer(field: str, value: Any) -> None:
    """Either it is taken, and kept whole, or refused with a reason."""
    item = make_report() | {field: value}

    outcome = examined(item, sent_at=None, received_at=NOW)

    if isinstance(outcome, Accepted):
        assert json.loads(unpacked(outcome.body)) == item
    else:
        assert outcome.errors
