"""The plane of a roofline, and the roofs on it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fleetridge.roofline import Bound, attainable_tflops, ridge_flop_per_byte
from fleetridge_server.engine.gpu_state import ACCUSING
from fleetridge_server.engine.statistics import Distribution
from fleetridge_server.web.charts.axes import LINE, LogAxis
from fleetridge_server.web.charts.svg import coordinate as c
from fleetridge_server.web.charts.svg import element, group, path, words
from fleetridge_server.web.charts.symbols import DrawnGpu, is_noted


@dataclass(frozen=True, slots=True)
class GpuRoof:
    """Roofs of one gpu in the dtype and regime of a fleet roof; beta None where it has none that fits."""

    gpu: DrawnGpu
    pi_tflops: float
    beta_gbps: float | None


@dataclass(frozen=True, slots=True)
class FleetRoof:
    """
    Median roofs of the gpus that may be compared in one dtype and regime.

    Attributes:
        dtype: what is multiplied, with its variant where that is unusual; equal words share a colour.
        regime: `burst`, `sustained` or `unspecified`.
        gpus: all that are behind the medians; of a large fleet those that deserve a look, or none.
        pi_spread, beta_spread: of all that are behind the medians, which are bands where they are many.
        ridge_median: median of the gpus' own ridges in FLOP/byte, which answers state; None takes that of the medians.
    """

    dtype: str
    regime: str
    pi_tflops: float
    beta_gbps: float | None
    gpus: tuple[GpuRoof, ...] = ()
    ridge_median: float | None = None
    pi_spread: Distribution | None = None
    beta_spread: Distribution | None = None

    @property
    def ridge(self) -> float | None:
        """Ridge point in FLOP/byte; None without a beta."""
        if self.beta_gbps is None:
            return None
        return self.ridge_median or ridge_flop_per_byte(self.pi_tflops, self.beta_gbps)


@dataclass(frozen=True, slots=True)
class PublishedPi:
    """Published compute peak of a dtype."""

    dtype: str
    pi_tflops: float


@dataclass(frozen=True, slots=True)
class WorkloadMark:
    """A workload, and what it reaches under the median roofs of a dtype."""

    name: str
    intensity: float
    attainable_tflops: float
    bound: Bound


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """A measured shape: intensity in FLOP/byte over compulsory traffic, and rate."""

    label: str
    intensity: float
    tflops: float


@dataclass(frozen=True, slots=True)
class RooflineChart:
    """What is drawn; every number positive and finite."""

    title: str
    roofs: tuple[FleetRoof, ...]
    published_pi: tuple[PublishedPi, ...] = ()
    published_beta_gbps: float | None = None
    workloads: tuple[WorkloadMark, ...] = ()
    points: tuple[MeasuredPoint, ...] = ()


# Air around the outermost values, in decades.
_AIR_DECADES = 0.2
_AIR_ABOVE_DECADES = 0.1
_FEWEST_X_DECADES = 2.0
_FEWEST_Y_DECADES = 1.0

# 1 TFLOP/s is 1000 times 1 GB/s × 1 FLOP/byte.
_LOG_GBPS_TO_TFLOPS = -3.0

# Where nothing has an intensity, the range in which kernels lie.
_INTENSITIES_ALONE = (1.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Plane:
    """Axes of a plot, y upwards."""

    x: LogAxis
    y: LogAxis

    @property
    def left(self) -> float:
        """Left edge in user units."""
        return self.x.start

    @property
    def right(self) -> float:
        """Right edge."""
        return self.x.end

    @property
    def top(self) -> float:
        """Upper edge."""
        return self.y.end

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.y.start

    def foot(self, beta_gbps: float) -> tuple[float, float]:
        """Where the slope of a bandwidth enters the plane: at its left edge, or at its lower one."""
        log_x = max(self.x.low, self.y.low - math.log10(beta_gbps) - _LOG_GBPS_TO_TFLOPS)
        return self.x.at_log(log_x), self.y.at_log(math.log10(beta_gbps) + log_x + _LOG_GBPS_TO_TFLOPS)

    def ridge(self, pi_tflops: float, beta_gbps: float | None) -> tuple[float, float]:
        """Where both roofs meet; without a bandwidth the left end of the flat one."""
        y = self.y.at(pi_tflops)
        if beta_gbps is None:
            return self.left, y
        return self.x.at_log(math.log10(pi_tflops) - math.log10(beta_gbps) - _LOG_GBPS_TO_TFLOPS), y

    def flat(self, pi_tflops: float, beta_gbps: float | None) -> str:
        """Commands of a compute roof, from its ridge to the right."""
        x, y = self.ridge(pi_tflops, beta_gbps)
        return f"M{c(x)} {c(y)}H{c(self.right)}"

    def slope(self, pi_tflops: float, beta_gbps: float) -> str:
        """Commands of a memory roof, up to its ridge with a compute roof."""
        (x, y), (ridge_x, ridge_y) = self.foot(beta_gbps), self.ridge(pi_tflops, beta_gbps)
        return f"M{c(x)} {c(y)}L{c(ridge_x)} {c(ridge_y)}"


def plane_of(chart: RooflineChart, left: float, right: float, top: float, bottom: float) -> Plane:
    """Axes that hold every roof, ridge, workload and point of a chart with at least one roof."""
    xs = [roof.ridge for roof in chart.roofs if roof.ridge is not None]
    xs += [own.intensity for own in chart.workloads] + [own.intensity for own in chart.points]
    x_low, x_high = _widened(xs or list(_INTENSITIES_ALONE), _FEWEST_X_DECADES, _AIR_DECADES, _AIR_DECADES)
    ys = [roof.pi_tflops for roof in chart.roofs] + [peak.pi_tflops for peak in chart.published_pi]
    ys += [own.pi_tflops for roof in chart.roofs for own in roof.gpus]
    ys += [own.attainable_tflops for own in chart.workloads] + [own.tflops for own in chart.points]
    ys += [
        attainable_tflops(10**x_low, pi_tflops=roof.pi_tflops, beta_gbps=roof.beta_gbps)
        for roof in chart.roofs
        if roof.beta_gbps is not None
    ]
    y_low, y_high = _widened(ys, _FEWEST_Y_DECADES, 0.0, _AIR_ABOVE_DECADES)
    return Plane(LogAxis(x_low, x_high, left, right), LogAxis(y_low, y_high, bottom, top))


def _widened(values: list[float], fewest_decades: float, below: float, above: float) -> tuple[float, float]:
    low, high = math.log10(min(values)) - below, math.log10(max(values)) + above
    lacking = max(0.0, fewest_decades - (high - low))
    return low - lacking / 2, high + lacking / 2


# With more gpus their lines are one band to the eye, and too many bytes.
MOST_LINES = 200

# Two pixels on these axes; what lies closer cannot be told from its peers here, but on the strips.
_VISIBLE_LOSS = 0.03
_MOST_NAMED = 4
_HUES = 6


def hue(chart: RooflineChart, dtype: str) -> str:
    """Class with the colour of a dtype, by its place among those of the chart."""
    dtypes = sorted({roof.dtype for roof in chart.roofs} | {peak.dtype for peak in chart.published_pi})
    return f"fr-hue-{dtypes.index(dtype) % _HUES}"


def slowest(chart: RooflineChart) -> list[tuple[FleetRoof, GpuRoof]]:
    """The gpus that are named: each in the roof in which it lost most, the worst first."""
    return _slow_of(chart)[:_MOST_NAMED]


def slopes(chart: RooflineChart) -> list[tuple[str, float]]:
    """Distinct memory roofs with the words for them, the fastest first; regimes of the same speed share one."""
    named: dict[float, set[str]] = {}
    for roof in chart.roofs:
        if roof.beta_gbps is not None:
            named.setdefault(roof.beta_gbps, set()).add(roof.regime)
    every = {regime for regimes in named.values() for regime in regimes}
    found = [
        ("beta " if regimes == every else f"beta {' and '.join(sorted(regimes))} ", beta)
        for beta, regimes in named.items()
    ]
    if chart.published_beta_gbps is not None:
        found.append(("published ", chart.published_beta_gbps))
    return sorted(found, key=lambda slope: (-slope[1], slope[0]))


def along_slope(said: Sequence[str], x: float, y: float, rise: float) -> str:
    """Lines of words above a slope that starts at a place and rises so much for each unit to the right."""
    degrees = math.degrees(math.atan(rise))
    # Higher lines start further right, so that all start on one vertical.
    heights = [8 + LINE * 0.9 * above for above in range(len(said))]
    lines = (
        words(line, 12 + height * rise, -height, "fr-halo fr-aside")
        for height, line in zip(heights, reversed(said), strict=True)
    )
    return element("g", {"transform": f"translate({c(x)} {c(y)}) rotate({c(-degrees)})"}, *lines)


def peers(chart: RooflineChart, plane: Plane) -> str:
    """Every gpu's roofs, faint; many as bands, of the dtype alone whose gpus are drawn."""
    return "".join(group(hue(chart, roof.dtype), _peers(roof, plane)) for roof in chart.roofs)


