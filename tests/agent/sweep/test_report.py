from __future__ import annotations

import pytest

from fleetridge.report import Evidence, Node, Report, Run
from fleetridge.uuid7 import uuid7
from fleetridge_agent.device.gemm_variants import Fill
from fleetridge_agent.measurement_protocol import PROTOCOL_VERSION
from fleetridge_agent.sweep.device_sweep import run_sweep
from fleetridge_agent.sweep.options import SweepOptions
from fleetridge_agent.sweep.report import build_refusal, build_report
from fleetridge_agent.sweep.results import Failure, Note, summary
from support.scripted_device import ScriptedDevice, described

_RUN = Run(run_id=uuid7(), kind="manual")
_NODE = Node(cluster="east", name="n01")
_FEW = SweepOptions(square=(512,), m_sweep=(1,))


def _report(device: ScriptedDevice, options: SweepOptions = _FEW) -> Report:
    result = run_sweep(device, options)
    return build_report(result, device, run=_RUN, node=_NODE, arguments=("sweep",))


def test_a_sweep_becomes_a_measured_report() -> None:
    """With who, where, how and what; it survives the wire whole."""
    report = _report(ScriptedDevice())

    assert (report.outcome, report.reason) == ("measured", None)
    assert (report.agent.protocol_version, report.agent.method) == (PROTOCOL_VERSION, "standard")
    assert (report.node, report.run, report.agent.arguments) == (_NODE, _RUN, ("sweep",))
    assert report.gpu == described().gpu
    assert report.sweep is not None
    assert (report.sweep.fill, report.sweep.seed) == ("normal", 0)
    assert Report.model_validate_json(report.canonical_json()) == report


def test_every_report_has_an_id_of_its_own() -> None:
    """Two sweeps are never taken for one that was sent twice."""
    assert _report(ScriptedDevice()).report_id != _report(ScriptedDevice()).report_id


def test_what_was_left_out_is_said_in_a_measured_report() -> None:
    """Each reason once, with what it hit."""
    device = ScriptedDevice(unsupported={"int8": "sm_70 has no int8 units; they came with sm_75"})

    report = _report(device, SweepOptions(profile="quick", dtypes=("float16", "int8")))

    assert report.outcome == "measured"
    assert report.detail == "reference int8: sm_70 has no int8 units; they came with sm_75"


def test_a_sweep_that_broke_is_failed_and_keeps_what_it_measured() -> None:
    """So that the judged roofs before the fault are not lost."""
    report = _report(ScriptedDevice(fault_at=4))

    assert (report.outcome, report.reason) == ("failed", "ecc_uncorrectable")
    assert report.detail == "CUDA error: uncorrectable ECC error encountered"
    assert {roof.kernel for roof in report.roofs} >= {"gemm_reference", "read"}


def test_a_device_that_has_none_of_the_dtypes_is_unsupported_not_slow() -> None:
    """No roof of zero, but no roof and the reason."""
    device = ScriptedDevice(unsupported={"float8_e4m3fn": "sm_80 has no float8 units"})

    report = _report(device, SweepOptions(mode="gemm", dtypes=("float8_e4m3fn",)))

    assert (report.outcome, report.reason) == ("unsupported", "dtype_unsupported")
    assert report.detail is not None
    assert "no float8 units" in report.detail
    assert report.roofs == ()


def test_a_device_without_memory_for_anything_failed() -> None:
    """With the reason that it had no memory."""
    report = _report(ScriptedDevice(free=1024), SweepOptions(mode="gemm"))

    assert (report.outcome, report.reason) == ("failed", "out_of_memory")


def test_changed_repetitions_or_fill_are_a_method_of_their_own() -> None:
    """So that no fleet median mixes them with the standard."""
    report = _report(ScriptedDevice(), SweepOptions(profile="quick", fill=Fill("zeros")))

    assert report.agent.method == "custom"


def test_a_refusal_says_why_and_has_no_rates() -> None:
    """A node whose gpus cannot be used is reported with its gpus seen and none measured."""
    failure = Failure("cuda_not_ready", "CUDA answers 802:\nthe system is not ready\x1b[0m")

    report = build_refusal("failed", failure, run=_RUN, node=_NODE, method="standard")

    assert (report.outcome, report.reason, report.gpu) == ("failed", "cuda_not_ready", None)
    assert report.detail == "CUDA answers 802: the system is not ready\\x1b[0m"
    assert report.points == report.roofs == ()
    assert Report.model_validate_json(report.canonical_json()) == report


def test_a_refusal_can_speak_of_one_gpu_and_who_uses_it() -> None:
    """Such as one that was busy."""
    evidence = Evidence(contended=True, other_processes=2, signals_seen=("processes",))

    report = build_refusal(
        "skipped",
        Failure("busy", "2 processes hold 61 GiB"),
        run=_RUN,
        node=_NODE,
        method="standard",
        gpu=described().gpu,
        evidence=evidence,
    )

    assert (report.gpu, report.evidence) == (described().gpu, evidence)


def test_a_long_text_of_a_driver_is_cut() -> None:
    """A stack of a thousand lines still makes a report."""
    report = build_refusal("failed", Failure("crashed", "stack\n" * 100_000), run=_RUN, node=_NODE, method="standard")

    assert report.detail is not None
    assert len(report.detail) <= 2000


@pytest.mark.parametrize(
    ("notes", "text"),
    [
        ([], None),
        ([Note("a", "unsupported", "no units"), Note("b", "unsupported", "no units")], "a, b: no units"),
        ([Note("a", "unsupported", "no units"), Note("c", "out_of_memory", "full")], "a: no units; c: full"),
    ],
)
def test_notes_are_summed_up_by_reason(notes: list[Note], text: str | None) -> None:
    """Twelve shapes left out for one reason make one sentence."""
    assert summary(notes) == text


@pytest.mark.parametrize(
    ("options", "method"),
    [(SweepOptions(profile="quick"), "standard_together"), (SweepOptions(profile="quick", reps=5), "custom_together")],
)
def test_a_sweep_beside_others_says_so_and_is_compared_only_with_its_like(options: SweepOptions, method: str) -> None:
    """All gpus of a node at once share its power and its air."""
    device = ScriptedDevice()
    report = build_report(run_sweep(device, options), device, run=_RUN, node=_NODE, gpus_at_once=8)

    assert report.agent.method == method
    assert report.sweep is not None
    assert report.sweep.gpus_at_once == 8
