"""
The order of a fleet in an evaluation, worst first, and the values of its gpus in columns, a blob for each cohort.

Pure. A hundred thousand gpus are 1.8 MB of order, made in a tenth of a second and opened in less; a page at any offset,
or a filter, is a look into arrays. `worst_losses` and `ranked` order anew by some of the roofs, over whole columns at
once, since a value object for each of a hundred thousand gpus takes ten times as long.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from math import isnan, nan

import orjson
from typing_extensions import Buffer

from fleetridge_server.engine.gpu_state import ACCUSING, STATES, State, what_is_said
from fleetridge_server.engine.ridge import Filter, misfit
from fleetridge_server.verdicts.evaluation_shapes import EvaluationBody, cohort_of

_ACCUSED = tuple(state for state in STATES if state in ACCUSING)

# Of gpus that nobody accuses.
NOT_ACCUSED = len(_ACCUSED)

# Quick rather than small: losses and values hardly compress.
_LEVEL = 1

_SEVERITIES = bytes(
    (_ACCUSED.index(STATES[number]) if STATES[number] in _ACCUSED else NOT_ACCUSED) if number < len(STATES) else 255
    for number in range(256)
)
"""Severity of each state by its place in `STATES`; 255 stays 255."""

_LENGTH = struct.Struct("<I")
_NO_STATE = 255
_KNOWN = STATES.index("known")

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def microseconds(at: datetime) -> int:
    """A time as orders and histories are packed with: since `EPOCH`."""
    return (at - EPOCH) // timedelta(microseconds=1)


def severity(state: State, last_state: State | None) -> int:
    """How early a gpu comes by what is said of it, or was when it was last measured."""
    said = what_is_said(state, last_state)
    return _ACCUSED.index(said) if said in _ACCUSED else NOT_ACCUSED


@dataclass(frozen=True, slots=True)
class OrderedGpu:
    """
    A gpu as an evaluation orders it.

    Attributes:
        row: of the gpu in its table.
        loss: largest over its judged roofs, as a fraction; None where it has no value.
        measured_at: ordering time of its newest run, in µs since 1970; 0 where there is none.
        factors: what its newest run says of each factor, as people write it.
    """

    row: int
    gpu_id: str
    state: State
    last_state: State | None
    loss: float | None
    measured_at: int
    factors: Sequence[str] = ()


@dataclass(frozen=True)
class FleetOrder:
    """
    The gpus of a device, worst first.

    Those that are accused come first, in the order of their states; then the largest loss, then the id. Of the gpus
    that nobody accuses those without a value come last, for no data is neither good nor bad.

    Attributes:
        rows: of the gpus, in this order; all other columns go with it.
        states, last_states: as places in `STATES`, 255 for none.
        losses: nan where a gpu has no value.
        measured_at: as in `OrderedGpu`.
        factor_names: of the columns in `factors`.
        levels: values of each factor.
        factors: for each factor the place of each gpu's value among its levels.
    """

    rows: array[int]
    states: bytes
    last_states: bytes
    losses: array[float]
    measured_at: array[int]
    factor_names: tuple[str, ...] = ()
    levels: tuple[tuple[str, ...], ...] = ()
    factors: tuple[array[int], ...] = field(default=())

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def places(self) -> Mapping[int, int]:
        """Place of each gpu by its row."""
        return {row: place for place, row in enumerate(self.rows)}

    def state(self, place: int) -> State:
        """State of a gpu."""
        return STATES[self.states[place]]

    def last_state(self, place: int) -> State | None:
        """What its runs say where its state is about missing or unusable measurements, or it is known."""
        known = self.last_states[place]
        return None if known == _NO_STATE else STATES[known]

    def loss_of(self, row: int | None) -> float | None:
        """Largest loss of a gpu by its row; None where it has no value or row, or is not in the order."""
        place = None if row is None else self.places.get(row)
        loss = nan if place is None else self.losses[place]
        return None if isnan(loss) else loss

    def in_states(self, wanted: Iterable[str]) -> list[int]:
        """Places of the gpus in one of some states, now or when last measured; what is known is that alone."""
        numbers = {STATES.index(state) for state in STATES if state in frozenset(wanted)}
        table = bytes(number in numbers for number in range(256))
        now, last = self.states.translate(table), self.last_states.translate(table)
        return [place for place, own in enumerate(self.states) if now[place] or (last[place] and own != _KNOWN)]

    def with_level(self, factor: str, level: str) -> set[int]:
        """Places of the gpus whose newest run says this of a factor."""
        number = self.factor_names.index(factor)
        if level not in self.levels[number]:
            return set()
        wanted = self.levels[number].index(level)
        return {place for place, own in enumerate(self.factors[number]) if own == wanted}

    def level(self, factor: str, place: int) -> str:
        """What a gpu's newest run says of a factor."""
        number = self.factor_names.index(factor)
        return self.levels[number][self.factors[number][place]]

    @cached_property
    def severities(self) -> Sequence[int]:
        """How early each gpu comes: 0 for the worst state, `NOT_ACCUSED` for a gpu that nobody accuses."""
        now, last = self.states.translate(_SEVERITIES), self.last_states.translate(_SEVERITIES)
        return [a if b == _NO_STATE or own == _KNOWN else b for a, b, own in zip(now, last, self.states, strict=True)]


