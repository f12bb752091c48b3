"""The curves of a roofline: those of the gpus, of their medians, and of the maker."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fleetridge_server.compare.stats import Distribution
from fleetridge_server.drawing.gpu import DrawnGpu
from fleetridge_server.drawing.marks import is_noted
from fleetridge_server.drawing.placing import LINE
from fleetridge_server.drawing.roofline_chart import FleetRoof, GpuRoof, RooflineChart
from fleetridge_server.drawing.roofline_plane import Plane
from fleetridge_server.drawing.svg import coordinate, element, group, path, words
from fleetridge_server.verdict.state import ACCUSING

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
    return element(
        "g", {"transform": f"translate({coordinate(x)} {coordinate(y)}) rotate({coordinate(-degrees)})"}, *lines
    )


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
    return f"{plane.slope(own.pi_tflops, own.beta_gbps)}H{coordinate(plane.right)}"


def _bands(pi: Distribution, beta: Distribution | None, plane: Plane) -> str:
    """Areas between the 5th and the 95th percentile of the gpus' roofs, and between their quartiles."""
    areas = (("p95", "p5"), ("q3", "q1"))
    return "".join(_band(_corner(pi, beta, upper, plane), _corner(pi, beta, lower, plane)) for upper, lower in areas)


def _band(upper: Sequence[tuple[float, float]], lower: Sequence[tuple[float, float]]) -> str:
    points = (*upper, *reversed(lower))
    return path("fr-band", [f"M{'L'.join(f'{coordinate(x)} {coordinate(y)}' for x, y in points)}z"])


def _corner(pi: Distribution, beta: Distribution | None, figure: str, plane: Plane) -> list[tuple[float, float]]:
    """Points of the line under a pair of roofs, each the same figure of its distribution."""
    pi_tflops, beta_gbps = getattr(pi, figure), None if beta is None else getattr(beta, figure)
    x, y = plane.ridge(pi_tflops, beta_gbps)
    start = [] if beta_gbps is None else [plane.foot(beta_gbps)]
    return [*start, (x, y), (plane.right, y)]
