"""
What answers say in numbers: (who, in which roof, what) beside the number and the address that says it.

The law of one truth is then one sentence: what is said of the same has the same number, wherever it is said.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Json = Mapping[str, Any]

_FIGURES = ("n", "median", "q1", "q3", "p5", "p95")
_BAND = ("n", "median", "scale", "lowest", "limit")

# Numbers of one evaluation are the very same; what is worked out from them again may differ in the last bits.
_ROUNDING = 1e-9


class Number(NamedTuple):
    """A number, None where there is none, and how far from the exact one it may be as it was written."""

    value: float | None
    within: float = 0.0

    def agrees(self, other: Number) -> bool:
        """Whether both can be the same number."""
        if self.value is None or other.value is None:
            return self.value is other.value
        apart = abs(self.value - other.value)
        return apart <= self.within + other.within + _ROUNDING * max(1.0, abs(self.value))


class Roof(NamedTuple):
    """A judged roof by what sets it apart in an answer; the kernel is left out, since not every answer has it."""

    kind: str
    dtype: str
    out_dtype: str | None
    fast_accumulation: bool | None
    regime: str


class Said(NamedTuple):
    """
    One number of one answer.

    Attributes:
        of: `gpu` and its id with the method, or `cohort` and its conditions.
        what: name of the number.
        where: the question that was asked.
    """

    of: tuple[str, ...]
    roof: Roof | None
    what: str
    number: Number
    where: str


def contradictions(said: Iterable[Said]) -> list[str]:
    """Numbers that are said of the same and differ, in a line each."""
    known: dict[tuple[Any, ...], Said] = {}
    lines = []
    for one in said:
        first = known.setdefault((one.of, one.roof, one.what), one)
        if not first.number.agrees(one.number):
            subject = " ".join(part for part in (*one.of[:2], *map(str, one.roof or ())) if part != "None")
            said_twice = f"{first.number.value} in {first.where!r}, {one.number.value} in {one.where!r}"
            lines.append(f"{subject}: {one.what} is {said_twice}")
    return lines


def subjects(said: Iterable[Said]) -> set[tuple[Any, ...]]:
    """Of whom, in which roofs, something is said."""
    return {(one.of, one.roof) for one in said}


def ridge_said(answer: Json, where: str) -> Iterator[Said]:
    """Numbers of `GET /devices/{name}/ridge`."""
    yield from cohorts_said(answer, where)
    yield from bands_said(answer["cohorts"], where)
    for row in answer["gpus"]:
        yield from roofs_said(row, where)
        if row["verdict"] is not None:
            yield Said(("gpu", row["gpu_id"]), None, "loss", Number(row["verdict"]["loss"]), where)


def cohorts_said(answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the groups of gpus of a device: `ridges` and `bandwidths` of an answer."""
    for ridge in answer["ridges"]:
        of, roof = _cohort(ridge["conditions"]), pi_roof(ridge)
        yield Said(of, roof, "n", Number(ridge["peers"]), where)
        yield from distribution_said(of, roof, "", ridge["pi_tflops"], where)
        yield from distribution_said(of, roof, "beta ", ridge["beta_gbps"], where)
        yield from distribution_said(of, roof, "I* ", ridge["ridge_flop_per_byte"], where)
    for bandwidth in answer["bandwidths"]:
        of, roof = _cohort(bandwidth["conditions"]), beta_roof(bandwidth)
        yield Said(of, roof, "n", Number(bandwidth["peers"]), where)
        yield from distribution_said(of, roof, "", bandwidth["beta_gbps"], where)


def bands_said(cohorts: Iterable[Json], where: str) -> Iterator[Said]:
    """What the gpus of each cohort, and of each level in it, are held against."""
    for cohort in cohorts:
        of, roof = _cohort(cohort["conditions"]), named_roof(cohort["roof"])
        for number, band in enumerate(cohort["bands"]):
            for name in _BAND:
                yield Said(of, roof, f"band {number} {name}", Number(band[name]), where)


