"""Every sentence on a gpu, a place or a fleet is true of the numbers beside it, whatever the fleet."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import GpuHealth, JudgedReport, NodeName, RoofReading
from fleetridge_server.engine.explanation import Explanation, explanations, ranked_reasons
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.nodes import NodeRoster
from fleetridge_server.engine.notices import Notice
from fleetridge_server.engine.remedies import REMEDIES, SHARED_STEPS
from fleetridge_server.engine.rule import EXPLAINED_PART
from fleetridge_server.engine.upgrades import floors
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.simulate.faults import FAULTS, Fault, FaultName
from fleetridge_server.verdicts.alert_causes import alert_causes
from fleetridge_server.verdicts.evaluation_shapes import SlowPlace, references_of
from fleetridge_server.verdicts.record import Recorder, shown_verdict
from fleetridge_server.verdicts.sentence import subject_of
from support.drifts import gpu_drifts
from support.judged import AS_OF, DAY, H2D, MONDAY, PI, at_node, reading, series
from support.simulated_fleet import FleetPlan, simulated_reports
from support.true_sentences import OF_A_REASON, OF_A_VERDICT, OF_AN_ALERT, OF_HEALTH, PERCENT, Words, is_number, read


@cache
def bench() -> Any:
    """`bench/reasons.py`, whose kinds of faults are tried here too."""
    path = Path(__file__).parents[3] / "bench" / "reasons.py"
    spec = importlib.util.spec_from_file_location("bench_reasons", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_reasons"] = module
    spec.loader.exec_module(module)
    return module


def said_truly(fleet: Fleet) -> set[str]:
    """Check all that is said of a fleet; the states and reasons that were met."""
    histories = by_gpu(fleet.reports, AS_OF)
    cohort_floors = floors(histories, AS_OF)
    drifts = {gpu_id: gpu_drifts(own, cohort_floors) for gpu_id, own in histories.items()}
    evaluation = evaluate(replace(fleet, drifts=drifts), AS_OF)
    explained = explanations(evaluation, drifts)
    body = evaluation_body(evaluation, None, explained)
    references = references_of(body.cohorts)
    recorder = Recorder(evaluation, explained, drifts, dict.fromkeys(fleet.marks, 1), references)
    met: set[str] = set()
    words = {
        gpu_id: Words(evaluation, shown_verdict(gpu_id, recorder.record(gpu_id).body, references))
        for gpu_id in evaluation.states
    }
    for gpu_id, own in words.items():
        known = [report.health for report in histories.get(gpu_id, ()) if report.health != GpuHealth()]
        own.health = known[0] if known else GpuHealth()
        for fault in own.verdict.health:
            read(fault.text, OF_HEALTH, own)
            met.add(fault.code)
        met |= _verdict_is_true(own, explained.get(gpu_id, ()))
    for cause in alert_causes(evaluation, explained):
        if cause.gpu is not None:
            ranked = ranked_reasons(explained.get(cause.gpu, ()))
            words[cause.gpu].reason = ranked[0].reason if ranked else None
            words[cause.gpu].judged = ranked[0].verdicts[0] if ranked else None
            read(cause.summary, OF_AN_ALERT, words[cause.gpu])
        met.add(f"alert {cause.kind}")
    for notice in evaluation.notices:
        _notice_is_true(notice, evaluation)
        met.add(notice.kind)
    for place in (*body.slow_nodes, *body.slow_racks):
        _place_is_true(place)
    return met


def _verdict_is_true(words: Words, explained: Sequence[Explanation]) -> set[str]:
    verdict = words.verdict
    read(verdict.text, OF_A_VERDICT, words)
    for ranked, shown in zip(ranked_reasons(explained), verdict.reasons, strict=True):
        words.reason, words.judged = ranked.reason, ranked.verdicts[0]
        assert shown.text == ranked.reason.said
        read(shown.text, OF_A_REASON, words)
        assert shown.explains is None or 0 <= shown.explains <= 1
    _steps_are_one(words)
    return {verdict.state, *verdict.flags, *(reason.code for reason in verdict.reasons)}


def _steps_are_one(words: Words) -> None:
    """What is printed is one step, that of what stands first; nothing that explains little stands first as a cause."""
    verdict = words.verdict
    if not verdict.reasons:
        return
    first = verdict.reasons[0]
    assert verdict.next_step == first.next_step or verdict.state == "missing"
    assert not first.cause or first.explains is None or first.explains >= EXPLAINED_PART
    if first.code == "waits_for_work":
        assert "cap" not in first.next_step
    causes = [reason for reason in verdict.reasons if reason.cause]
    known = [reason.explains for reason in causes if reason.explains is not None]
    assert all(one >= other - 0.25 for one, other in pairwise(known))
    subject = subject_of(verdict.last_state or verdict.state, verdict.roofs, verdict.drifts)
    assert subject is not None or verdict.state in ("ok", "insufficient_peers") or verdict.links


def _place_is_true(place: SlowPlace) -> None:
    assert place.gpus == len(place.gpu_ids)
    assert place.next_step in {
        step.format(place=kind) for step in SHARED_STEPS.values() for kind in ("node", "rack")
    } | {remedy.next_step for remedy in REMEDIES.values()}
    if place.cause_text is not None:
        found = re.match(r"(\d+) of (\d+) gpus", place.cause_text)
        assert found is not None
        assert int(found[1]) <= int(found[2]) == place.gpus


def _counts(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"(?<![\d.])(\d+) gpus?\b", text)]


def _notice_is_true(notice: Notice, evaluation: Evaluation) -> None:
    counts = _counts(notice.text)
    if notice.effect is not None:
        sizes = re.findall(rf"[+−]?{PERCENT}", notice.text)
        assert any(is_number(number.lstrip("+−"), abs(notice.effect)) for number in sizes), notice.text
    if notice.kind in (
        "node_collapse",
        "fleet_drift",
        "above_published",
        "factor_step",
        "shared_setting",
        "slow_cluster",
        "departed",
    ):
        assert counts[0] == len(notice.gpu_ids), notice.text
    elif notice.kind == "mixed_products" and notice.cohort is not None:
        assert counts[0] == len(notice.gpu_ids)
        assert sum(counts[:2]) <= len(evaluation.cohorts[notice.cohort])
    elif notice.kind == "wide_cohort":
        assert notice.cohort is not None
        assert counts[0] <= len(evaluation.cohorts[notice.cohort])
    else:
        assert notice.kind in ("mixed_ecc", "mixed_products", "below_published", "upgrade"), notice.kind


def _as_if_today(reports: Sequence[JudgedReport]) -> list[JudgedReport]:
    """The same reports, the newest of them at noon of MONDAY."""
    later = MONDAY - max(own.ordered_at for own in reports)
    return [replace(own, ordered_at=own.ordered_at + later) for own in reports]


@pytest.mark.parametrize("name", [kind.name for kind in bench().KINDS])
def test_of_every_kind_of_fault(name: str) -> None:
    (kind,) = (own for own in bench().KINDS if own.name == name)
    for seed in (1, 2):
        rng = random.Random(seed)  # noqa: S311 # a simulation
        positions = bench().faulty_positions(kind, rng)
        met = said_truly(Fleet(_as_if_today(list(bench().kind_reports(kind, positions, rng)))))
        assert kind.is_notice or kind.expected in met


@pytest.mark.parametrize("noise", [0.0, 0.005, 0.03])
def test_of_healthy_fleets(noise: float) -> None:
    rng = random.Random(3)  # noqa: S311 # a simulation
    met = said_truly(Fleet(_as_if_today(list(simulated_reports(FleetPlan(48, noise, reports=10), MONDAY, rng)))))
    assert "ok" in met


@pytest.mark.parametrize("loss", [0.04, 0.17, 0.4])
@pytest.mark.parametrize("signs", sorted({kind.signs for kind in FAULTS.values() if kind.signs is not None}))
def test_of_losses_of_every_size_on_single_gpus_and_whole_nodes(signs: FaultName, loss: float) -> None:
    rng = random.Random(4)  # noqa: S311 # a simulation
    faults = {place: Fault(signs, loss) for place in (3, *range(16, 24))}
    for upgraded in (False, True):
        plan = FleetPlan(64, 0.005, faults, upgraded=upgraded)
        said_truly(Fleet(_as_if_today(list(simulated_reports(plan, MONDAY, rng)))))


def test_of_nodes_that_fall_once_and_for_good() -> None:
    def fallen(days: set[int]) -> Iterator[JudgedReport]:
        for node in range(8):
            for gpu in range(4):
                values = [40.0 if node == 2 and day in days else 100.0 + 0.01 * gpu for day in range(8)]
                yield from at_node(series(f"n{node}-{gpu}", values), f"n{node}")

    assert "node_collapse" in said_truly(Fleet(list(fallen({5}))))
    assert "alert node" in said_truly(Fleet(list(fallen({5, 6, 7}))))


def test_of_a_slow_link() -> None:
    def linked(gpu: str, gbps: float) -> list[JudgedReport]:
        width = 16 if gbps > 50 else 8
        return [
            replace(own, roofs={**own.roofs, H2D: reading(gbps)}, health=replace(own.health, pcie_width=width))
            for own in at_node(series(gpu, [100.0] * 3), f"n{gpu[-1]}")
        ]

    fleet = [own for place in range(9) for own in linked(f"gpu-{place}", 55.0)]
    assert {"ok", "pcie_slower"} <= said_truly(Fleet([*fleet, *linked("odd-9", 27.0)]))


LOSSES = (0.0, 0.0, 0.0, 0.01, 0.02, 0.029, 0.031, 0.05, 0.09, 0.11, 0.3, -0.05)
RUNS = st.lists(st.sampled_from(LOSSES), min_size=1, max_size=11)
HEALTHS = (
    GpuHealth(),
    GpuHealth(pcie_width=16, pcie_width_max=16),
    GpuHealth(pcie_width=8, pcie_width_max=16, ecc_uncorrected=12),
    GpuHealth(remapped_rows_pending=True, remapped_rows_uncorrectable=1, pcie_width=16),
    GpuHealth(remapped_rows_failure=True, ecc_uncorrected=1),
)
CLOCKS = st.sampled_from((None, 1500.0, 1440.0, 1350.0))


@st.composite
def any_fleet(draw: st.DrawFn) -> Fleet:
    """Few or many gpus on nodes of two, each with runs of its own, some of them with readings, gone or marked."""
    reports: list[JudgedReport] = []
    for place in range(draw(st.integers(1, 10))):
        losses = draw(RUNS)
        own = at_node(
            series(f"gpu-{place}", [100.0 * (1 - loss) for loss in losses]), f"n{place // 2}", rack=f"r{place // 4}"
        )
        clock, power_w = draw(CLOCKS), draw(st.sampled_from((None, 700.0, 500.0)))
        health = draw(st.sampled_from(HEALTHS))
        held = draw(st.sampled_from((None, {}, {"sw_thermal_slowdown": 300.0})))
        for report in own:
            read_pi = replace(
                report.roofs[PI], sm_clock_mhz=clock, power_w=power_w, throttle_ms=held, temperature_c=65.0
            )
            link = RoofReading(55.0 * (1 - losses[0]), converged=True)
            reports.append(replace(report, roofs={PI: read_pi, H2D: link}, health=health))
    marks = draw(st.sampled_from([(), (Mark("accepted", "known", MONDAY - DAY, gpu_id="gpu-0"),)]))
    roster = NodeRoster(NodeName("east", "n0"), AS_OF, frozenset({"gpu-1"}), complete=True)
    return Fleet(reports, marks=marks, rosters=draw(st.sampled_from([(), (roster,)])))


@given(fleet=any_fleet())
def test_of_any_fleet(fleet: Fleet) -> None:
    said_truly(fleet)


def test_of_gpus_that_were_not_measured_of_late() -> None:
    old = [replace(own, ordered_at=own.ordered_at - timedelta(days=5)) for own in series("old", [90.0] * 3)]
    fleet = [own for place in range(9) for own in series(f"gpu-{place}", [100.0] * 3)]
    assert {"stale", "ok"} <= said_truly(Fleet([*fleet, *old]))
