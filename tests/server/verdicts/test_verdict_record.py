"""Verdicts as they are kept, and as they are shown beside what the gpus are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import Factors, JudgedReport, NodeName
from fleetridge_server.engine.explanation import explanations
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.nodes import NodeRoster
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.evaluation.summary import evaluation_body
from fleetridge_server.verdicts.evaluation_shapes import References, references_of
from fleetridge_server.verdicts.record import Recorder, VerdictRecord, shown_verdict
from fleetridge_server.verdicts.sentence import roof_name
from fleetridge_server.verdicts.verdict_shapes import GpuVerdict, JudgedRoof
from support.drifts import gpu_drifts
from support.judged import AS_OF, BETA, DAY, H2D, MONDAY, PI, at_node, fleet, reading, report, series, with_factors

SOUND = fleet([800.0] * 8, runs=3)
SLOW = series("slow", [700.0] * 3)

# Two drivers, and one gpu that is slow on the new one.
HALF_UPGRADED = [
    *with_factors(fleet([800.0] * 8, runs=3), Factors(driver="570")),
    *(
        replace(own, gpu_id=f"new-{own.gpu_id}", report_id=f"new-{own.report_id}")
        for own in with_factors(fleet([760.0] * 7 + [680.0], runs=3), Factors(driver="580"))
    ),
]


def recorded(known: Fleet, marks: dict[Mark, int] | None = None) -> tuple[Evaluation, Recorder, References]:
    """An evaluation of a fleet, what keeps its verdicts, and what they are held against."""
    evaluation = evaluate(known, AS_OF)
    references = references_of(evaluation_body(evaluation).cohorts)
    said = explanations(evaluation, known.drifts)
    return evaluation, Recorder(evaluation, said, known.drifts, marks or {}, references), references


def record_of(gpu_id: str, known: Fleet) -> VerdictRecord:
    """What is kept of one gpu of a fleet."""
    return recorded(known)[1].record(gpu_id)


def verdict_on(gpu_id: str, known: Fleet, marks: dict[Mark, int] | None = None) -> GpuVerdict:
    """Verdict on one gpu of a fleet, kept and read back."""
    _, recorder, references = recorded(known, marks)
    return shown_verdict(gpu_id, recorder.record(gpu_id).body, references)


def only_roof(verdict: GpuVerdict) -> JudgedRoof:
    """The one judged roof."""
    [roof] = verdict.roofs
    return roof


def test_every_number_of_a_verdict_can_be_recomputed_from_it() -> None:
    """Loss, z, limit and p follow from value, median, scale and gate."""
    own = only_roof(verdict_on("slow", Fleet([*SOUND, *SLOW])))
    band = own.band

    assert own.value == sorted(run.value for run in own.runs)[1]
    assert own.loss == pytest.approx(1 - own.value / band.median)
    assert own.z == pytest.approx((own.value - band.median) / band.scale)
    assert band.scale == pytest.approx(band.floor * band.median)
    assert band.limit == pytest.approx(min(max(band.gate, 3.5 * band.scale / band.median), 0.10))
    assert band.lowest == pytest.approx(band.median * (1 - band.limit))
    assert own.z is not None
    assert own.p == pytest.approx(math.erfc(abs(own.z) / math.sqrt(2)))
    assert (band.n, band.pooled_n, band.scale_source, band.degrees) == (9, 9, "floor", None)


LOSSES = st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.04, 0.09, 0.3, 1e-9]), min_size=1, max_size=9)


def marked_fleet(losses: Sequence[float], days: int, mark: Mark | None) -> Fleet:
    """Gpus that lost some part midway, with a new driver, measured every day; with links and a mark."""
    reports = [
        replace(
            own, roofs={**own.roofs, H2D: reading(50.0 * (1 - loss))}, factors=Factors(driver=str(day >= days // 2))
        )
        for place, loss in enumerate(losses)
        for day, own in enumerate(
            series(f"gpu-{place}", [800.0 * (1 - loss * (day >= days // 2)) for day in range(days)])
        )
    ]
    drifts = {gpu_id: gpu_drifts(own, {}) for gpu_id, own in by_gpu(reports, AS_OF).items()}
    return Fleet(reports, drifts=drifts, marks=[] if mark is None else [mark])


@given(losses=LOSSES, days=st.integers(1, 12), is_marked=st.booleans())
def test_what_is_shown_is_what_was_judged(losses: list[float], days: int, *, is_marked: bool) -> None:
    """Kept without the peers' numbers and read back beside them: every number as the engine has it."""
    mark = Mark("accepted", "known", MONDAY, gpu_id="gpu-0")
    evaluation, recorder, references = recorded(marked_fleet(losses, days, mark if is_marked else None), {mark: 3})

    for gpu_id, state in evaluation.states.items():
        record = recorder.record(gpu_id)
        verdict = shown_verdict(gpu_id, record.body, references)
        judged = {roof_name(own.cohort.roof): own for own in evaluation.verdicts[gpu_id]}

        assert GpuVerdict.model_validate_json(verdict.model_dump_json()) == verdict
        assert (verdict.state, verdict.last_state) == (state.state, state.last_state)
        assert (verdict.reason, verdict.text, verdict.worst_loss) == (record.reason, record.text, record.loss)
        assert len(verdict.roofs) + len(verdict.links) == len(judged)
        for own in (*verdict.roofs, *verdict.links):
            engine = judged[own.roof]
            limits = engine.limits
            assert (own.value, own.loss) == (engine.member.value, engine.loss)
            assert (own.z, own.p) == ((engine.z, engine.p) if limits.has_verdict else (None, None))
            assert (own.band.median, own.band.n) == (limits.median, limits.n)
            assert own.standing == engine.finding.level.name.lower()
            assert [run.value for run in own.runs] == [run.reading.value for run in engine.member.runs[: len(own.runs)]]
            assert own.q in (None, engine.q)
            assert (own.q is None) == (not any(run.beyond for run in own.runs))


