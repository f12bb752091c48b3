"""
Score the reasons: how often the gpus with a fault are told what the simulator gave them.

    python bench/reasons.py [--rounds N] [--seed N] [--json FILE]

Two of 64 gpus lose 8 % at 0.5 % noise, or a node of 8, a rack of 32, or half of the fleet. What is expected to come
first must be the first reason; what says where, when or how must be among them. Ends with 1 if one kind is told right
less often than the goal.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the fleets of the tests

from fleetridge.report import RoofKey
from fleetridge.text_table import Column, text_table
from fleetridge_server.engine.evaluation import Evaluation, Fleet, evaluate
from fleetridge_server.engine.evidence import JudgedReport, RoofReading
from fleetridge_server.engine.explanation import Explanation, explanations
from fleetridge_server.engine.remedies import ReasonCode
from fleetridge_server.engine.upgrades import floors
from fleetridge_server.engine.values import by_gpu
from fleetridge_server.simulate.faults import Fault, FaultName
from support.drifts import gpu_drifts
from support.simulated_fleet import BETA, PI, FleetPlan, gpu_id, simulated_reports

_MONDAY = datetime(2026, 1, 5, tzinfo=timezone.utc)
_SEED = 7
_GPUS = 64
_GPUS_PER_NODE = 8
_GPUS_PER_RACK = 32
_FAULTY = 2
_NOISE = 0.005
_LOSS = 0.08
_COLLAPSE = 0.6
_REPORTS = 3
_GOAL = 0.95

_FLOAT16 = PI._replace(dtype="float16")
_LINK = RoofKey("memory", "uint8", None, None, "burst", "pcie", "h2d")
_LINK_GBPS = 55.0

Change = Callable[[JudgedReport, int, random.Random], JudgedReport]
"""What a kind of fault does to a report of a gpu that has it, beside the simulator's signs; the day counts from 0."""


@dataclass(frozen=True, slots=True)
class Kind:
    """
    A kind of fault and what must be told of it.

    Attributes:
        expected: reason of each faulty gpu, or notice of the fleet where `is_notice`.
        signs: by which the simulator shows it; None where only `change` does.
        change: of the reports of faulty gpus.
        is_first: whether the reason must be the first one.
        faulty: gpus that have it, next to each other from a multiple of their number on; two anywhere if None.
    """

    name: str
    expected: ReasonCode | str
    signs: FaultName | None = None
    change: Change | None = None
    is_first: bool = True
    is_notice: bool = False
    faulty: int | None = None
    gpus: int = _GPUS
    reports: int = _REPORTS
    everywhere: Change | None = None


