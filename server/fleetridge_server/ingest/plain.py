"""
Reports whose text shows at a glance that they can be kept: nearly all.

`strict_json.check` looks at each value. A report that has no unknown fields holds nothing but what its models let pass,
so that only what they do not look at is left: its characters, the number of its values, and lists of plain integers.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleetridge.report import Report
from fleetridge.report.values import WireModel
from fleetridge.strict_json import MAX_VALUES_OF_REPORT

# A control character or a quotation mark in a text begins with the first, DELETE stands for itself, and numbers that
# are none are spelled so.
_SUSPICIOUS = (b"\\", b"\x7f", b"NaN", b"Infinity")

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def is_plain(text: bytes, report: Report) -> bool:
    """
    Whether `strict_json.check` surely lets an item pass.

    Args:
        text: JSON of the item as pydantic writes it, with numbers that are none as constants.
        report: made of the item, without unknown fields.
    """
    return (
        text.isascii()
        and not any(sign in text for sign in _SUSPICIOUS)
        and _most_values(text) <= MAX_VALUES_OF_REPORT
        and all(_INT64_MIN <= size <= _INT64_MAX for size in _unbounded(report))
    )


def has_unknown_fields(report: Report) -> bool:
    """Whether a report, or any part of it, has a field that this version does not know."""
    return any(part.__pydantic_extra__ for part in _parts(report))


def _parts(report: Report) -> Iterator[WireModel]:
    yield report
    yield from (report.run, report.agent, report.node, report.environment, report.evidence)
    yield from (part for part in (report.gpu, report.sweep) if part is not None)
    yield from report.run.roster or ()
    yield from report.evidence.phases
    yield from report.points
    yield from report.roofs


def _unbounded(report: Report) -> Iterator[int]:
    """Integers that may have any size."""
    if report.sweep is not None:
        yield from report.sweep.square
        yield from report.sweep.m_sweep


def _most_values(text: bytes) -> int:
    """Bound on the values of a JSON text: each stands first in it or in a container, or behind a comma."""
    return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
