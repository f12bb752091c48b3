"""
Settings that make gpus slower: a power limit below the one that the board was sold with, a repair that waits.

An operator chooses them or a fault brings them; neither is an excuse. Gpus that share one are never the measure of
themselves: they have no vote in a median, are held against those without it, and are accused together
(`engine.slow_settings`).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from fleetridge_server.engine import rule
from fleetridge_server.engine.groups import Level, level_name
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import Member


def slower_settings(members: Sequence[Member], gate: float) -> dict[Level, list[Member]]:
    """
    Settings that two gpus or more share and that lie below the others by the gate or more, with these gpus.

    None where the others are too few to say what a gpu does without: fewer than four, or than a quarter.

    Args:
        members: of one cohort, measured lately.
        gate: smallest loss that counts, as a fraction.
    """
    found: dict[Level, list[Member]] = defaultdict(list)
    others: list[float] = []
    limits_w = {member.newest.report.factors.power_limit_w for member in members}
    usual_w = _usual_power_limit(members) if len(limits_w) > 1 else None
    for member in members:
        setting = _setting_of(member, usual_w)
        if setting is None:
            others.append(member.value)
        else:
            found[setting].append(member)
    if not found or len(others) < max(rule.FEWEST_PEERS, rule.UNSET_SMALLEST_SHARE * len(members)):
        return {}
    highest = median(others) * (1 - gate)
    return {
        setting: own
        for setting, own in sorted(found.items())
        if len(own) > 1 and median(member.value for member in own) <= highest
    }


def _usual_power_limit(members: Iterable[Member]) -> float | None:
    """The highest limit that four gpus or more have: what stands for the default of boards that do not say theirs."""
    counts = Counter(member.newest.report.factors.power_limit_w for member in members)
    return max((limit for limit, n in counts.items() if limit is not None and n >= rule.FEWEST_PEERS), default=None)


def _setting_of(member: Member, usual_w: float | None) -> Level | None:
    report = member.newest.report
    limit_w, default_w = report.factors.power_limit_w, report.health.power_limit_default_w or usual_w
    if limit_w is not None and default_w is not None and limit_w <= default_w * (1 - rule.POWER_LIMIT_LOWER):
        return Level("power_limit_w", level_name(limit_w))
    return Level("remapped_rows_pending", level_name(True)) if report.health.remapped_rows_pending else None
