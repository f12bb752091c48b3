"""A report held against bands."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from fleetridge.report import Environment, Gpu, Report
from fleetridge_agent.busy.foreign_use import ForeignUse
from fleetridge_agent.check.bands import Band, bands_of
from fleetridge_agent.check.rule import confirmed, confirmed_by_past, verdict_on
from fleetridge_agent.check.verdict import GpuVerdict
from fleetridge_agent.sweep.options import SweepOptions
from support.ridges import cohort, limits, ridge_answer
from support.scripted_device import ScriptedDevice, described
from support.sweeps import swept

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
H200 = described(gpu=Gpu(uuid="GPU-1", index=3, device="NVIDIA H200", sm_count=132))


def report(**changes: Any) -> Report:
    return swept(ScriptedDevice(**{"description": H200, **changes}), SweepOptions(profile="quick"))


def verdict(answer: dict[str, Any], **changes: Any) -> GpuVerdict:
    return verdict_on(report(**changes), bands_of(answer), at=NOW)


def test_a_gpu_within_the_band_is_ok() -> None:
    found = verdict(ridge_answer())

    assert (found.state, found.reason, found.uuid, found.index) == ("ok", "", "GPU-1", 3)
    assert [(roof.roof, roof.state, roof.peers) for roof in found.roofs] == [
        ("pi bfloat16 burst", "ok", 32),
        ("beta burst", "ok", 32),
    ]


def test_a_gpu_below_the_band_in_one_roof_is_degraded() -> None:
    found = verdict(ridge_answer(), pi_tflops=700.0)

    assert found.state == "degraded"
    assert found.worst is not None
    assert (found.worst.roof, found.worst.deviation) == ("pi bfloat16 burst", pytest.approx(-0.125))
    assert [roof.state for roof in found.roofs] == ["degraded", "ok"]


def test_a_loss_of_less_than_three_per_cent_is_nobodys_trouble() -> None:
    assert verdict(ridge_answer(), pi_tflops=800 * 0.971).state == "ok"
    assert verdict(ridge_answer(), pi_tflops=800 * 0.969).state == "degraded"


def test_too_few_peers_are_unknown_and_never_ok() -> None:
    found = verdict(ridge_answer(n=3))

    assert (found.state, found.reason) == ("unknown", "3 of 4 peers")
    assert verdict(ridge_answer(n=4)).state == "ok"


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [({"protocol_version": 2}, "other protocol"), ({"sm_count": 114}, "no peers alike"), ({"fill": "zeros"}, None)],
)
def test_gpus_that_were_measured_otherwise_are_no_peers(conditions: dict[str, Any], reason: str | None) -> None:
    found = verdict(ridge_answer(**conditions))

    assert (found.state, found.reason) == ("unknown", reason or "no peers alike")


def test_a_roof_of_which_the_fleet_knows_nothing_makes_the_gpu_unknown() -> None:
    answer = ridge_answer()
    del answer["cohorts"][1]
    found = verdict(answer)

    assert (found.state, found.reason) == ("unknown", "no band")
    assert [roof.state for roof in found.roofs] == ["ok", "unknown"]


def test_a_slow_roof_accuses_whatever_is_unknown_of_the_other() -> None:
    answer = ridge_answer()
    del answer["cohorts"][1]

    assert verdict(answer, pi_tflops=700.0).state == "degraded"


def test_a_custom_method_has_no_band() -> None:
    custom = swept(ScriptedDevice(description=H200), SweepOptions(profile="quick", reps=3))
    found = verdict_on(custom, bands_of(ridge_answer()), at=NOW)

    assert (found.state, found.reason) == ("unknown", "method custom")


@pytest.mark.parametrize(("force", "reason"), [(False, "preempted"), (True, "contended")])
def test_a_sweep_in_company_says_nothing_and_takes_no_verdicts_place(force: bool, reason: str) -> None:
    device = ScriptedDevice(description=H200, pi_tflops=300.0, foreign=ForeignUse(processes=1, signals=("processes",)))
    found = verdict_on(swept(device, SweepOptions(profile="quick", force=force)), bands_of(ridge_answer()), at=NOW)

    assert (found.state, found.reason, found.passing) == ("unknown", reason, True)


def test_half_a_sweep_is_unknown() -> None:
    half = swept(ScriptedDevice(description=H200), SweepOptions(profile="quick", mode="gemm"))

    assert verdict_on(half, bands_of(ridge_answer()), at=NOW).reason == "half measured"


def test_a_sweep_that_broke_says_by_which_word() -> None:
    found = verdict(ridge_answer(), fault_at=1)

    assert (found.state, found.reason, found.passing) == ("unknown", "ecc_uncorrectable", False)


def half_upgraded(driver: str) -> tuple[GpuVerdict, tuple[Band, ...]]:
    split = cohort(limits(800.0, 776.0, driver="580"), limits(760.0, 737.0, driver="570"))
    bands = bands_of({"cohorts": [split, ridge_answer()["cohorts"][1]]})
    device = replace(H200, environment=Environment(torch="2.11.0", driver=driver, allow_tf32=False))
    return verdict_on(report(description=device, pi_tflops=760.0), bands, at=NOW), bands


def test_a_gpu_is_held_against_those_with_its_own_driver() -> None:
    assert half_upgraded("570")[0].state == "ok"
    assert half_upgraded("580")[0].state == "degraded"


def test_a_gpu_with_a_driver_of_its_own_is_held_against_the_band_that_asks_least() -> None:
    assert half_upgraded("590")[0].state == "ok"


def test_a_band_of_two_factors_goes_before_one_of_a_single_factor() -> None:
    split = cohort(limits(800.0, 776.0, driver="580"), limits(700.0, 680.0, driver="580", power_limit_w="500"))
    capped = replace(H200, environment=Environment(driver="580", power_limit_w=499.9, allow_tf32=False))
    bands = bands_of({"cohorts": [split, ridge_answer()["cohorts"][1]]})

    assert verdict_on(report(description=capped, pi_tflops=700.0), bands, at=NOW).state == "ok"


def test_float32_of_unknown_precision_is_held_against_its_like_only() -> None:
    unsaid = replace(H200, environment=Environment())
    found = verdict_on(
        swept(ScriptedDevice(description=unsaid), SweepOptions(profile="quick", dtypes=("float32",))),
        bands_of(ridge_answer()),
        at=NOW,
    )

    assert [roof.roof for roof in found.roofs] == ["pi float32_or_tf32 burst", "beta burst"]


def test_a_second_sweep_decides_what_the_first_accused() -> None:
    slow, well = verdict(ridge_answer(), pi_tflops=700.0), verdict(ridge_answer())

    assert confirmed(slow, well).state == "ok"
    assert confirmed(slow, slow).state == "degraded"


def test_a_second_sweep_that_says_nothing_leaves_the_accusation_open() -> None:
    slow, broken = verdict(ridge_answer(), pi_tflops=700.0), verdict(ridge_answer(), fault_at=1)
    found = confirmed(slow, broken)

    assert (found.state, found.reason) == ("unknown", "not confirmed: ecc_uncorrectable")


def test_one_sweep_of_a_run_accuses_only_what_was_slow_before() -> None:
    slow, well = verdict(ridge_answer(), pi_tflops=700.0), verdict(ridge_answer())
    once = confirmed_by_past(slow, well)

    assert (once.state, once.reason) == ("unknown", "not confirmed: once")
    assert confirmed_by_past(slow, None).state == "unknown"
    assert confirmed_by_past(slow, once).state == "degraded"
    assert confirmed_by_past(well, slow).state == "ok"