def medians(chart: RooflineChart, plane: Plane) -> str:
    """Median roofs: slopes in ink, as they belong to no dtype, then the flat ones."""
    flats = [
        group(hue(chart, roof.dtype), _drawn_line(roof.regime, plane.flat(roof.pi_tflops, roof.beta_gbps)))
        for roof in sorted(chart.roofs, key=lambda roof: (roof.pi_tflops, roof.dtype))
    ]
    rising = [_drawn_line(regime, plane.slope(pi, beta)) for beta, regime, pi in _medians_of_memory(chart)]
    return group("fr-ink", *rising) + "".join(flats)


def _medians_of_memory(chart: RooflineChart) -> list[tuple[float, str, float]]:
    """Each bandwidth once with its regime, burst before others, and the highest compute roof that it meets."""
    found: dict[float, tuple[str, float]] = {}
    for roof in chart.roofs:
        if roof.beta_gbps is not None:
            regime, pi = found.get(roof.beta_gbps, (roof.regime, 0.0))
            found[roof.beta_gbps] = (min(regime, roof.regime), max(pi, roof.pi_tflops))
    return [(beta, regime, pi) for beta, (regime, pi) in sorted(found.items())]


def _drawn_line(regime: str, commands: str) -> str:
    # On paper of its own, as dashes over their peers would look like one line.
    under = path("fr-under", [commands]) if regime == "sustained" else ""
    return under + path(f"fr-line fr-{regime}", [commands])