@given(
    own=st.lists(st.floats(795, 805), min_size=1, max_size=5),
    peers=st.tuples(*[st.lists(st.floats(790, 810), min_size=5, max_size=12)] * 2),
)
def test_of_a_sound_gpu_nothing_is_written_when_its_peers_change(
    own: list[float], peers: tuple[list[float], list[float]]
) -> None:
    """Their number, median and scale stand in the evaluation; what the gpu did is the same."""
    gpu = series("own", own)
    before, after = (Fleet([*fleet(values), *gpu]) for values in peers)
    shown = [verdict_on("own", known) for known in (before, after)]
    assume(all(found.state == "ok" and not any(run.beyond for run in only_roof(found).runs) for found in shown))

    assert record_of("own", before).body == record_of("own", after).body
    assert [only_roof(found).band.n for found in shown] == [len(values) + 1 for values in peers]


def test_what_is_kept_of_a_sound_gpu_has_no_number_of_its_peers() -> None:
    """Nor their count; the loss stands beside the body, for the order alone."""
    record = record_of("gpu-00", Fleet(fleet([801.0, 804.0, 807.0, 811.0, 813.0])))

    assert b"801.0" in record.body
    assert not any(number in record.body for number in (b"807", b"0.0074", b'"n"', b"median"))
    assert record.loss == pytest.approx(1 - 801 / 807)


def test_gpus_of_a_group_share_what_they_are_held_against() -> None:
    """It is kept once; another group has its own."""
    *_, references = recorded(Fleet(HALF_UPGRADED))

    assert sorted((own.band.median, own.group) for own in references.values()) == [(760.0, 1), (800.0, 0)]
    assert {own.cohort for own in references.values()} == {0}
    assert [only_roof(verdict_on(f"{age}gpu-03", Fleet(HALF_UPGRADED))).band for age in ("", "new-")] == [
        own.band for own in sorted(references.values(), key=lambda own: own.group)
    ]


