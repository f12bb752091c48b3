"""
Examination of sent items: what is stored of each, or why it is refused; and the ordering time of a report.

Each item of a list is judged on its own, so that one bad report costs no other. Nothing here touches the database:
what is made here is stored by `intake.store`.

Ordering time is when a report was measured, as far as clocks can be believed. A node's clock may be wrong. What it
says now (`sent_at`) against this server's clock on arrival is its error, so that a time noted earlier can be put right;
and nothing that has arrived was measured in the future.
"""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeGuard

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from fleetridge import strict_json
from fleetridge.device_names import canonical_device_name, fallback_device_name, gpu_identity
from fleetridge.report import MAX_REPORTS, Envelope, Report
from fleetridge.strict_json import MAX_VALUES_OF_REPORT, Json, StrictJsonError
from fleetridge_server.engine.rule import CLOCK_AHEAD_TOLERATED
from fleetridge_server.intake.body import content_sha256, has_unknown_fields, is_plain
from fleetridge_server.problems import MAX_ERRORS, FieldError, problem_of


@dataclass(frozen=True, slots=True)
class Ordering:
    """
    Place of a report in time.

    Attributes:
        ordered_at: earlier of the corrected end of the measurement and the arrival; None for one without a time.
        clock_ahead: the node's clock said a time further past the arrival than is tolerated.
    """

    ordered_at: datetime | None
    clock_ahead: bool


def ordering(measured_to: datetime | None, *, sent_at: datetime | None, received_at: datetime) -> Ordering:
    """Place of a report in time: measured and (None: nobody said) sent by the node's clock, received by ours."""
    if measured_to is None:
        return Ordering(None, clock_ahead=False)
    skew = timedelta(0) if sent_at is None else received_at - sent_at
    return Ordering(
        ordered_at=min(_moved(measured_to, skew, latest=received_at), received_at),
        clock_ahead=measured_to - received_at > CLOCK_AHEAD_TOLERATED,
    )


def _moved(moment: datetime, skew: timedelta, *, latest: datetime) -> datetime:
    try:
        return moment + skew
    except OverflowError:  # beyond the years 1 to 9999: the earliest that can be said, or later than any arrival
        return datetime.min.replace(tzinfo=moment.tzinfo) if skew < timedelta(0) else latest


IntakeOutcome = Literal["created", "duplicate", "conflict", "rejected"]

# No identifier is longer than a UUID in any of its spellings; a text that is, is not worth sending back.
_MAX_ECHO_CHARACTERS = 256

_ENVELOPE_REMEDY = f"send {{sent_at, reports: [1 to {MAX_REPORTS} of them]}}, or one report as it is"


