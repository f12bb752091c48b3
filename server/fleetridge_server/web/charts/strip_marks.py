"""What a strip shows: one gpu a mark, or a crowd."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetridge.quantities import quantity, signed_percent
from fleetridge_server.engine.wording import counted
from fleetridge_server.web.charts.axes import LINE, Axis, Callout, callouts, squeezed, width_of
from fleetridge_server.web.charts.distribution import LEAST_COUNT, Spread
from fleetridge_server.web.charts.svg import Layout, path, titled, words
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.symbols import PEER, DrawnGpu, MarkStyle, Spot, circle, is_noted, mark, mark_style


@dataclass(frozen=True, slots=True)
class GpuDeviation:
    """One gpu on a strip: its value in the strip's unit, and value / median - 1."""

    gpu: DrawnGpu
    value: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Strip:
    """
    One figure of all gpus that may be compared.

    Attributes:
        label: such as "pi bfloat16 burst", "beta read", "I* bfloat16 burst".
        unit: of median, values and published figure.
        limit: loss, as a fraction of the median, beyond which a gpu is accused; None where there is no verdict.
        published: the maker's figure; None where it is not known.
        note: such as why there is no verdict.
        crowd: deviations of all, where `gpus` are only those of a large fleet that deserve a look.
    """

    label: str
    unit: str
    median: float
    gpus: tuple[GpuDeviation, ...]
    limit: float | None = None
    published: float | None = None
    note: str = ""
    crowd: Spread | None = None

    @property
    def count(self) -> int:
        """How many gpus it is about."""
        return len(self.gpus) if self.crowd is None else self.crowd.gpus

    @property
    def reach(self) -> tuple[float, float]:
        """Lowest and highest deviation."""
        found = [own.deviation for own in self.gpus]
        found += [] if self.crowd is None else [self.crowd.bottom, self.crowd.top]
        return min(found), max(found)


@dataclass(frozen=True, slots=True)
class StripChart:
    """Strips above one another on one axis."""

    title: str
    strips: tuple[Strip, ...]


# With more gpus dots cover one another, and are too many bytes.
_MOST_DOTS = 200
_MOST_STANDING_OUT = 60
# An accusation stands until the newest runs lie inside this part of the limit.
_CLEARED = 0.8
_RADIUS = 4.0
_BIN = 4.0
# A single gpu among thousands must be seen.
_LOWEST_BAR = 2.5
_MOST_NAMES = {Layout.WIDE: 10, Layout.NARROW: 5}
_NAME_ROWS = 3
_LONGEST_NAME = 230.0


@dataclass(frozen=True, slots=True)
class Lane:
    """Where a strip's marks go."""

    axis: Axis
    top: float
    height: float
    layout: Layout

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + self.height

    @property
    def middle(self) -> float:
        """Line on which a lonely dot stands."""
        return self.top + self.height / 2


def standing_out(strip: Strip) -> list[GpuDeviation]:
    """Gpus that are drawn over the others: highlighted, or accused and slow in this figure; the worst first."""
    found = [own for own in strip.gpus if own.gpu.highlighted or _shows_loss(own, strip)]
    return sorted(found, key=lambda own: (not own.gpu.highlighted, own.deviation, own.gpu.label))[:_MOST_STANDING_OUT]


def look_on(own: GpuDeviation, strip: Strip) -> MarkStyle:
    """How a gpu is drawn on a strip: a gpu that is accused of another roof is plain where it keeps up."""
    return PEER if is_noted(own.gpu) and not _shows_loss(own, strip) else mark_style(own.gpu.state)


def _shows_loss(own: GpuDeviation, strip: Strip) -> bool:
    if strip.limit is None:
        return is_noted(own.gpu)
    return own.deviation < -strip.limit or (is_noted(own.gpu) and own.deviation < -_CLEARED * strip.limit)


def is_crowd(strip: Strip) -> bool:
    """Whether bars count the gpus of a strip."""
    return strip.crowd is not None or len(strip.gpus) > _MOST_DOTS


def crowd(strip: Strip, found: Sequence[GpuDeviation], lane: Lane) -> str:
    """All gpus of a strip, those that stand out last."""
    apart = {id(own) for own in found}
    others = [own for own in strip.gpus if id(own) not in apart]
    if strip.crowd is not None:
        drawn = _whisker(strip.crowd, lane) + _bars(_spread_bins(strip.crowd, lane), lane)
    elif is_crowd(strip):
        drawn = _bars(_counted_bins(others, lane), lane)
    else:
        drawn = _dots(others, strip, lane)
    return drawn + _dots(sorted(found, key=lambda own: -own.deviation), strip, lane)