@dataclass(frozen=True)
class CohortColumn:
    """
    What gpus count for in one cohort, in the order of the fleet.

    Attributes:
        values: nan for a gpu that is not in it.
        groups: by which of the cohort's groups each gpu is held; of no meaning where it is not in it.
        counted: 1 for the values that describe the cohort.
    """

    values: array[float]
    groups: bytes
    counted: bytes


def fleet_order(gpus: Iterable[OrderedGpu], factor_names: Sequence[str] = ()) -> FleetOrder:
    """Gpus in their order."""
    ordered = sorted(gpus, key=_rank)
    levels = [sorted({gpu.factors[number] for gpu in ordered}) for number in range(len(factor_names))]
    numbers = [{level: place for place, level in enumerate(own)} for own in levels]
    return FleetOrder(
        rows=array("Q", [gpu.row for gpu in ordered]),
        states=bytes(STATES.index(gpu.state) for gpu in ordered),
        last_states=bytes(_NO_STATE if gpu.last_state is None else STATES.index(gpu.last_state) for gpu in ordered),
        losses=array("d", [nan if gpu.loss is None else gpu.loss for gpu in ordered]),
        measured_at=array("Q", [gpu.measured_at for gpu in ordered]),
        factor_names=tuple(factor_names),
        levels=tuple(map(tuple, levels)),
        factors=tuple(array("I", [own[gpu.factors[place]] for gpu in ordered]) for place, own in enumerate(numbers)),
    )


def _rank(gpu: OrderedGpu) -> tuple[int, bool, float, str]:
    return severity(gpu.state, gpu.last_state), *by_loss(gpu.loss), gpu.gpu_id


def by_loss(loss: float | None) -> tuple[bool, float]:
    """Key by which the largest loss comes first, and last what has none."""
    return (True, 0.0) if loss is None else (False, -loss)


def cohort_column(order: FleetOrder, members: Iterable[tuple[int, float, int, bool]]) -> CohortColumn:
    """A cohort's values beside an order; of each member row, value, group, and whether it describes the cohort."""
    size, places = len(order), order.places
    values, groups, counted = array("d", [nan]) * size, bytearray(size), bytearray(size)
    for row, value, group, counts in members:
        place = places.get(row)
        if place is not None:
            values[place], groups[place], counted[place] = value, group, counts
    return CohortColumn(values, bytes(groups), bytes(counted))


def packed_order(order: FleetOrder) -> bytes:
    """An order as one blob."""
    head = {"factors": order.factor_names, "levels": order.levels}
    columns: tuple[Buffer, ...] = (
        order.rows,
        order.states,
        order.last_states,
        order.losses,
        order.measured_at,
        *order.factors,
    )
    return _packed(orjson.dumps(head), *[bytes(column) for column in columns])


def unpacked_order(blob: bytes) -> FleetOrder:
    """The order that `packed_order` packed."""
    head, rows, states, last_states, losses, measured_at, *factors = _unpacked(blob)
    known = orjson.loads(head)
    return FleetOrder(
        rows=array("Q", rows),
        states=states,
        last_states=last_states,
        losses=array("d", losses),
        measured_at=array("Q", measured_at),
        factor_names=tuple(known["factors"]),
        levels=tuple(map(tuple, known["levels"])),
        factors=tuple(array("I", own) for own in factors),
    )