class EnvelopeError(ValueError):
    """A list that cannot be taken at all."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}" if field else problem)
        self.error = FieldError(field=field, problem=problem)


@dataclass(frozen=True, slots=True)
class Rejected:
    """An item that is no report: what it called itself, and its faults."""

    sent_id: str | None
    errors: tuple[FieldError, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """
    A report, ready to be stored.

    Attributes:
        sent_id: the report's id in the sender's spelling.
        sha256: of the content, however it was spelled.
        body: the document's compressed text.
        received_at: arrival by our clock.
        sent_at: of the envelope.
        ordering: its place in time.
        gpu_id: identity of its gpu; None where the report is about the node.
        device_name: canonical name of that gpu's device.
        token_id: row of the token that it was posted with; None without one.
    """

    sent_id: str
    report: Report
    sha256: bytes
    body: bytes
    received_at: datetime
    sent_at: datetime | None
    ordering: Ordering
    gpu_id: str | None
    device_name: str | None
    token_id: int | None = None


Item = Accepted | Rejected


def is_envelope(value: Json) -> TypeGuard[dict[str, Json]]:
    """Whether a body is a list of reports, by its one field that no report has."""
    return isinstance(value, dict) and "reports" in value


def envelope_of(value: dict[str, Json]) -> Envelope[Any]:
    """
    Envelope whose reports are not yet looked at.

    Raises:
        EnvelopeError: no list, an empty or too long one, or a `sent_at` that is no time.
    """
    try:
        strict_json.check({name: part for name, part in value.items() if name != "reports"})
        return Envelope[Any].model_validate(value)
    except StrictJsonError as error:
        raise EnvelopeError(error.path, error.problem) from error
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise EnvelopeError(_path_of(fault["loc"]), f"{problem_of(fault)}; {_ENVELOPE_REMEDY}") from error


def examined(item: Json, *, sent_at: datetime | None, received_at: datetime, token_id: int | None = None) -> Item:
    """Make a report of one item, or say why it is none."""
    sent_id = _sent_id(item)
    try:
        report, text = _read(item)
        gpu_id, device_name = _identified(report)
    except StrictJsonError as error:
        return Rejected(sent_id, (FieldError(field=error.path, problem=error.problem),))
    except ValidationError as error:
        return Rejected(sent_id, tuple(_field_errors(error)))
    except ValueError as error:  # of the identity
        return Rejected(sent_id, (FieldError(field="gpu.uuid", problem=str(error)),))
    return Accepted(
        sent_id=str(report.report_id) if sent_id is None else sent_id,
        report=report,
        sha256=content_sha256(report),
        body=packed(text),
        received_at=received_at,
        sent_at=sent_at,
        ordering=ordering(report.measured_to, sent_at=sent_at, received_at=received_at),
        gpu_id=gpu_id,
        device_name=device_name,
        token_id=token_id,
    )


def packed(text: bytes) -> bytes:
    """JSON text as it is kept."""
    return zlib.compress(text)


def unpacked(body: bytes) -> bytes:
    """JSON text of a kept document."""
    return zlib.decompress(body)


def _read(item: Json) -> tuple[Report, bytes]:
    """
    Report of an item, and its text: the same fields in the same order.

    Raises:
        StrictJsonError: it cannot be kept; raised before anything else that is wrong with it.
        ValidationError: it is no report.
    """
    try:
        report = Report.model_validate(item)
    except ValidationError:
        strict_json.check(item, max_values=MAX_VALUES_OF_REPORT)
        raise
    is_known = not has_unknown_fields(report)
    if not is_known:
        strict_json.check(item, max_values=MAX_VALUES_OF_REPORT)
    text = to_json(item, inf_nan_mode="constants")
    if is_known and not is_plain(text, report):
        strict_json.check(item, max_values=MAX_VALUES_OF_REPORT)
    return report, text


def _sent_id(item: Json) -> str | None:
    sent_id = item.get("report_id") if isinstance(item, dict) else None
    return sent_id if isinstance(sent_id, str) and len(sent_id) <= _MAX_ECHO_CHARACTERS else None


def _identified(report: Report) -> tuple[str, str] | tuple[None, None]:
    """Identity of the report's gpu and canonical name of its device."""
    gpu, node = report.gpu, report.node
    if gpu is None:
        return None, None
    gpu_id = gpu_identity(gpu.uuid, cluster=node.cluster, node=node.name, pci_bus_id=gpu.pci_bus_id, index=gpu.index)
    name = canonical_device_name(gpu.device or "")
    return gpu_id, name or fallback_device_name(gpu.architecture, gpu.memory_bytes)


def _field_errors(error: ValidationError) -> Iterable[FieldError]:
    for fault in error.errors(include_url=False, include_context=False, include_input=False)[:MAX_ERRORS]:
        yield FieldError(field=_path_of(fault["loc"]), problem=problem_of(fault))


def _path_of(location: tuple[int | str, ...]) -> str:
    """Path as strict_json writes it; what pydantic adds for its own use is left out."""
    path = ""
    for position, step in enumerate(location):
        is_kind_of_point = position == 2 and location[0] == "points"  # noqa: PLR2004 # points, 3, gemm, ms
        if isinstance(step, int):
            path += f"[{step}]"
        elif not is_kind_of_point and step != "[key]":
            path += f".{step}" if path else step
    return path


class Result(BaseModel):
    """
    What became of one report.

    Attributes:
        report_id: as it was sent; null where it was no text.
        outcome: `created`, `duplicate` (stored before, the same), `conflict` (stored before with other content),
            `rejected` (not a report; see `errors`). The last two are final: sending the same again is no use.
    """

    report_id: str | None
    outcome: IntakeOutcome
    errors: list[FieldError] = []


class Results(BaseModel):
    """What became of each report of a list, in their order."""

    results: list[Result]