def test_an_outlier_has_its_reasons_with_the_next_step() -> None:
    """And its first reason by itself, for lists."""
    capped = with_factors(SLOW, Factors(power_limit_w=500.0))
    verdict = verdict_on("slow", Fleet([*with_factors(SOUND, Factors(power_limit_w=700.0)), *capped]))

    assert (verdict.state, verdict.reason) == ("outlier", "power_limit_lower")
    first = verdict.reasons[0]
    assert first.cause
    assert "restore the default limit" in first.next_step
    assert verdict.next_step == first.next_step
    assert first.explains is None
    assert first.text == "power limit 500 W, peers 700 W, explains an unknown part of 12.5 %"
    assert [(fact.reading, fact.own, fact.peers) for fact in first.facts] == [("power_limit_w", "500 W", "700 W")]


def test_the_sentence_names_the_roof_the_loss_and_the_limit() -> None:
    """So that it can stand in an alert by itself."""
    verdict = verdict_on("slow", Fleet([*SOUND, *SLOW]))

    assert verdict.text == (
        "pi bfloat16 burst 12.5 % below the median of 9 gpus, beyond the limit of 3.0 % in each of its newest 3 runs, "
        "since 2026-01-03 12:00 UTC or before"
    )
    assert verdict.worst_loss == pytest.approx(0.125)


def test_a_reason_that_two_roofs_share_is_told_once() -> None:
    """With both roofs, the worse one first."""
    both = [report(f"gpu-{n}", 800.0, beta=4000.0, days_ago=day) for n in range(8) for day in range(3)]
    slow = [report("slow", 700.0, beta=3600.0, days_ago=day) for day in range(3)]

    told = {
        reason.code: [roof.kind for roof in reason.roofs]
        for reason in verdict_on("slow", Fleet([*both, *slow])).reasons
    }

    assert told["not_explained"] == ["compute", "memory"]


def test_runs_are_listed_as_far_as_they_were_looked_at() -> None:
    """Those behind the value; all, where one of them lies beyond the limit."""
    known = Fleet([*SOUND, *series("once", [700.0, *[800.0] * 4]), *series("sound", [800.0] * 5)])

    once, sound = only_roof(verdict_on("once", known)), only_roof(verdict_on("sound", known))

    assert [run.beyond for run in once.runs] == [False] * 4 + [True]
    assert [run.value for run in sound.runs] == [800.0] * 3


def test_a_sound_gpu_says_so_and_has_no_reason() -> None:
    """With its arithmetic all the same."""
    verdict = verdict_on("gpu-00", Fleet(SOUND))

    assert (verdict.state, verdict.reason, verdict.reasons, verdict.flags) == ("ok", None, (), ())
    assert verdict.text == "within the limits of its peers"
    assert verdict.next_step is None
    assert only_roof(verdict).standing == "clear"


def test_a_retest_is_flagged_and_still_ok() -> None:
    """The newest run alone lies beyond."""
    verdict = verdict_on("odd", Fleet([*SOUND, *series("odd", [800.0, 800.0, 700.0])]))

    assert (verdict.state, verdict.flags) == ("ok", ("retest",))
    assert "measure it again" in verdict.text
    assert verdict.next_step == "measure it again"


def test_a_retest_says_how_many_runs_lie_beyond() -> None:
    """One alone, or one more that was long ago."""
    alone = verdict_on("odd", Fleet([*SOUND, *series("odd", [800.0, 800.0, 700.0])]))
    again = verdict_on("odd", Fleet([*SOUND, *series("odd", [700.0, 800.0, 800.0, 800.0, 700.0])]))

    assert alone.text.startswith(
        "pi bfloat16 burst: the newest alone of its newest 3 runs lies beyond the limit of 3.0 %"
    )
    assert again.text.startswith("pi bfloat16 burst: the newest and 1 more of its newest 5 runs lie beyond the limit")


