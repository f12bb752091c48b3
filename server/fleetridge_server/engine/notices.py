"""
Notices: what is said once of a device or a cohort as a whole (steps between levels, upgrades, drift of the fleet, ...).

The part of a drift that peers share is taken out here too. A hot summer or a library that nobody recorded makes a whole
fleet slower, and where machines wander by some per cent from week to week all of them do: a gpu drifted by itself only
where it lost more than its peers did.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleetridge.quantities import percent, signed_percent
from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.collapses import NodeCollapse
from fleetridge_server.engine.departures import Departure, DepartureKind
from fleetridge_server.engine.evidence import Factors, NodeName
from fleetridge_server.engine.groups import UNEXPLAINED, Level, Step, level_name
from fleetridge_server.engine.limits import JudgedCohort, JudgedGroup
from fleetridge_server.engine.plausibility import is_whole_card
from fleetridge_server.engine.rule import (
    BELOW_PUBLISHED,
    FEW_NODES,
    FEWEST_PEERS,
    SLOW_CLUSTER_FEWEST,
    SLOW_CLUSTER_FLOORS,
)
from fleetridge_server.engine.slow_places import PlaceVerdict
from fleetridge_server.engine.slow_settings import SlowSetting
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.upgrades import EpochChange, PairedEffect
from fleetridge_server.engine.values import Member
from fleetridge_server.engine.verdict import Verdict
from fleetridge_server.engine.wording import counted, setting_words, value_words

NoticeKind = Literal[
    "factor_step",
    "mixed_ecc",
    "wide_cohort",
    "mixed_products",
    "below_published",
    "above_published",
    "fleet_drift",
    "upgrade",
    "node_collapse",
    "shared_setting",
    "departed",
    "slow_cluster",
]


# Names beyond these are no words any more; gpu_ids have them all.
_MOST_NODES = 8


@dataclass(frozen=True, slots=True)
class Notice:
    """
    One sentence on a cohort.

    Attributes:
        cohort, roof: None where it is about the device, or about all cohorts of a roof.
        effect, low, high: as fractions, where there is one.
        gpu_ids: of the side that is slower, or odd.
    """

    kind: NoticeKind
    text: str
    cohort: Cohort | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    gpu_ids: tuple[str, ...] = ()
    levels: tuple[Level, ...] = ()
    roof: RoofKey | None = None


def cohort_notices(judged: JudgedCohort, published: Mapping[RoofKey, float]) -> list[Notice]:
    """Notices on one cohort."""
    notices = [_step_notice(judged.cohort, step, judged.groups) for step in judged.steps]
    wide = next((group.limits for group in judged.groups if group.limits.wide), None)
    if wide is not None:
        share = wide.scale.value / wide.median
        text = (
            f"{wide.pooled_n} gpus scatter by {percent(share)} of their median: "
            f"only a loss of more than {percent(wide.limit)} stands out"
        )
        notices.append(Notice("wide_cohort", text, judged.cohort, effect=share))
    return [*notices, *_beside_published(judged, published)]


def device_notices(cohorts: Sequence[JudgedCohort]) -> list[Notice]:
    """Notices that all cohorts of a device share, each once."""
    return [*_sizes(cohorts), *_mixed_ecc(cohorts)]


def _sizes(cohorts: Sequence[JudgedCohort]) -> list[Notice]:
    """One name that stands for gpus of several sizes."""
    sizes: dict[RoofKey, dict[tuple[int | None, int | None], int]] = defaultdict(dict)
    for judged in cohorts:
        conditions = judged.cohort.conditions
        if conditions.mig_profile is None and conditions.partition is None:
            key = conditions.memory_gib, conditions.sm_count
            counts = sizes[judged.cohort.roof]
            counts[key] = max(judged.n, counts.get(key, 0))
    for counts in sizes.values():
        known = {size: n for size, n in counts.items() if None not in size}
        if len(known) > 1:
            parts = [f"{n} with {gib} GiB and {sms} SMs" for (gib, sms), n in sorted(known.items(), key=str)]
            return [Notice("mixed_products", f"one name, gpus of different size: {', '.join(parts)}")]
    return []


# What undoes a setting, by its factor.
_UNDOING = {
    "power_limit_w": "restore the default limit (`nvidia-smi -i INDEX -pl DEFAULT`), or mark it as accepted",
    "remapped_rows_pending": "drain their nodes and reset them: a memory repair waits for that",
}


def slow_setting_words(slow: SlowSetting) -> str:
    """What gpus of one setting lose and cost together, and what undoes it."""
    return (
        f"{counted(len(slow.gpu_ids), 'gpu')} with {setting_words(*slow.setting)} lie {percent(slow.loss)} below those "
        f"without it and cost the work of {slow.cost_gpus:.2g} gpus; {_UNDOING[slow.setting.factor]}"
    )


def setting_notices(settings: Iterable[SlowSetting]) -> list[Notice]:
    """One notice for each setting and roof whose gpus are accused together."""
    return [
        Notice(
            "shared_setting",
            slow_setting_words(slow),
            slow.cohort,
            effect=-slow.loss,
            gpu_ids=slow.gpu_ids,
            levels=(slow.setting,),
        )
        for slow in settings
    ]


def slow_cluster_notices(verdicts: Iterable[Verdict], groups: Iterable[PlaceVerdict | SlowSetting]) -> list[Notice]:
    """
    One notice for each roof in which several accused gpus lie so close together that one cause is likely.

    Those of a place or a setting that is slow as a whole have theirs.
    """
    known = {(gpu_id, group.cohort) for group in groups for gpu_id in group.gpu_ids}
    accused: dict[Cohort, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.is_accused and (verdict.gpu_id, verdict.cohort) not in known:
            accused[verdict.cohort].append(verdict)
    notices: list[Notice] = []
    for cohort, own in accused.items():
        own.sort(key=lambda verdict: verdict.loss)
        near = max((_near(own, place) for place in range(len(own))), key=len)
        if len(near) >= SLOW_CLUSTER_FEWEST:
            low, high = percent(near[0].loss), percent(near[-1].loss)
            text = (
                f"{len(near)} gpus that are slow lie together, {low} to {high} below their peers: look for what they "
                "share before any single card"
            )
            effect = -median(verdict.loss for verdict in near)
            gpu_ids = tuple(sorted(verdict.gpu_id for verdict in near))
            notices.append(Notice("slow_cluster", text, cohort, effect=effect, gpu_ids=gpu_ids))
    return notices


def _near(verdicts: Sequence[Verdict], place: int) -> Sequence[Verdict]:
    """Verdicts, in order of loss, from one on that differ from it by no more than noise does."""
    most = verdicts[place].loss + SLOW_CLUSTER_FLOORS * verdicts[place].limits.floor
    return [verdict for verdict in verdicts[place:] if verdict.loss <= most]


_MOST_SUCCESSORS = 8


def departure_notices(departures: Iterable[Departure]) -> list[Notice]:
    """One notice for gpus that were replaced, and one for those that were not heard of for too long."""
    found: dict[DepartureKind, list[Departure]] = defaultdict(list)
    for own in departures:
        found[own.kind].append(own)
    notices: list[Notice] = []
    for kind, gone in sorted(found.items()):
        gpus = counted(len(gone), "gpu")
        if kind == "replaced":
            pairs = ", ".join(f"{own.gpu_id} by {own.successors[0]}" for own in gone[:_MOST_SUCCESSORS])
            more = f" and {len(gone) - _MOST_SUCCESSORS} more" if len(gone) > _MOST_SUCCESSORS else ""
            text = f"{gpus} replaced in the slot: {pairs}{more}"
        else:
            since = f"{min(own.last_seen for own in gone):%Y-%m-%d}"
            text = f"{gpus} not heard of, some since {since}: no part of the fleet until they report again"
        notices.append(Notice("departed", text, gpu_ids=tuple(own.gpu_id for own in gone)))
    return notices


def collapse_notices(collapses: Iterable[NodeCollapse]) -> list[Notice]:
    """Runs in which a whole node fell, one notice for each node and time; of several roofs the hardest hit is named."""
    by_run: dict[tuple[NodeName, datetime], NodeCollapse] = {}
    for own in sorted(collapses, key=lambda own: own.loss):
        by_run[own.node, own.at] = own
    return [
        Notice(
            "node_collapse",
            f"{counted(len(own.gpu_ids), 'gpu')} of {own.node.name}, all that it measured, fell by {percent(own.loss)} "
            f"together at {own.at:%Y-%m-%d %H:%M} UTC, not in the runs around it: it is left out",
            own.cohort,
            effect=-own.loss,
            gpu_ids=own.gpu_ids,
        )
        for _, own in sorted(by_run.items())
    ]


def fleet_drift_notice(cohort: Cohort, gpu_ids: Sequence[str], change: float) -> Notice:
    """Notice that most gpus of a cohort became slower than they were."""
    text = f"{counted(len(gpu_ids), 'gpu')} became slower together, by {percent(-change)}: look for what they share"
    return Notice("fleet_drift", text, cohort, effect=change, gpu_ids=tuple(gpu_ids))


def upgrade_notices(effects: Mapping[RoofKey, Mapping[EpochChange, PairedEffect]]) -> list[Notice]:
    """What each change of a factor did to the gpus that met it, each against itself."""
    return [
        _upgrade_notice(roof, change, effect) for roof, found in effects.items() for change, effect in found.items()
    ]


def _upgrade_notice(roof: RoofKey, change: EpochChange, effect: PairedEffect) -> Notice:
    before, after = change
    versions = f"{setting_words(*before)} to {value_words(*after)}"
    text = (
        f"{versions} changed {effect.n} gpus by {signed_percent(effect.effect)} "
        f"({signed_percent(effect.low)} to {signed_percent(effect.high)}), each against itself"
    )
    return Notice(
        "upgrade", text, effect=effect.effect, low=effect.low, high=effect.high, levels=tuple(change), roof=roof
    )


def _step_notice(cohort: Cohort, step: Step, groups: Sequence[JudgedGroup]) -> Notice:
    slow, fast = step.levels[0], step.levels[-1]
    interval = f"{signed_percent(step.effect)} ({signed_percent(step.low)} to {signed_percent(step.high)})"
    cost = f"at a cost of {-slow.n * step.effect:.2g} gpus' work"
    if step.factor == UNEXPLAINED:
        text = (
            f"one name, two products: {slow.n} gpus differ from {fast.n} by {interval}, and "
            f"{_telling_apart(step, groups)}{_except_nodes(step, groups)}; each is judged among its own"
        )
        kind: NoticeKind = "mixed_products"
    else:
        text = (
            f"{setting_words(*slow.level)} ({slow.n} gpus{_all_of_nodes(step, groups)}) differs from "
            f"{value_words(*fast.level)} ({fast.n} gpus) by {interval}, {cost}; each gpu is judged among its own"
        )
        kind = "mixed_ecc" if step.factor == "ecc_enabled" else "factor_step"
    levels = tuple(level.level for level in step.levels)
    return Notice(kind, text, cohort, step.effect, step.low, step.high, step.gpu_ids, levels)


def _telling_apart(step: Step, groups: Sequence[JudgedGroup]) -> str:
    """Words for what separates two products: a setting of the one alone that is on too few nodes to be the cause."""
    slow = set(step.gpu_ids)
    members = [member for judged in groups for member in judged.group.counted]
    for factor, place in zip(Factors._fields, range(len(Factors._fields)), strict=True):
        inside, outside = (
            {level_name(own.newest.report.factors[place]) for own in members if (own.gpu_id in slow) is is_slow}
            for is_slow in (True, False)
        )
        if len(inside) == 1 and not inside & outside and inside != {"unknown"}:
            return f"{setting_words(factor, *inside)} is theirs alone, on too few nodes to tell it from these"
    return "no recorded setting tells them apart"


def _except_nodes(step: Step, groups: Sequence[JudgedGroup]) -> str:
    """Words for products under one name that follow the nodes."""
    names = _own_nodes(step, groups)
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    return f" except their nodes ({', '.join(names[:_MOST_NODES])}{more})"


def _all_of_nodes(step: Step, groups: Sequence[JudgedGroup]) -> str:
    """Words for a slower level that is that of a few whole nodes: there the nodes are what to look at."""
    names = _own_nodes(step, groups)
    if not 0 < len(names) <= FEW_NODES:
        return ""
    *others, last = names
    return f", all on node {last}" if not others else f", all on nodes {', '.join(others)} and {last}"


def _own_nodes(step: Step, groups: Sequence[JudgedGroup]) -> list[str]:
    """Nodes all of whose gpus are of the slower level, if it has no others."""
    slow = set(step.gpu_ids)
    members = [member for judged in groups for member in judged.group.counted]
    inside = {member.newest.report.node for member in members if member.gpu_id in slow}
    outside = {member.newest.report.node for member in members if member.gpu_id not in slow}
    if None in inside or inside & outside:
        return []
    return sorted(node.name for node in inside if node is not None)


def _mixed_ecc(cohorts: Sequence[JudgedCohort]) -> list[Notice]:
    """ECC on and off within a device, where no step between them says so."""
    if any(step.factor == "ecc_enabled" for judged in cohorts for step in judged.steps):
        return []
    settings: dict[str, set[str]] = defaultdict(set)
    for member in (member for judged in cohorts for group in judged.groups for member in group.group.counted):
        settings[level_name(member.newest.report.factors.ecc_enabled)].add(member.gpu_id)
    if not settings.keys() >= {"on", "off"}:
        return []
    rare = min(("off", "on"), key=lambda name: len(settings[name]))
    found = "too few to tell a difference" if len(settings[rare]) < FEWEST_PEERS else "without a clear difference"
    text = f"ECC is on for {counted(len(settings['on']), 'gpu')} and off for {len(settings['off'])}, {found}"
    return [Notice("mixed_ecc", text, gpu_ids=tuple(sorted(settings[rare])))]


def _beside_published(judged: JudgedCohort, published: Mapping[RoofKey, float]) -> list[Notice]:
    roof, conditions = judged.cohort
    # Nothing is published for a part of a card.
    peak = published.get(roof) if is_whole_card(conditions.mig_profile, conditions.partition) else None
    values = [member.value for group in judged.groups for member in group.group.counted]
    if peak is None or len(values) < FEWEST_PEERS:
        return []
    share = median(values) / peak
    if share < BELOW_PUBLISHED[roof.kind]:
        text = (
            f"all {len(values)} gpus together reach {percent(share)} of the published peak: the model, not single gpus"
        )
        return [Notice("below_published", text, judged.cohort, effect=share - 1)]
    above = _above(judged, peak)
    if above:
        lie = f"{counted(len(above), 'gpu')} {'lies' if len(above) == 1 else 'lie'}"
        text = f"{lie} above the published peak: check clocks, operands and the peak's source"
        return [Notice("above_published", text, judged.cohort, gpu_ids=above)]
    return []


def _above(judged: JudgedCohort, peak: float) -> tuple[str, ...]:
    members: Iterable[Member] = (member for group in judged.groups for member in group.group.counted)
    return tuple(member.gpu_id for member in members if member.value > peak)
