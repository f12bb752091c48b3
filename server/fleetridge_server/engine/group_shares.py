"""
Shares of their level that gpus of one node, rack or setting reach together: by all of their runs, and by each half.

A group is accused where both halves, an hour or more apart, say what the whole says.
"""

from collections.abc import Sequence

from fleetridge_server.engine import rule
from fleetridge_server.engine.statistics import median
from fleetridge_server.engine.values import Run, values_of
from fleetridge_server.engine.verdict import Verdict


def share_of(verdict: Verdict, runs: Sequence[Run]) -> float:
    """Median of these runs of a gpu, as a part of what it is held against."""
    return median(values_of(runs)) / verdict.limits.median


def halves_of(verdicts: Sequence[Verdict]) -> tuple[float, float] | None:
    """Shares of gpus by the newer and by the older half of each gpu's runs; None where most have no two halves."""
    newer: list[float] = []
    older: list[float] = []
    for verdict in verdicts:
        runs = verdict.member.runs
        cut = (len(runs) + 1) // 2
        if len(runs) > cut and runs[0].report.ordered_at - runs[cut].report.ordered_at >= rule.CONFIRMATIONS_APART:
            newer.append(share_of(verdict, runs[:cut]))
            older.append(share_of(verdict, runs[cut:]))
    return (median(newer), median(older)) if 2 * len(newer) >= len(verdicts) else None
