"""
Numbers of answers for people: tables of text, CSV and pages, each beside the JSON answer that tells whose they are.

A text form has the rows of the JSON answer in its order, with numbers rounded; that is what is read here.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile

from support.html_pages import Page
from support.said import Json, Number, Roof, Said, beta_roof, cohort_key, gpu_key, named_roof, pi_roof, worst_of

_SIGNIFICANT_DIGITS_OF_CSV = 7

# As much as a half of the last digit, and what a binary number adds to a half.
_HALF = 0.5 * (1 + 1e-6)
_WRITTEN = re.compile(r"(?P<sign>[−+-]?)(?P<digits>\d+(?:\.(?P<decimals>\d+))?)(?:e(?P<exponent>[−+-]?\d+))?")
_DASHES = re.compile(r"-+(?:  -+)*")
_SUMMARY = re.compile(r"pi (\S+) TFLOP/s, beta (\S+) GB/s, I\* (\S+) FLOP/B; slowest (\S+) with pi (\S+)")


def written(cell: str) -> Number:
    """
    A number as people read it: "−17.1 %", "844 TFLOP/s", "1.03e−64", "–" for none.

    Raises:
        ValueError: there is no number in it.
    """
    if cell.strip() in ("–", ""):
        return Number(None)
    found = _WRITTEN.match(cell.strip())
    if found is None:
        raise ValueError(f"{cell!r} is no number")
    exponent = int((found["exponent"] or "0").replace("−", "-")) - 2 * cell.strip().endswith("%")
    value = float(f"{found['digits']}e{exponent}") * (-1 if found["sign"] in ("−", "-") else 1)
    return Number(value, _HALF * 10.0 ** (exponent - len(found["decimals"] or "")))


def text_table(text: str, *heading: str) -> list[list[str]]:
    """Cells of the table whose first columns are called so; none where there is no such table."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not _DASHES.fullmatch(line):
            continue
        spans = [found.span() for found in re.finditer("-+", line)]
        above = [[head[start:end].strip() for start, end in spans] for head in lines[max(0, number - 2) : number]]
        if any(tuple(cells[: len(heading)]) == heading for cells in above):
            rows = takewhile(str.strip, lines[number + 1 :])
            return [[row[start:end].strip() for start, end in spans] for row in rows]
    return []


def page_table(page: Page, rows: int, *heads: str) -> list[list[str]]:
    """So many rows below the heads of the table of a page that has these among its heads."""
    found = [number for number, row in enumerate(page.rows) if set(heads) <= set(row)]
    return page.rows[found[0] + 1 : found[0] + 1 + rows] if found else []