def _with_pi(**readings: float) -> Change:
    """Other readings beside pi, as factors of what they are."""

    def change(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
        read = own.roofs[PI]
        scaled = {name: getattr(read, name) * factor for name, factor in readings.items()}
        return replace(own, roofs={**own.roofs, PI: replace(read, **scaled)})

    return change


def _old_cublas(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    return replace(own, factors=own.factors._replace(cublas="12.8.4"))


def _old_torch(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    return replace(own, factors=own.factors._replace(torch="2.7.1"))


def _narrow(own: JudgedReport, _day: int, rng: random.Random) -> JudgedReport:
    roofs = {**own.roofs, _LINK: RoofReading(_LINK_GBPS / 2 * rng.gauss(1, _NOISE), converged=True)}
    return replace(own, health=replace(own.health, pcie_width=8), roofs=roofs)


def _linked(own: JudgedReport, _day: int, rng: random.Random) -> JudgedReport:
    return replace(own, roofs={**own.roofs, _LINK: RoofReading(_LINK_GBPS * rng.gauss(1, _NOISE), converged=True)})


def _float16_too(own: JudgedReport, _day: int, rng: random.Random) -> JudgedReport:
    """A second dtype, which is as it should be."""
    return replace(own, roofs={**own.roofs, _FLOAT16: replace(own.roofs[PI], value=800 * rng.gauss(1, _NOISE))})


def _now_and_then(own: JudgedReport, day: int, _rng: random.Random) -> JudgedReport:
    return _with_pi(value=1 - _COLLAPSE)(own, day, _rng) if day % 4 == 1 else own


def _since_the_middle(own: JudgedReport, day: int, _rng: random.Random) -> JudgedReport:
    return _with_pi(value=1 - _LOSS)(own, day, _rng) if day >= 12 else own  # noqa: PLR2004 # of 24 days


def _hot(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    read = own.roofs[PI]
    hot = replace(read, temperature_c=90.0, sm_clock_mhz=(read.sm_clock_mhz or 0) * (1 - _LOSS))
    return replace(own, roofs={**own.roofs, PI: hot})


def _hot_a_little(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    """A quarter of the loss is the clock's."""
    read = own.roofs[PI]
    hot = replace(read, temperature_c=90.0, sm_clock_mhz=(read.sm_clock_mhz or 0) * (1 - _LOSS / 4))
    return replace(own, roofs={**own.roofs, PI: hot})


def _without_clocks(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    return replace(own, roofs={roof: replace(read, sm_clock_mhz=None) for roof, read in own.roofs.items()})


def _capped_unseen(own: JudgedReport, day: int, rng: random.Random) -> JudgedReport:
    return _without_clocks(_with_pi(power_w=0.75)(own, day, rng), day, rng)


def _clocked_down(own: JudgedReport) -> JudgedReport:
    read = own.roofs[PI]
    slower = replace(read, sm_clock_mhz=(read.sm_clock_mhz or 0) * (1 - _LOSS))
    return replace(own, roofs={**own.roofs, PI: slower})


def _bit_alone(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    """Heat that the driver shows and does not count."""
    return _clocked_down(replace(own, health=replace(own.health, throttle_reasons=["hw_thermal_slowdown"])))


def _clocks_set(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    return _clocked_down(replace(own, health=replace(own.health, application_sm_clock_mhz=1380.0)))


def _clocks_known(own: JudgedReport, _day: int, _rng: random.Random) -> JudgedReport:
    return replace(own, health=replace(own.health, application_sm_clock_mhz=1980.0))


def _hot_and_old(own: JudgedReport, day: int, rng: random.Random) -> JudgedReport:
    return _hot(_old_torch(own, day, rng), day, rng)


KINDS: Sequence[Kind] = (
    Kind("power limit lower", "power_limit_lower", "power_cap"),
    Kind("power draw lower, no clocks", "power_draw_lower", "silent", _capped_unseen, everywhere=_without_clocks),
    Kind("less power at full clock", "waits_for_work", "silent", _with_pi(power_w=0.75)),
    Kind("hot, but that is little", "not_explained", "silent", _hot_a_little),
    Kind("thermal counter", "thermal", "thermal"),
    Kind("thermal bit, not counted", "thermal", "silent", _bit_alone),
    Kind("hot, and an older torch", "thermal", "silent", _hot_and_old),
    Kind("hotter, no counters", "thermal", "silent", _hot),
    Kind("power brake", "power_brake", "power_brake"),
    Kind("clock lower", "clock_lower", "low_clock"),
    Kind("application clock", "clock_lower", "silent", _clocks_set, everywhere=_clocks_known),
    Kind("per GHz normal", "clocks_explain", "low_clock", is_first=False),
    Kind("per GHz low", "clocks_do_not_explain", "silent", is_first=False),
    Kind("memory clock lower", "memory_clock_lower", "slow_memory"),
    Kind("ECC differs", "ecc_differs", "ecc"),
    Kind("remapped rows pending", "remapped_rows_pending", "remapped_rows"),
    Kind("PCIe narrower", "pcie_slower", None, _narrow, everywhere=_linked),
    Kind("driver differs", "software_differs", "old_driver"),
    Kind("cuBLAS differs", "software_differs", "silent", _old_cublas),
    Kind("torch differs", "software_differs", "silent", _old_torch),
    Kind("falling within run", "falling_within_run", "falling"),
    Kind("no sign", "not_explained", "silent"),
    Kind("no sign but a narrow link", "not_explained", "silent", _narrow, everywhere=_linked),
    Kind("single gpu", "alone", "silent", is_first=False),
    Kind("only one dtype", "only_one_dtype", "silent", is_first=False, everywhere=_float16_too),
    Kind("whole node", "whole_node", "silent", is_first=False, faulty=_GPUS_PER_NODE),
    Kind("whole node waits", "whole_node", "silent", _with_pi(power_w=0.75), faulty=_GPUS_PER_NODE),
    Kind("whole rack", "whole_rack", "silent", is_first=False, faulty=_GPUS_PER_RACK, gpus=6 * _GPUS_PER_RACK),
    Kind("now and then", "intermittent", None, _now_and_then, is_first=False, reports=10),
    Kind("since some day", "drifted", None, _since_the_middle, is_first=False, reports=24),
    Kind("two products of one name", "mixed_products", "silent", is_notice=True, faulty=_GPUS // 2),
)


def told(kind: Kind, rounds: int, seed: int) -> Counter[str]:
    """How often each reason came first, or the expected one was among them; "not accused" for gpus not found."""
    rng = random.Random(seed)  # noqa: S311 # a simulation
    found: Counter[str] = Counter()
    for _ in range(rounds):
        positions = faulty_positions(kind, rng)
        evaluation, said = _said(list(kind_reports(kind, positions, rng)), kind.reports)
        if kind.is_notice:
            found[_notice(evaluation)] += 1
            continue
        found.update(_word(kind, said.get(gpu_id(position))) for position in positions)
    return found


def faulty_positions(kind: Kind, rng: random.Random) -> list[int]:
    """Which gpus of a fleet have the fault."""
    if kind.faulty is None:
        # Two of one node would not be alone in it.
        nodes = rng.sample(range(kind.gpus // _GPUS_PER_NODE), _FAULTY)
        return [node * _GPUS_PER_NODE + rng.randrange(_GPUS_PER_NODE) for node in nodes]
    first = kind.faulty * rng.randrange(kind.gpus // kind.faulty)
    return list(range(first, first + kind.faulty))


def kind_reports(kind: Kind, positions: Sequence[int], rng: random.Random) -> Iterator[JudgedReport]:
    """Reports of a fleet some of whose gpus have the fault, a day apart from the first Monday of 2026 on."""
    faults = {} if kind.signs is None else {position: Fault(kind.signs, _LOSS) for position in positions}
    faulty = {gpu_id(position) for position in positions}
    for report in simulated_reports(FleetPlan(kind.gpus, _NOISE, faults, reports=kind.reports), _MONDAY, rng):
        day = (report.ordered_at - _MONDAY).days
        own = report if kind.everywhere is None else kind.everywhere(report, day, rng)
        yield kind.change(own, day, rng) if kind.change is not None and own.gpu_id in faulty else own


def _said(reports: Sequence[JudgedReport], days: int) -> tuple[Evaluation, dict[str, list[Explanation]]]:
    as_of = _MONDAY + timedelta(days=days)
    histories = by_gpu(reports, as_of)
    cohort_floors = floors(histories, as_of)
    drifts = {gpu: gpu_drifts(own, cohort_floors) for gpu, own in histories.items()}
    evaluation = evaluate(Fleet(reports, drifts=drifts), as_of)
    return evaluation, explanations(evaluation, drifts)


def _notice(evaluation: Evaluation) -> str:
    if any(state.is_flagged for state in evaluation.states.values()):
        return "somebody accused"
    kinds = {notice.kind for notice in evaluation.notices if notice.cohort is None or notice.cohort.roof in (PI, BETA)}
    return kinds.pop() if len(kinds) == 1 else f"{len(kinds)} notices"


def _word(kind: Kind, own: Sequence[Explanation] | None) -> str:
    if not own:
        return "not accused"
    codes = [reason.code for reason in own[0].reasons]
    return kind.expected if not kind.is_first and kind.expected in codes else codes[0]


def main() -> int:
    """Score every kind of fault."""
    parser = argparse.ArgumentParser(description="Score the reasons on simulated fleets.")
    parser.add_argument("--rounds", type=int, default=100, help="fleets of each kind of fault")
    parser.add_argument("--seed", type=int, default=_SEED, help="of the simulated fleets")
    parser.add_argument("--json", type=Path, help="also write the result here")
    options = parser.parse_args()
    rows: list[list[str]] = []
    shares: dict[str, float] = {}
    for kind in KINDS:
        # A node or a rack tells as many gpus at once.
        fleets = options.rounds if kind.is_notice else options.rounds * _FAULTY // (kind.faulty or _FAULTY)
        found = told(kind, max(1, fleets), options.seed)
        shares[kind.name] = found[kind.expected] / found.total()
        others = ", ".join(f"{name} {times}" for name, times in found.most_common() if name != kind.expected)
        place = "notice" if kind.is_notice else "first" if kind.is_first else "among them"
        rows.append([kind.name, kind.expected, place, f"{shares[kind.name]:.1%}", f"{found.total()}", others])
    columns = [Column(name, align="left") for name in ("fault", "to be told", "where")]
    print(text_table([*columns, Column("right"), Column("of"), Column("else", align="left")], rows, width=120))
    print(f"goal: {_GOAL:.0%} each; gpus lose {_LOSS:.0%}, noise {_NOISE:.1%}")
    if options.json is not None:
        options.json.write_text(json.dumps(shares, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0 if min(shares.values()) >= _GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