def published(chart: RooflineChart, plane: Plane) -> str:
    """What the maker says."""
    beta = chart.published_beta_gbps
    flats = "".join(
        group(hue(chart, peak.dtype), path("fr-line fr-dashed", [plane.flat(peak.pi_tflops, beta)]))
        for peak in chart.published_pi
    )
    if beta is None:
        return flats
    top = max((peak.pi_tflops for peak in chart.published_pi), default=max(roof.pi_tflops for roof in chart.roofs))
    return flats + group("fr-ink", path("fr-line fr-dashed", [plane.slope(top, beta)]))


def slow(chart: RooflineChart, plane: Plane) -> str:
    """Roofs of the gpus that are named, over those of their peers."""
    return "".join(path(kind_of(own), [_lost(roof, own, plane)]) for roof, own in slowest(chart))


def kind_of(own: GpuRoof) -> str:
    """Class of the line of a gpu that is named: one that nobody accuses is there because the chart is about it."""
    return "fr-slow" if own.gpu.state in ACCUSING else "fr-own"


def _lost(roof: FleetRoof, own: GpuRoof, plane: Plane) -> str:
    """A gpu's flat roof; its slope only where that lies apart from its peers', which it would cover."""
    flat = plane.flat(own.pi_tflops, own.beta_gbps)
    if own.beta_gbps is None or roof.beta_gbps is None or own.beta_gbps > roof.beta_gbps * (1 - _VISIBLE_LOSS):
        return flat
    return plane.slope(own.pi_tflops, own.beta_gbps) + flat


def _slow_of(chart: RooflineChart) -> list[tuple[FleetRoof, GpuRoof]]:
    worst: dict[DrawnGpu, tuple[float, FleetRoof, GpuRoof]] = {}
    noted = ((roof, own) for roof in chart.roofs for own in roof.gpus if is_noted(own.gpu))
    for roof, own in noted:
        loss = _loss(roof, own)
        shows = own.gpu.highlighted or loss >= _VISIBLE_LOSS
        if shows and loss > worst.get(own.gpu, (-math.inf,))[0]:
            worst[own.gpu] = (loss, roof, own)
    ordered = sorted(worst.values(), key=lambda found: (not found[2].gpu.highlighted, -found[0], found[2].gpu.label))
    return [(roof, own) for _, roof, own in ordered]


def _loss(roof: FleetRoof, own: GpuRoof) -> float:
    losses = [1 - own.pi_tflops / roof.pi_tflops]
    if own.beta_gbps is not None and roof.beta_gbps is not None:
        losses.append(1 - own.beta_gbps / roof.beta_gbps)
    return max(losses)


def _peers(roof: FleetRoof, plane: Plane) -> str:
    pi = roof.pi_spread
    return _bands(pi, roof.beta_spread, plane) if pi is not None and pi.n > MOST_LINES else _lines(roof, plane)


def _lines(roof: FleetRoof, plane: Plane) -> str:
    # Gpus whose lines fall on the same tenth of a unit are one line.
    return path("fr-faint", sorted({_whole(own, plane) for own in roof.gpus}))


def _whole(own: GpuRoof, plane: Plane) -> str:
    if own.beta_gbps is None:
        return plane.flat(own.pi_tflops, None)
    return f"{plane.slope(own.pi_tflops, own.beta_gbps)}H{c(plane.right)}"


def _bands(pi: Distribution, beta: Distribution | None, plane: Plane) -> str:
    """Areas between the 5th and the 95th percentile of the gpus' roofs, and between their quartiles."""
    areas = (("p95", "p5"), ("q3", "q1"))
    return "".join(_band(_corner(pi, beta, upper, plane), _corner(pi, beta, lower, plane)) for upper, lower in areas)


def _band(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    points = (*upper, *reversed(lower))
    return path("fr-band", [f"M{'L'.join(f'{c(x)} {c(y)}' for x, y in points)}z"])


def _corner(pi: Distribution, beta: Distribution | None, figure: str, plane: Plane) -> list[tuple[float, float]]:
    """Points of the line under a pair of roofs, each the same figure of its distribution."""
    pi_tflops, beta_gbps = getattr(pi, figure), None if beta is None else getattr(beta, figure)
    x, y = plane.ridge(pi_tflops, beta_gbps)
    start = [] if beta_gbps is None else [plane.foot(beta_gbps)]
    return [*start, (x, y), (plane.right, y)]