def roofs_said(row: Json, where: str) -> Iterator[Said]:
    """Numbers of one gpu in a list or by itself: `worst`, `ridges` and `bandwidths`."""
    gpu_id = row["gpu_id"]
    for ridge in row["ridges"]:
        of, roof = _gpu(gpu_id, ridge["method"]), pi_roof(ridge)
        yield from _beside_peers(of, roof, ridge, "pi_", "_tflops", where)
        yield Said(of, roof, "reports", Number(ridge["reports"]), where)
        yield Said(of, roof, "beta", Number(ridge["beta_gbps"]), where)
        yield Said(of, roof, "beta median", Number(ridge["beta_median_gbps"]), where)
        yield Said(of, roof, "I*", Number(ridge["ridge_flop_per_byte"]), where)
    for bandwidth in row["bandwidths"]:
        of, roof = _gpu(gpu_id, bandwidth["method"]), beta_roof(bandwidth)
        yield from _beside_peers(of, roof, bandwidth, "beta_", "_gbps", where)
        yield Said(of, roof, "reports", Number(bandwidth["reports"]), where)
    worst = row["worst"]
    if worst is not None:
        of, roof = worst_of(row)
        for name, what in (("value", "value"), ("median", "median"), ("deviation", "deviation"), ("peers", "n")):
            yield Said(of, roof, what, Number(worst[name]), where)


def worst_of(row: Json) -> tuple[tuple[str, ...], Roof]:
    """Whom and which roof the `worst` of a row is about: the one of its roofs with that value."""
    worst = row["worst"]
    name = "pi_tflops" if worst["roof"] == "pi" else "beta_gbps"
    # Where bandwidths are not listed, a filter by roof took them out; then they are still those of the ridges.
    entries = row["ridges"] if worst["roof"] == "pi" or not row["bandwidths"] else row["bandwidths"]
    for own in entries:
        roof = pi_roof(own) if worst["roof"] == "pi" else Roof("memory", worst["dtype"], None, None, worst["regime"])
        if (roof.dtype, roof.regime, own[name]) == (worst["dtype"], worst["regime"], worst["value"]):
            return _gpu(row["gpu_id"], own["method"]), roof
    raise AssertionError(f"the worst roof of {row['gpu_id']} is none of those that are listed: {worst}")


def gpu_said(answer: Json, where: str) -> Iterator[Said]:
    """Numbers of `GET /gpus/{gpu_id}`."""
    yield from roofs_said(answer, where)
    verdict = answer["verdict"]
    if verdict is None:
        return
    yield Said(("gpu", answer["gpu_id"]), None, "loss", Number(verdict["worst_loss"]), where)
    for own in verdict["roofs"]:
        of, roof = _gpu(answer["gpu_id"], own["conditions"]["method"]), named_roof(own["roof"])
        yield Said(of, roof, "value", Number(own["value"]), where)
        for name in ("loss", "z", "q"):
            yield Said(of, roof, name, Number(own[name]), where)
        for name in _BAND:
            yield Said(of, roof, f"band {name}", Number(own["band"][name]), where)


def node_said(answer: Json, where: str) -> Iterator[Said]:
    """Numbers of `GET /nodes/{name}`."""
    for row in answer["gpus"]:
        if row["verdict"] is not None:
            yield Said(("gpu", row["gpu_id"]), None, "loss", Number(row["verdict"]["loss"]), where)


def workloads_said(answer: Json, ridge: Json, where: str) -> Iterator[Said]:
    """
    Numbers of `GET /devices/{name}/workloads`: of the groups of gpus, and of the slowest of each.

    A group of workloads has only gpus with both rates; where all of the cohort have, its pi is the cohort's, which the
    answer about ridges tells.
    """
    whole = {
        (_cohort(own["conditions"]), pi_roof(own))
        for own in ridge["ridges"]
        if own["beta_gbps"] is not None and own["beta_gbps"]["n"] == own["peers"]
    }
    for group in answer["ridges"]:
        of, roof = _cohort(group["conditions"]), pi_roof(group)
        if (of, roof) in whole:
            yield from distribution_said(of, roof, "", group["pi_tflops"], where)
        yield from distribution_said(of, roof, "beta ", group["beta_gbps"], where)
        yield from distribution_said(of, roof, "I* ", group["ridge_flop_per_byte"], where)
        yield from slowest_said(group, where)


