"""Which roofs are judged, and which are only shown."""

from __future__ import annotations

import pytest

from fleetridge.report import RoofKey
from fleetridge_server.engine.cohort import is_best_pi, is_judged
from support.readings import BETA, PI


@pytest.mark.parametrize(
    ("roof", "judged"),
    [
        (PI, True),
        (PI._replace(kernel=None), True),
        (PI._replace(kernel="gemm_best"), False),
        (BETA, True),
        (BETA._replace(kernel=None), True),
        (BETA._replace(kernel="copy"), False),
        (BETA._replace(level="l2"), False),
        (BETA._replace(level="pcie", kernel="h2d"), False),
        (BETA._replace(level="pcie"), False),
    ],
)
def test_only_roofs_that_are_measured_alike_everywhere_are_judged(roof: RoofKey, judged: bool) -> None:
    """The best of a search and the other streams are shown."""
    assert is_judged(roof) is judged


def test_the_best_of_a_search_is_told_by_its_kernel() -> None:
    """And it is a rate of multiplying."""
    roofs = [PI._replace(kernel="gemm_best"), PI, BETA._replace(kernel="gemm_best")]

    assert [is_best_pi(roof) for roof in roofs] == [True, False, False]
