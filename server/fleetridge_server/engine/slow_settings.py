"""Settings whose gpus are slow together beyond chance; which gpus share one says `engine.settings`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleetridge_server.engine import rule
from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.group_shares import halves_of, share_of
from fleetridge_server.engine.groups import Level
from fleetridge_server.engine.statistics import median, two_sided
from fleetridge_server.engine.values import Member
from fleetridge_server.engine.verdict import Verdict


@dataclass(frozen=True, slots=True)
class SlowSetting:
    """
    Gpus that share a setting and are slow together in one roof.

    Attributes:
        loss: median of the gpus' losses against those without the setting.
        gpu_ids: that lose half a gate or more, worst first.
        cost_gpus: what they lose together, in whole gpus.
    """

    setting: Level
    cohort: Cohort
    loss: float
    gpu_ids: tuple[str, ...]
    cost_gpus: float

    @property
    def is_accused(self) -> bool:
        """Always: a setting that is not slow beyond doubt is none of these."""
        return True


def slow_settings(
    settings: Mapping[Cohort, Mapping[Level, Sequence[Member]]], verdicts: Iterable[Verdict]
) -> list[SlowSetting]:
    """
    Settings whose gpus are accused together, worst first.

    The gpus of a setting are accused where the median of their shares is too low by chance for so many healthy gpus,
    and so are both halves of their runs, an hour or more apart, by the gate each.

    Args:
        settings: `JudgedCohort.settings` by cohort.
        verdicts: on the gpus of these cohorts.
    """
    if not any(settings.values()):
        return []
    known = {(verdict.gpu_id, verdict.cohort): verdict for verdict in verdicts}
    found: list[SlowSetting] = []
    for cohort, shared in settings.items():
        for setting, members in shared.items():
            own = [known[member.gpu_id, cohort] for member in members if (member.gpu_id, cohort) in known]
            if own and own[0].limits.n >= rule.FEWEST_FOR_OUTLIER and _is_slow_setting(own):
                found.append(_slow_setting(setting, cohort, own))
    return sorted(found, key=lambda slow: (-slow.loss, slow.setting))


def _is_slow_setting(verdicts: Sequence[Verdict]) -> bool:
    limits = verdicts[0].limits
    halves = halves_of(verdicts)
    if halves is None:
        return False
    scale = limits.scale.value / limits.median / math.sqrt(len(verdicts))
    share = median(share_of(verdict, verdict.member.runs) for verdict in verdicts)
    p = two_sided((share - 1) / scale, limits.scale.degrees) / 2
    return p <= rule.FALSE_PLACES and all(1 - own >= limits.gate for own in (share, *halves))


def _slow_setting(setting: Level, cohort: Cohort, verdicts: Iterable[Verdict]) -> SlowSetting:
    losing = [own for own in verdicts if own.loss >= rule.NODE_GATE_PART * own.limits.gate]
    losing.sort(key=lambda own: (-own.loss, own.gpu_id))
    return SlowSetting(
        setting,
        cohort,
        loss=median(own.loss for own in losing),
        gpu_ids=tuple(own.gpu_id for own in losing),
        cost_gpus=math.fsum(own.loss for own in losing),
    )