def slowest_said(group: Json, where: str) -> Iterator[Said]:
    """Numbers of the slowest gpu of a group of workloads."""
    slowest = group["slowest"]
    gpu, roof = _gpu(slowest["gpu_id"], group["conditions"]["method"]), pi_roof(group)
    yield Said(gpu, roof, "value", Number(slowest["pi_tflops"]), where)
    yield Said(gpu, roof, "beta", Number(slowest["beta_gbps"]), where)
    yield Said(gpu, roof, "I*", Number(slowest["ridge_flop_per_byte"]), where)


def comparison_said(answer: Json, where: str) -> Iterator[Said]:
    """
    Numbers of `GET /devices/{name}/compare`.

    Its groups together are the cohort, and a group alone is.
    """
    for compared in answer["roofs"]:
        of, roof = _cohort(compared["conditions"]), named_roof(compared["roof"])
        groups = compared["groups"]
        if compared["left_out"] == 0:
            yield Said(of, roof, "n", Number(sum(group["values"]["n"] for group in groups)), where)
        if compared["left_out"] == 0 and len(groups) == 1:
            yield from distribution_said(of, roof, "", groups[0]["values"], where)


def distribution_said(of: tuple[str, ...], roof: Roof, name: str, found: Json | None, where: str) -> Iterator[Said]:
    """Six figures of a group, each called by `name` and its own."""
    for figure in _FIGURES:
        yield Said(of, roof, f"{name}{figure}", Number(None if found is None else found[figure]), where)


def strangers(row: Json, ridge: Json) -> list[str]:
    """Roofs of a gpu whose peers, by number and median, are those of no cohort of its device."""
    cohorts: dict[tuple[Roof, str], set[tuple[Any, Any]]] = defaultdict(set)
    for own in ridge["ridges"]:
        cohorts[pi_roof(own), own["conditions"]["method"]].add((own["peers"], own["pi_tflops"]["median"]))
    for own in ridge["bandwidths"]:
        cohorts[beta_roof(own), own["conditions"]["method"]].add((own["peers"], own["beta_gbps"]["median"]))
    said = [(pi_roof(own), own["method"], own["peers"], own["pi_median_tflops"]) for own in row["ridges"]]
    said += [(beta_roof(own), own["method"], own["peers"], own["beta_median_gbps"]) for own in row["bandwidths"]]
    return [
        f"{row['gpu_id']} {' '.join(map(str, roof))}: {n} peers with median {median}, cohorts: {cohorts[roof, method]}"
        for roof, method, n, median in said
        if (n, median) not in cohorts[roof, method]
    ]


def pi_roof(own: Json) -> Roof:
    """Roof of an entry of `ridges`."""
    return Roof("compute", own["dtype"], own["out_dtype"], own["fast_accumulation"], own["regime"])


def beta_roof(own: Json) -> Roof:
    """Roof of an entry of `bandwidths`."""
    return Roof("memory", own["dtype"], None, None, own["regime"])


def named_roof(own: Json) -> Roof:
    """Roof by its full name."""
    return Roof(own["kind"], own["dtype"], own["out_dtype"], own["fast_accumulation"], own["regime"])


def cohort_key(own: Json) -> tuple[str, ...]:
    """Whom an entry is about that has conditions."""
    return _cohort(own["conditions"])


def gpu_key(gpu_id: str, own: Json) -> tuple[str, ...]:
    """Whom an entry of a gpu is about."""
    return _gpu(gpu_id, own["method"])


def _beside_peers(of: tuple[str, ...], roof: Roof, own: Json, start: str, end: str, where: str) -> Iterator[Said]:
    yield Said(of, roof, "value", Number(own[f"{start}{end.removeprefix('_')}"]), where)
    yield Said(of, roof, "median", Number(own[f"{start}median{end}"]), where)
    yield Said(of, roof, "deviation", Number(own[f"{start}deviation"]), where)
    yield Said(of, roof, "n", Number(own["peers"]), where)


def _cohort(conditions: Json) -> tuple[str, ...]:
    return "cohort", json.dumps(conditions, sort_keys=True)


def _gpu(gpu_id: str, method: str | None) -> tuple[str, ...]:
    return "gpu", gpu_id, str(method)
