"""The figures of a device that an evaluation stores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetridge_server.engine.cohort import Cohort
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, RoofReading
from fleetridge_server.engine.gpu_state import Mark
from fleetridge_server.engine.ridge import Filter
from fleetridge_server.evaluation.figures import evaluated_figures, filtered_figures, peers_of
from fleetridge_server.verdicts.evaluation_shapes import FleetFigures
from support.judged import AS_OF, BETA, CONDITIONS, DAY, H2D, PI, fleet, reading, report, series

FP16 = PI._replace(dtype="float16")
SUSTAINED = PI._replace(regime="sustained")


def evaluated(*reports: JudgedReport, marks: tuple[Mark, ...] = ()) -> Evaluation:
    """An evaluation of some reports."""
    return evaluate(Fleet(reports, marks=marks), AS_OF)


def figures(*reports: JudgedReport) -> FleetFigures:
    """Figures of some reports."""
    return evaluated_figures(evaluated(*reports), "H200")


def with_roofs(gpu: str, **values: float) -> JudgedReport:
    """A report with roofs by their names in this file."""
    keys = {"pi": PI, "fp16": FP16, "sustained": SUSTAINED, "beta": BETA, "h2d": H2D}
    return replace(report(gpu), roofs={keys[name]: reading(value) for name, value in values.items()})


def test_n_and_median_are_those_of_the_band() -> None:
    """Three runs of each gpu make one value."""
    evaluation = evaluated(*fleet([790.0, 800.0, 805.0, 810.0, 802.0], runs=3))
    [limits] = {verdict.limits for own in evaluation.verdicts.values() for verdict in own}

    [ridge] = evaluated_figures(evaluation, "H200").ridges

    assert (ridge.peers, ridge.pi_tflops.n, ridge.pi_tflops.median) == (5, limits.n, limits.median)


def test_who_was_not_measured_lately_is_not_among_the_peers() -> None:
    """Its verdict does not move the median, so its value does not either."""
    old = replace(report("old", 100.0), ordered_at=AS_OF - 40 * DAY)

    [ridge] = figures(*fleet([800.0] * 4), old).ridges

    assert (ridge.peers, ridge.pi_tflops.p5) == (4, 800.0)


def test_a_fleet_that_nobody_measured_lately_is_described_by_what_there_is() -> None:
    """Old figures are better than none; every gpu is stale, and said to be."""
    old = [replace(own, ordered_at=AS_OF - 40 * DAY) for own in fleet([800.0, 810.0, 820.0])]

    [ridge] = figures(*old).ridges

    assert (ridge.peers, ridge.pi_tflops.median) == (3, 810.0)


def test_each_gpus_ridge_is_made_with_its_own_bandwidth() -> None:
    """The distribution of ratios, not a ratio of medians; who has no bandwidth has no ridge."""
    reports = [
        with_roofs("a", pi=100.0, beta=1000.0),
        with_roofs("b", pi=200.0, beta=4000.0),
        with_roofs("c", pi=300.0, beta=1500.0),
        with_roofs("d", pi=400.0),
    ]

    [ridge] = figures(*reports).ridges

    assert ridge.ridge_flop_per_byte is not None
    assert (ridge.ridge_flop_per_byte.median, ridge.ridge_flop_per_byte.n) == (pytest.approx(100.0), 3)
    assert ridge.beta_gbps is not None
    assert (ridge.beta_gbps.median, ridge.pi_tflops.median) == (1500.0, 250.0)


def test_a_sustained_product_goes_with_a_burst_of_memory() -> None:
    """Where memory was read in bursts only."""
    [_, sustained] = figures(*(with_roofs(gpu, pi=800.0, sustained=700.0, beta=4400.0) for gpu in "abcd")).ridges

    assert sustained.regime == "sustained"
    assert sustained.beta_gbps is not None
    assert sustained.beta_gbps.median == 4400.0


def test_links_and_implausible_readings_are_no_figures() -> None:
    """The former are not compared here, the latter move nothing."""
    wild = replace(report("wild"), roofs={PI: RoofReading(9999.0, implausible=True)})

    found = figures(*(with_roofs(gpu, pi=800.0, beta=4400.0, h2d=55.0) for gpu in "abcd"), wild)

    assert [own.pi_tflops.p95 for own in found.ridges] == [800.0]
    assert [own.roof.level for own in found.cohorts] == ["device", "device"]


def test_retired_gpus_are_left_out() -> None:
    """Nobody holds anything against them."""
    gone = Mark("retired", "returned", made_at=AS_OF - DAY, gpu_id="slow")
    evaluation = evaluated(*fleet([800.0] * 4), *series("slow", [100.0]), marks=(gone,))

    [ridge] = evaluated_figures(evaluation, "H200").ridges

    assert (ridge.peers, ridge.pi_tflops.p5) == (4, 800.0)


def test_every_cohort_has_a_hundred_steps_from_the_slowest_gpu_to_the_fastest() -> None:
    """From which a chart is drawn, whatever the number of gpus."""
    found = figures(*fleet([700.0 + number for number in range(101)]))

    [cohort] = found.cohorts
    assert cohort.quantiles == pytest.approx([700.0 + number for number in range(101)])
    assert peers_of(found) == {Cohort(PI, CONDITIONS): cohort.peers}


def test_a_filter_takes_the_figures_of_its_roofs() -> None:
    """Products and bandwidths alike."""
    found = figures(*(with_roofs(gpu, pi=800.0, fp16=810.0, beta=4400.0) for gpu in "abcd"))

    ridges, bandwidths = filtered_figures(found, Filter(dtype="float16"))

    assert ([own.dtype for own in ridges], bandwidths) == (["float16"], ())


def test_figures_can_be_read_back_from_what_is_stored() -> None:
    """As they were."""
    found = figures(*(with_roofs(gpu, pi=800.0, fp16=810.0, beta=4400.0) for gpu in "abcd"))

    assert FleetFigures.model_validate_json(found.model_dump_json()) == found