def ridge_text_said(text: str, answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the text about a device."""
    for own, row in zip(answer["ridges"], text_table(text, "ridge"), strict=True):
        _, peers, pi, _, beta, ridge, *_ = row
        numbers = {"n": peers, "median": pi, "beta median": beta, "I* median": ridge}
        yield from _said(cohort_key(own), pi_roof(own), numbers, where)
    for own, row in zip(answer["bandwidths"], text_table(text, "memory"), strict=True):
        yield from _said(cohort_key(own), beta_roof(own), {"n": row[1], "median": row[2]}, where)
    bands = [(own, number) for own in answer["cohorts"] for number in range(len(own["bands"]))]
    for (own, number), row in zip(bands, text_table(text, "held against"), strict=True):
        numbers = {f"band {number} {name}": cell for name, cell in zip(("n", "median"), row[1:3], strict=True)}
        numbers |= {f"band {number} limit": row[4], f"band {number} lowest": row[5]}
        yield from _said(cohort_key(own), named_roof(own["roof"]), numbers, where)
    rows = text_table(text, "worst in")
    assert len(rows) == len(answer["gpus"])
    for own, row in zip(answer["gpus"], rows, strict=True):
        if own["worst"] is not None:
            yield from _said(*worst_of(own), {"deviation": row[1]}, where)


def gpu_text_said(text: str, answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the text about one gpu."""
    for own, row in zip(answer["ridges"], text_table(text, "ridge"), strict=True):
        _, pi, deviation, beta, _, ridge, peers, reports = row
        numbers = {"value": pi, "deviation": deviation, "beta": beta, "I*": ridge, "n": peers, "reports": reports}
        yield from _said(gpu_key(answer["gpu_id"], own), pi_roof(own), numbers, where)
    for own, row in zip(answer["bandwidths"], text_table(text, "memory"), strict=True):
        numbers = dict(zip(("value", "deviation", "n", "reports"), row[1:], strict=True))
        yield from _said(gpu_key(answer["gpu_id"], own), beta_roof(own), numbers, where)
    roofs = [] if answer["verdict"] is None else answer["verdict"]["roofs"]
    for own, row in zip(roofs, text_table(text, "judged"), strict=True):
        _, value, median, loss, limit, z, q, n, _ = row
        numbers = {"value": value, "band median": median, "loss": loss, "band limit": limit, "z": z, "q": q}
        of = gpu_key(answer["gpu_id"], own["conditions"])
        yield from _said(of, named_roof(own["roof"]), numbers | {"band n": n}, where)


def devices_text_said(text: str, device: Json, where: str) -> Iterator[Said]:
    """Numbers of one device in the text about all."""
    rows = [row for row in text_table(text, "device", "roof") if row[0] == device["name"]]
    for own, row in zip(device["ridges"], rows, strict=True):
        _, _, peers, pi, beta, ridge, _ = row
        numbers = {"n": peers, "median": pi, "beta median": beta, "I* median": ridge}
        yield from _said(cohort_key(own), pi_roof(own), numbers, where)


def workloads_text_said(text: str, answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the sentence about each group of workloads."""
    for own, found in zip(answer["ridges"], _SUMMARY.finditer(" ".join(text.split())), strict=True):
        pi, beta, ridge, _, slowest = found.groups()
        numbers = {"beta median": beta, "I* median": ridge}
        if own["pi_tflops"]["n"] == own["beta_gbps"]["n"] == own["gpus"]:
            numbers["pi of workloads"] = pi
            yield Said(cohort_key(own), pi_roof(own), "pi of workloads", Number(own["pi_tflops"]["median"]), where)
        yield from _said(cohort_key(own), pi_roof(own), numbers, where)
        gpu = gpu_key(own["slowest"]["gpu_id"], own["conditions"])
        yield from _said(gpu, pi_roof(own), {"value": slowest}, where)


def csv_said(text: str, where: str) -> Iterator[Said]:
    """Numbers of the CSV about a device's gpus."""
    for row in csv.DictReader(io.StringIO(text, newline="")):
        if not row["roof"]:
            continue
        is_pi = row["roof"] == "pi"
        fast = {"true": True, "false": False, "": None}[row["fast_accumulation"]]
        kind = "compute" if is_pi else "memory"
        roof = Roof(kind, row["dtype"], row["out_dtype"] or None, fast, row["regime"])
        of = gpu_key(row["gpu_id"], {"method": row["method"] or None})
        names = {"value": "value", "median": "median", "deviation": "deviation", "peers": "n", "reports": "reports"}
        names |= {"ridge_flop_per_byte": "I*"} if is_pi else {}
        for column, what in names.items():
            yield Said(of, roof, what, _of_csv(row[column]), where)


def device_page_said(page: Page, answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the tables of a device's page."""
    ridges, bandwidths, rows = answer["ridges"], answer["bandwidths"], answer["gpus"]
    for own, row in zip(ridges, page_table(page, len(ridges), "roof", "pi, TFLOP/s", "published"), strict=True):
        _, n, pi, outer, quartiles, _, _, beta, ridge = row
        numbers = {"n": n, "median": pi, "beta median": beta, "I* median": ridge, **_spread(outer, quartiles)}
        yield from _said(cohort_key(own), pi_roof(own), numbers, where)
    for own, row in zip(bandwidths, page_table(page, len(bandwidths), "stream", "published"), strict=True):
        _, n, beta, outer, quartiles, *_ = row
        numbers = {"n": n, "median": beta, **_spread(outer, quartiles)}
        yield from _said(cohort_key(own), beta_roof(own), numbers, where)
    bands = [(own, number, band) for own in answer["cohorts"] for number, band in enumerate(own["bands"])]
    for (own, number, band), row in zip(bands, page_table(page, len(bands), "roof and group"), strict=True):
        # Where there is no verdict the reason stands instead of the limit.
        names = ("n", "median") if band["note"] else ("n", "median", None, "limit", "lowest")
        numbers = {f"band {number} {name}": cell for name, cell in zip(names, row[1:], strict=False) if name}
        yield from _said(cohort_key(own), named_roof(own["roof"]), numbers, where)
    for own, row in zip(rows, page_table(page, len(rows), "worst in", "against all"), strict=True):
        if own["worst"] is not None:
            yield from _said(*worst_of(own), {"value": row[5], "deviation": row[6]}, where)


def gpu_page_said(page: Page, answer: Json, where: str) -> Iterator[Said]:
    """Numbers of the tables of a gpu's page."""
    judged = [] if answer["verdict"] is None else answer["verdict"]["roofs"]
    roofs = sorted(judged, key=lambda own: (own["standing"] == "clear", -own["loss"]))  # as the page has them
    names = ("value", "band median", "band n", "loss", "band limit", "band scale", "z", "q")
    for own, row in zip(roofs, page_table(page, len(roofs), "this gpu", "verdict"), strict=True):
        of = gpu_key(answer["gpu_id"], own["conditions"])
        yield from _said(of, named_roof(own["roof"]), dict(zip(names, row[1:-1], strict=True)), where)
    entries = [(own, pi_roof(own)) for own in answer["ridges"]]
    entries += [(own, beta_roof(own)) for own in answer["bandwidths"]]
    for (own, roof), row in zip(entries, page_table(page, len(entries), "pi, TFLOP/s", "reports"), strict=True):
        _, pi, pi_by, beta, beta_by, ridge, peers, reports, _ = row
        numbers = {"value": beta, "deviation": beta_by}
        if roof.kind == "compute":
            numbers = {"value": pi, "deviation": pi_by, "beta": beta, "I*": ridge}
        yield from _said(gpu_key(answer["gpu_id"], own), roof, numbers | {"n": peers, "reports": reports}, where)


def _spread(outer: str, quartiles: str) -> dict[str, str]:
    """Percentiles and quartiles of a row, each "844 – 846"."""
    cells = [*outer.split(" – "), *quartiles.split(" – ")]
    return dict(zip(("p5", "p95", "q1", "q3"), cells, strict=True))


def _said(of: tuple[str, ...], roof: Roof, cells: Mapping[str, str], where: str) -> Iterator[Said]:
    for what, cell in cells.items():
        number = written(cell)
        # A dash says nothing: people are spared what means little, such as the limit of too few peers.
        if number.value is not None:
            yield Said(of, roof, what, number, where)


def _of_csv(cell: str) -> Number:
    if not cell:
        return Number(None)
    value = float(cell.lstrip("'"))
    return Number(value, abs(value) * 10.0 ** (1 - _SIGNIFICANT_DIGITS_OF_CSV) * _HALF)