def test_a_gpu_that_is_better_by_now_is_not_called_beyond_the_limit() -> None:
    """Its streak still accuses it."""
    verdict = verdict_on("odd", Fleet([*SOUND, *series("odd", [700.0, 700.0, 700.0, 700.0, 780.0, 780.0])]))

    assert verdict.state == "outlier"
    assert verdict.text == (
        "pi bfloat16 burst 2.5 % below the median of 9 gpus, which is within the limit of 3.0 %, but beyond it in 4 of "
        "its newest 6 runs, though not in the newest 2, slow before those since 2025-12-31 12:00 UTC or before"
    )


def test_an_excused_gpu_names_the_mark_and_keeps_its_numbers() -> None:
    """The verdict stays as it is; the mark says why nobody is to act."""
    mark = Mark("accepted", "capped on purpose", MONDAY - DAY, gpu_id="slow")
    verdict = verdict_on("slow", Fleet([*SOUND, *SLOW], marks=[mark]), {mark: 7})

    assert (verdict.state, verdict.last_state) == ("known", "outlier")
    assert verdict.text.startswith("accepted: capped on purpose; without that outlier: pi bfloat16 burst 12.5 % below")
    assert "excused" in verdict.flags
    assert [(excuse.mark_id, excuse.kind) for excuse in verdict.excuses] == [(7, "accepted")]
    own = only_roof(verdict)
    assert (own.standing, own.excused) == ("outlier", True)


def test_a_mark_that_is_not_stored_has_no_id() -> None:
    """For evaluations that are made on the fly."""
    mark = Mark("false_positive", "known", MONDAY - DAY, gpu_id="slow")

    [excuse] = verdict_on("slow", Fleet([*SOUND, *SLOW], marks=[mark])).excuses

    assert excuse.mark_id is None


def test_a_gpu_that_two_nodes_claim_is_flagged() -> None:
    """Whatever else is said of it."""
    claim = [replace(own, report_id=f"claim-{own.report_id}") for own in at_node(series("gpu-00", [800.0]), "n2")]
    verdict = verdict_on("gpu-00", Fleet([*at_node(SOUND, "n1"), *claim]))

    assert verdict.flags == ("identity_conflict",)


def test_a_missing_gpu_keeps_what_was_said_of_it() -> None:
    """And why it was said."""
    node = NodeName("east", "n1")
    roster = NodeRoster(node, AS_OF, frozenset({"gpu-00"}), complete=True)
    verdict = verdict_on("slow", Fleet([*SOUND, *at_node(SLOW, "n1")], rosters=[roster]))

    assert (verdict.state, verdict.last_state) == ("missing", "outlier")
    assert "not_explained" in {reason.code for reason in verdict.reasons}
    assert "when last measured outlier: pi bfloat16 burst 12.5 % below" in verdict.text
    assert verdict.next_step == "see whether the node runs and its driver lists its gpus"


def test_a_gpu_that_only_the_inventory_knows_has_a_verdict() -> None:
    """Without any number."""
    roster = NodeRoster(NodeName("east", "n1"), AS_OF, frozenset(), complete=True)
    gone = [replace(own, outcome="failed", roofs={}) for own in at_node(series("gone", [1.0]), "n1")]
    verdict = verdict_on("gone", Fleet([*SOUND, *gone], rosters=[roster]))

    assert (verdict.state, verdict.last_state, verdict.roofs, verdict.worst_loss) == ("missing", None, (), None)


def test_too_few_peers_are_said_with_their_number() -> None:
    """No z, no p, no accusation."""
    verdict = verdict_on("gpu-00", Fleet(fleet([500.0, 800.0], runs=3)))

    own = only_roof(verdict)
    assert (verdict.state, own.z, own.p, own.q) == ("insufficient_peers", None, None, None)
    assert verdict.worst_loss == pytest.approx(own.loss)


