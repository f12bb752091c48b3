"""
Lines of a CSV file as measurements.

Pure: text in, rows out. How a line is taken apart is `csv_lines`'s.
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError

from fleetridge.report.values import Reading, SmallCountReading, UtcTime, WireModel
from fleetridge_server.field_errors import FieldError
from fleetridge_server.importing.csv_lines import (
    Header,
    HeaderError,
    RowError,
    faults_of,
    header_in,
    require_distinct,
    values_in,
    whole,
)

_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")


def _number(cell: str | None) -> float | str | None:
    # What is no number stays text, which the column then refuses by its own name.
    return float(cell) if cell is not None and _DECIMAL.fullmatch(cell) else cell


_Number = Annotated[Reading, BeforeValidator(_number)]
_Rate = Annotated[Reading, Field(ge=1e-12), BeforeValidator(_number)]  # the wire's smallest rate


class Row(WireModel):
    """One measurement as its line states it; columns that we do not know are kept as text, cut where it is long."""

    device: str | None = None
    node: str | None = None
    gpu: str | None = None
    gpu_index: Annotated[SmallCountReading, BeforeValidator(whole)] = None
    measured_at: UtcTime | None = None
    dtype: str | None = None
    pi_tflops: _Rate = None
    beta_gbps: _Rate = None
    sm_clock_mhz: _Number = None
    temperature_c: _Number = None
    power_w: _Number = None


COLUMNS = tuple(Row.model_fields)


def header_of(line: str) -> Header:
    """
    Header that the first line of a file gives; columns stand in any order, between commas, semicolons or tabs.

    Raises:
        HeaderError: a column that every row needs is missing, or one is named twice.
    """
    header = header_in(line, COLUMNS)
    missing = _missing(set(header.columns))
    if missing:
        raise HeaderError(f"the first line names no {missing}; it has to name columns out of {', '.join(COLUMNS)}")
    require_distinct(header)
    return header


def row_of(line: str, header: Header) -> Row:
    """
    Measurement that a line states.

    Empty cells, "[N/A]" and their like are absent; a number is written with a point and without anything else.

    Raises:
        RowError: it states none.
    """
    try:
        row = Row.model_validate(values_in(line, header, COLUMNS))
    except ValidationError as error:
        raise RowError(faults_of(error)) from error
    _require_rate(row)
    return row


def _missing(names: set[str]) -> str | None:
    if not names & {"pi_tflops", "beta_gbps"}:
        return "pi_tflops or beta_gbps"
    if "gpu" not in names and not names >= {"node", "gpu_index"}:
        return "gpu (or node and gpu_index)"
    return "dtype beside pi_tflops" if "pi_tflops" in names and "dtype" not in names else None


def _require_rate(row: Row) -> None:
    if row.pi_tflops is None and row.beta_gbps is None:
        problem = "empty, and beta_gbps too; a row needs one of them"
        raise RowError([FieldError(field="pi_tflops", problem=problem)])
    if row.pi_tflops is not None and row.dtype is None:
        raise RowError([FieldError(field="dtype", problem="empty; say what was multiplied, such as float32")])
