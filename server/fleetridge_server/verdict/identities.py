"""
One identity, two nodes: what to do where two hosts report the same gpu at the same time.

Cloned machines and badly virtualised devices share identities. Nobody knows then which of the two was measured, so that
neither report says anything of the gpu. A gpu that another node reports later has moved, and keeps its history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from fleetridge_server.verdict.evidence import JudgedReport

# Nobody carries a card from one running host to another within an hour.
MOVING_TAKES = timedelta(hours=1)

_Id = TypeVar("_Id")


@dataclass(frozen=True, slots=True)
class Claim(Generic[_Id]):
    """That a node had a gpu at a time, by the report that says so."""

    report_id: _Id
    node: Hashable
    ordered_at: datetime


def conflicts(claims: Sequence[Claim[_Id]]) -> dict[_Id, datetime]:
    """
    Reports within an hour of which another node claims the gpu too, each with the time from which on that is known.

    Args:
        claims: on one gpu, oldest first.
    """
    return _near_another(claims[::-1]) | _near_another(claims)


def with_conflicts(reports: Sequence[JudgedReport]) -> list[JudgedReport]:
    """
    The same reports, with `conflict` set on those within an hour of which another node reports the gpu too.

    Args:
        reports: of one gpu, in the order of their times, up or down. Reports of no node conflict with none.
    """
    nodes = {report.node for report in reports if report.node is not None}
    if len(nodes) < 2:  # noqa: PLR2004 # it takes two
        return list(reports)
    claims = [Claim(own.report_id, own.node, own.ordered_at) for own in reports if own.node is not None]
    clashing = conflicts(claims if claims[0].ordered_at <= claims[-1].ordered_at else claims[::-1])
    return [
        replace(report, conflict=True) if report.report_id in clashing and not report.conflict else report
        for report in reports
    ]


def _near_another(claims: Iterable[Claim[_Id]]) -> dict[_Id, datetime]:
    """Reports shortly after (in the given order) one of another node, with the later of the two times."""
    found: dict[_Id, datetime] = {}
    last: Claim[_Id] | None = None
    last_of_another: Claim[_Id] | None = None
    for claim in claims:
        if last is not None and last.node != claim.node:
            last_of_another = last
        if last_of_another is not None and abs(claim.ordered_at - last_of_another.ordered_at) <= MOVING_TAKES:
            found[claim.report_id] = max(claim.ordered_at, last_of_another.ordered_at)
        last = claim
    return found