def named(found: Sequence[GpuDeviation], lane: Lane) -> tuple[str, float]:
    """Names of the worst below their marks, and where the strip ends; how many more there are is said, too."""
    chosen = [own for own in found if own.gpu.highlighted or _is_apart(own, lane)][: _MOST_NAMES[lane.layout]]
    texts = [f"{squeezed(own.gpu.label, _LONGEST_NAME)} {signed_percent(own.deviation)}" for own in chosen]
    xs = [lane.axis.at(own.deviation) for own in chosen]
    places = callouts(xs, [width_of(text) for text in texts], _NAME_ROWS, lane.axis.start - 14, lane.axis.end + 14)
    parts = [_name(text, x, place, lane) for text, x, place in zip(texts, xs, places, strict=True) if place is not None]
    used = max((place.row for place in places if place is not None), default=-1)
    left_out = len(found) - len(parts)
    end = lane.bottom + LINE * (used + 1) + (4 if parts else 0)
    if parts and left_out:
        parts.append(words(f"and {left_out} more that stand out", lane.axis.start - 14, end + LINE * 0.8, "fr-aside"))
        end += LINE
    return "".join(parts), end


def _is_apart(own: GpuDeviation, lane: Lane) -> bool:
    """Whether a mark lies so far from the median that a name below it points at it alone."""
    return lane.axis.at(0) - lane.axis.at(own.deviation) > 3 * _RADIUS


def _name(text: str, x: float, place: Callout, lane: Lane) -> str:
    y = lane.bottom + LINE * (place.row + 0.85)
    leader = path("fr-leader", [f"M{c(x)} {c(lane.middle + 8)}V{c(y - 10)}"])
    return leader + words(text, place.start, y, "fr-halo")


def _dots(gpus: Sequence[GpuDeviation], strip: Strip, lane: Lane) -> str:
    """Dots at their exact places, heaped around the middle of the lane where they would cover one another."""
    columns: dict[int, list[GpuDeviation]] = defaultdict(list)
    for own in gpus:
        columns[round(lane.axis.at(own.deviation) / (1.6 * _RADIUS))].append(own)
    return "".join(
        _dot(own, strip, lane, lane.middle + offset)
        for _, column in sorted(columns.items())
        for own, offset in zip(column, _heap(len(column), lane.height / 2 - _RADIUS), strict=True)
    )


def _heap(count: int, reach: float) -> list[float]:
    """Offsets 0, -1, 1, -2, … times a step that lets all of them stay within reach."""
    step = min(1.7 * _RADIUS, reach / max(1, count // 2))
    return [step * ((number + 1) // 2) * (-1 if number % 2 else 1) for number in range(count)]


def _dot(own: GpuDeviation, strip: Strip, lane: Lane, y: float) -> str:
    x = lane.axis.at(own.deviation)
    shape = look_on(own, strip).drawn(x, y, _RADIUS)
    if own.gpu.highlighted:
        shape += circle("fr-own", x, y, 2 * _RADIUS)
    says = f"{quantity(own.value, strip.unit)}, {signed_percent(own.deviation)}"
    return mark(own.gpu, says, shape, Spot(x, y, lane.layout.units))


def _counted_bins(gpus: Sequence[GpuDeviation], lane: Lane) -> Mapping[int, float]:
    """Gpus by bar, of which each is `_BIN` wide."""
    axis = lane.axis
    per_unit = (axis.end - axis.start) / (axis.high - axis.low) / _BIN
    return Counter(int((min(max(own.deviation, axis.low), axis.high) - axis.low) * per_unit) for own in gpus)


def _spread_bins(spread: Spread, lane: Lane) -> Mapping[int, float]:
    """The same from quantiles; what lies beyond the axis waits at its ends."""
    axis = lane.axis
    per_unit = (axis.end - axis.start) / (axis.high - axis.low)
    parts = tuple((part, (min(max(away, axis.low), axis.high) - axis.low) * per_unit) for part, away in spread.parts)
    return Spread(spread.gpus, parts).counts(_BIN)


def _whisker(spread: Spread, lane: Lane) -> str:
    """A line from the lowest to the highest gpu; bars are for those between."""
    start, end = lane.axis.at(spread.bottom), lane.axis.at(spread.top)
    return path("fr-whisker", [f"M{c(start)} {c(lane.bottom - 1)}H{c(end)}"])


def _bars(bins: Mapping[int, float], lane: Lane) -> str:
    """Bars as high as gpus are many; each says how many they are and where."""
    most = max(bins.values(), default=1)
    return "".join(_bar(number, bins[number], most, lane) for number in sorted(bins) if bins[number] >= LEAST_COUNT)


def _bar(number: int, gpus: float, most: float, lane: Lane) -> str:
    x = lane.axis.start + number * _BIN
    height = max(_LOWEST_BAR, (lane.height - 4) * gpus / most)
    low, high = (_deviation_at(edge, lane.axis) for edge in (x, x + _BIN))
    count = round(gpus)
    says = f"{counted(count, 'gpu')} from {signed_percent(low)} to {signed_percent(high)}"
    bar = [
        f"M{c(x)} {c(lane.bottom)}",
        f"v{c(-height)}h{c(_BIN - 0.6)}",
        f"v{c(height)}z",
    ]
    return titled(says, path("fr-bar", bar))


def _deviation_at(x: float, axis: Axis) -> float:
    return axis.low + (x - axis.start) / (axis.end - axis.start) * (axis.high - axis.low)