def packed_column(column: CohortColumn) -> bytes:
    """A cohort's column as one blob."""
    return _packed(bytes(column.values), column.groups, column.counted)


def unpacked_column(blob: bytes) -> CohortColumn:
    """The column that `packed_column` packed."""
    values, groups, counted = _unpacked(blob)
    return CohortColumn(array("d", values), groups, counted)


def _packed(*parts: bytes) -> bytes:
    return zlib.compress(b"".join(_LENGTH.pack(len(part)) + part for part in parts), _LEVEL)


def _unpacked(blob: bytes) -> list[bytes]:
    content = zlib.decompress(blob)
    parts: list[bytes] = []
    at = 0
    while at < len(content):
        [length] = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size
        parts.append(content[at : at + length])
        at += length
    return parts


Losses = Sequence[float]
"""Loss of each gpu at its place in the order; nan where it has none."""


def worst_losses(body: EvaluationBody, columns: Mapping[int, CohortColumn], only: Filter) -> Losses:
    """
    Largest loss of each gpu over the roofs that a filter takes, and the bandwidths that go with its rates.

    `columns` are, by number, those of the cohorts that the filter takes and of all judged bandwidths; one at least.
    """
    losses = {number: cohort_losses(number, column, body) for number, column in columns.items()}
    worst: Losses = [nan] * len(next(iter(columns.values())).values)
    for number in sorted(columns):
        cohort = cohort_of(body.cohorts[number])
        if only.takes_roof(cohort.roof):
            worst = _larger(worst, losses[number])
            if cohort.roof.kind == "compute":
                worst = _larger(worst, _of_best_beta(number, body, columns, losses))
    return worst


def ranked(order: FleetOrder, losses: Losses, places: Iterable[int] | None = None) -> list[int]:
    """Places of the gpus that have a loss, or of some of them: accused ones first, then by loss, then in order."""
    chosen = range(len(order)) if places is None else places
    known = [place for place in chosen if losses[place] == losses[place]]  # not nan
    found = sorted(known, key=losses.__getitem__, reverse=True)
    severities = order.severities
    parts: list[list[int]] = [[] for _ in range(NOT_ACCUSED + 1)]
    for place in found:
        parts[severities[place]].append(place)
    return [place for part in parts for place in part]


def cohort_losses(number: int, column: CohortColumn, body: EvaluationBody) -> Losses:
    """Loss of each gpu in one cohort, beside the median of its own group."""
    medians = [band.median for band in body.cohorts[number].bands]
    if len(medians) == 1:
        [median] = medians
        return [1 - value / median for value in column.values]
    return [1 - value / medians[group] for value, group in zip(column.values, column.groups, strict=True)]


def _of_best_beta(
    number: int, body: EvaluationBody, columns: Mapping[int, CohortColumn], losses: Mapping[int, Losses]
) -> Losses:
    """Loss of the bandwidth that goes best with each gpu's rate in a cohort; nan without a rate there."""
    pi = cohort_of(body.cohorts[number])
    fits = {
        beta: fit
        for beta in columns
        if (cohort := cohort_of(body.cohorts[beta])).roof.kind == "memory" and (fit := misfit(pi, cohort)) is not None
    }
    best: Losses = [nan] * len(columns[number].values)
    for fit in sorted(set(fits.values())):
        # Of equal ones the highest bandwidth.
        value, loss = best, best
        for beta in (beta for beta in fits if fits[beta] == fit):
            own, own_loss = columns[beta].values, losses[beta]
            loss = [
                known if (theirs >= mine or mine != mine) else fresh  # noqa: PLR0124 # nan is none
                for known, fresh, theirs, mine in zip(loss, own_loss, value, own, strict=True)
            ]
            value = _larger(value, own)
        best = [known if known == known else fresh for known, fresh in zip(best, loss, strict=True)]  # noqa: PLR0124 # not nan
    return [loss if rate == rate else nan for loss, rate in zip(best, columns[number].values, strict=True)]  # noqa: PLR0124 # not nan


def _larger(one: Losses, other: Losses) -> Losses:
    """The larger of two numbers at each place; of a number and nan the number."""
    return [b if b > a or a != a else a for a, b in zip(one, other, strict=True)]  # noqa: PLR0124 # nan
