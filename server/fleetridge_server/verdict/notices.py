"""What is said once of a cohort or a device, so that it need not be said of every gpu."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetridge.quantities import percent, signed_percent
from fleetridge.report import RoofKey
from fleetridge_server.compare.cohort import FEWEST_PEERS, Cohort
from fleetridge_server.compare.stats import median
from fleetridge_server.verdict.epochs import EpochChange, PairedEffect
from fleetridge_server.verdict.judgement import JudgedCohort, JudgedGroup
from fleetridge_server.verdict.levels import POPULATION, Level, Step, level_name
from fleetridge_server.verdict.members import Member
from fleetridge_server.verdict.reading_words import gpu_count, setting_words, value_words

NoticeKind = Literal[
    "factor_step",
    "mixed_ecc",
    "wide_cohort",
    "two_populations",
    "below_published",
    "above_published",
    "fleet_drift",
    "upgrade",
]

# Sustained products under a power limit reach 70 % of the datasheet on healthy silicon, reads 90 %.
BELOW_PUBLISHED = {"compute": 0.5, "memory": 0.7}

# Names beyond these are no words any more; gpu_ids have them all.
_MOST_NODES = 8

# So many nodes with a setting of their own were set apart by somebody; more are a rollout.
_FEW_NODES = 3


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
    wide = next((group.yardstick for group in judged.groups if group.yardstick.wide), None)
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
            key = conditions.sm_count, conditions.memory_bytes
            counts = sizes[judged.cohort.roof]
            counts[key] = max(judged.n, counts.get(key, 0))
    for counts in sizes.values():
        known = {size: n for size, n in counts.items() if None not in size}
        if len(known) > 1:
            parts = [f"{n} with {sms} multiprocessors" for (sms, _), n in sorted(known.items(), key=str)]
            return [Notice("two_populations", f"one name, gpus of different size: {', '.join(parts)}")]
    return []


def fleet_drift_notice(cohort: Cohort, gpu_ids: Sequence[str], change: float) -> Notice:
    """Notice that most gpus of a cohort became slower than they were."""
    text = f"{gpu_count(len(gpu_ids))} became slower together, by {percent(-change)}: look for what they share"
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
    if step.factor == POPULATION:
        text = (
            f"one name, two populations: {slow.n} gpus differ from {fast.n} by {interval}, and no recorded setting "
            f"tells them apart{_except_nodes(step, groups)}; each is judged among its own"
        )
        kind: NoticeKind = "two_populations"
    else:
        text = (
            f"{setting_words(*slow.level)} ({slow.n} gpus{_all_of_nodes(step, groups)}) differs from "
            f"{value_words(*fast.level)} ({fast.n} gpus) by {interval}; each gpu is judged among its own"
        )
        kind = "mixed_ecc" if step.factor == "ecc_enabled" else "factor_step"
    levels = tuple(level.level for level in step.levels)
    return Notice(kind, text, cohort, step.effect, step.low, step.high, step.gpu_ids, levels)


def _except_nodes(step: Step, groups: Sequence[JudgedGroup]) -> str:
    """Words for populations that follow the nodes."""
    names = _own_nodes(step, groups)
    if not names:
        return ""
    more = f" and {len(names) - _MOST_NODES} more" if len(names) > _MOST_NODES else ""
    return f" except their nodes ({', '.join(names[:_MOST_NODES])}{more})"


def _all_of_nodes(step: Step, groups: Sequence[JudgedGroup]) -> str:
    """Words for a slower level that is that of a few whole nodes: there the nodes are what to look at."""
    names = _own_nodes(step, groups)
    if not 0 < len(names) <= _FEW_NODES:
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
    text = f"ECC is on for {gpu_count(len(settings['on']))} and off for {len(settings['off'])}, {found}"
    return [Notice("mixed_ecc", text, gpu_ids=tuple(sorted(settings[rare])))]


def _beside_published(judged: JudgedCohort, published: Mapping[RoofKey, float]) -> list[Notice]:
    roof = judged.cohort.roof
    peak = published.get(roof)
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
        lie = "lies" if len(above) == 1 else "lie"
        text = f"{gpu_count(len(above))} {lie} above the published peak: check clocks, operands and the peak's source"
        return [Notice("above_published", text, judged.cohort, gpu_ids=above)]
    return []


def _above(judged: JudgedCohort, peak: float) -> tuple[str, ...]:
    members: Iterable[Member] = (member for group in judged.groups for member in group.group.counted)
    return tuple(member.gpu_id for member in members if member.value > peak)