def test_of_two_gpus_the_slower_one_says_how_much_and_no_more() -> None:
    """The faster one, and one of two that are alike, say nothing of it."""
    few = "too few peers to compare: 2 of at least 4"
    slower, faster = (verdict_on(gpu, Fleet(fleet([400.0, 800.0], runs=3))) for gpu in ("gpu-00", "gpu-01"))

    assert slower.text == (
        "of these two gpus this one is 50.0 % slower than the other in pi bfloat16 burst; "
        f"{few}, so that nobody can say which of them is as it should be"
    )
    assert (slower.state, slower.flags, only_roof(slower).behind) == ("insufficient_peers", ("differs",), 0.5)
    assert (faster.text, faster.flags, only_roof(faster).behind) == (few, (), None)


def test_of_three_gpus_the_slower_one_is_held_against_the_fastest() -> None:
    """In the words for it."""
    verdict = verdict_on("gpu-00", Fleet(fleet([600.0, 800.0, 800.0], runs=3)))

    assert verdict.text.startswith("of these 3 gpus this one is 25.0 % slower than the fastest in pi bfloat16 burst; ")


def test_a_gpu_in_repair_says_until_when() -> None:
    """With the ticket, and what it would be called without that."""
    mark = Mark("known", "ticket 7", MONDAY - DAY, until=AS_OF + DAY, gpu_id="slow")
    verdict = verdict_on("slow", Fleet([*SOUND, *SLOW], marks=[mark]))

    assert verdict.text.startswith("known, being repaired until 2026-01-06 13:00 UTC: ticket 7; without that outlier: ")
    assert verdict.slow_since is not None


def test_levels_that_set_groups_apart_are_named() -> None:
    """A half-upgraded fleet is two groups, and the sentence says against which a gpu was held."""
    verdict = verdict_on("new-gpu-07", Fleet(HALF_UPGRADED))

    assert [(level.factor, level.name) for level in only_roof(verdict).band.levels] == [("driver", "580")]
    assert "below the median of 8 gpus with driver 580" in verdict.text


def test_a_slow_link_is_shown_and_never_makes_a_gpu_slow() -> None:
    """It has a list of its own."""
    linked = [replace(own, roofs={**own.roofs, H2D: reading(50.0)}) for own in SOUND]
    slow = [replace(own, roofs={PI: reading(800.0), H2D: reading(20.0)}) for own in series("slow", [1.0] * 3)]
    verdict = verdict_on("slow", Fleet([*linked, *slow]))

    assert (verdict.state, [own.roof.level for own in verdict.links]) == ("ok", ["pcie"])
    assert (verdict.links[0].standing, verdict.links[0].excused) == ("outlier", False)
    assert [roof.level for roof in verdict.reasons[0].roofs] == ["pcie"]


def test_a_drift_is_shown_with_its_onset_and_whether_it_counts() -> None:
    """Beside its own baseline, not its peers."""
    falling: list[JudgedReport] = series("fallen", [820.0] * 12 + [794.0] * 8)
    peers = [own for place in range(8) for own in series(f"gpu-{place:02d}", [800.0] * 20)]
    histories = by_gpu([*peers, *falling], AS_OF)
    drifts = {gpu_id: gpu_drifts(reports, {}) for gpu_id, reports in histories.items()}

    verdict = verdict_on("fallen", Fleet([*peers, *falling], drifts=drifts))

    [drift] = verdict.drifts
    assert (drift.status, drift.counts, drift.baseline, drift.onset) == ("drifted", True, 820.0, MONDAY - 7 * DAY)
    assert (verdict.state, verdict.reason) == ("drifted", "drifted")
    assert verdict.text == "pi bfloat16 burst 3.2 % below its own baseline since 2025-12-29 12:00 UTC"


def test_roofs_are_in_the_same_order_whatever_came_first() -> None:
    """Compute before memory."""
    one = [replace(own, roofs={BETA: reading(4000.0), PI: reading(800.0)}) for own in fleet([1.0] * 4)]

    assert [own.roof.kind for own in verdict_on("gpu-00", Fleet(one)).roofs] == ["compute", "memory"]
