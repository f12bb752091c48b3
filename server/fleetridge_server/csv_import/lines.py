"""
Lines of a CSV file as named cells, whatever the columns mean.

Pure: text in, cells out. Each line is read by itself, so that a quote which nobody closes costs its own line and not
the rest of the file; no column may hold a line break anyway.
"""

import csv
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from fleetridge.report.field_types import Reading, SmallCountReading, Text, TextReading, UtcTime, WireModel
from fleetridge.strict_json import as_printable
from fleetridge_server.problems import FieldError, problem_of, shortened

_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,4})?")


_DELIMITERS = (",", ";", "\t")

_WHOLE = re.compile(r"[0-9]{1,18}")

# What of a foreign cell is kept: as much as a column of ours may have.
_MAX_FOREIGN_CHARACTERS = 255

# A field is quoted as a whole, with quotes inside doubled, or has no quote at all.
_WELL_QUOTED = {
    delimiter: re.compile(rf"({field})({delimiter}({field}))*")
    for delimiter in _DELIMITERS
    for field in [rf'"([^"]|"")*"|[^"{delimiter}]*']
}

_CELL: TypeAdapter[str | None] = TypeAdapter(TextReading)
_NAME: TypeAdapter[str] = TypeAdapter(Text)


class HeaderError(ValueError):
    """A first line that does not name the columns which every row needs; the message says what is missing."""


class RowError(ValueError):
    """A line that does not say what its columns ask for; `errors` say why, by column."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__(
            "; ".join(f"{error.field}: {error.problem}" if error.field else error.problem for error in errors)
        )
        self.errors = tuple(errors)


@dataclass(frozen=True, slots=True)
class Header:
    """Names of a file's columns, in their order, and what stands between them."""

    columns: tuple[str, ...]
    delimiter: str


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line that is not what it should be, and why."""

    line: int
    errors: tuple[FieldError, ...]


def header_in(line: str, known: Collection[str]) -> Header:
    """
    Columns that the first line of a file names, in any order, between commas, semicolons or tabs; none if it is no CSV.

    Args:
        line: the first one.
        known: columns that mean something.

    Raises:
        HeaderError: not UTF-8, or a known column in another spelling.
    """
    delimiter = max(_DELIMITERS, key=line.count)
    _require_utf8(line)
    try:
        cells = _cells(line, delimiter)
        names = [_NAME.validate_python(cell) or f"column_{place}" for place, cell in enumerate(cells, start=1)]
    except (csv.Error, ValidationError):
        names = []
    for name in names:
        if name not in known and (meant := _plainly_spelled(name)) in known:
            raise HeaderError(f"the first line names a column {name!r}; spell it {meant}")
    return Header(tuple(names), delimiter)


def require_distinct(header: Header) -> None:
    """Refuse a column that is there twice. Raises HeaderError: there is one."""
    twice = sorted({name for name in header.columns if header.columns.count(name) > 1})
    if twice:
        raise HeaderError(f"the first line names a column twice: {', '.join(twice)}")


def values_in(line: str, header: Header, known: Collection[str]) -> dict[str, str]:
    """
    Cells of a line by column; empty cells, "[N/A]" and their like are left out.

    Raises:
        RowError: no CSV, another number of cells than the header has, or text that cannot be printed.
    """
    try:
        cells = _cells(line, header.delimiter)
    except csv.Error as error:
        raise RowError([FieldError(field="", problem=f"not CSV: {error}; each row is one line")]) from error
    if len(cells) != len(header.columns):
        problem = f"{len(cells)} fields, the header has {len(header.columns)}"
        raise RowError([FieldError(field="", problem=problem)])
    values = {column: _value(column, cell, known) for column, cell in zip(header.columns, cells, strict=True)}
    return {column: value for column, value in values.items() if value is not None}


def faults_of(error: ValidationError) -> list[FieldError]:
    """Faults that a model found in a row, by column."""
    return [FieldError(field=str(fault["loc"][0]), problem=problem_of(fault)) for fault in error.errors()]


def whole(cell: str | None) -> int | str | None:
    """Whole number of a cell; what is none stays text, which the column then refuses by its own name."""
    return int(cell) if cell is not None and _WHOLE.fullmatch(cell) else cell


def _require_utf8(line: str) -> None:
    # Bytes that are not UTF-8 come as surrogates; UTF-16 has a zero byte in each letter of a column's name.
    if "\0" in line or any("\ud800" <= character <= "\udfff" for character in line):
        found = "UTF-16" if "\0" in line else "not UTF-8"
        raise HeaderError(f"the first line is {found}; save the file as UTF-8, in spreadsheets as 'CSV UTF-8'")


def _plainly_spelled(name: str) -> str:
    return re.sub(r"[\s.-]+", "_", name.casefold())


def _cells(line: str, delimiter: str) -> list[str]:
    cells = next(csv.reader([line], delimiter=delimiter, strict=True))
    # The reader takes a stray quote as part of a field, and so the rest of a field with a line break for a row.
    if not _WELL_QUOTED[delimiter].fullmatch(line.rstrip("\r\n")):
        raise csv.Error("a quote within a field; quote the field as a whole and double the quotes inside")
    return [cell.strip() for cell in cells]


def _value(column: str, cell: str, known: Collection[str]) -> str | None:
    if column not in known:  # nothing in a column that we do not know may cost the row
        cell = shortened(as_printable(cell), _MAX_FOREIGN_CHARACTERS)
    try:
        return _CELL.validate_python(cell)
    except ValidationError as error:
        raise RowError([FieldError(field=column, problem=problem_of(fault)) for fault in error.errors()]) from error


def _number(cell: str | None) -> float | str | None:
    # What is no number stays text, which the column then refuses by its own name.
    return float(cell) if cell is not None and _DECIMAL.fullmatch(cell) else cell


_Number = Annotated[Reading, BeforeValidator(_number)]
_RateField = Annotated[Reading, Field(ge=1e-12), BeforeValidator(_number)]  # the wire's smallest rate


class CsvRow(WireModel):
    """One measurement as its line states it; columns that we do not know are kept as text, cut where it is long."""

    device: str | None = None
    node: str | None = None
    gpu: str | None = None
    gpu_index: Annotated[SmallCountReading, BeforeValidator(whole)] = None
    measured_at: UtcTime | None = None
    dtype: str | None = None
    pi_tflops: _RateField = None
    beta_gbps: _RateField = None
    sm_clock_mhz: _Number = None
    temperature_c: _Number = None
    power_w: _Number = None


COLUMNS = tuple(CsvRow.model_fields)


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


def row_of(line: str, header: Header) -> CsvRow:
    """
    Measurement that a line states.

    Empty cells, "[N/A]" and their like are absent; a number is written with a point and without anything else.

    Raises:
        RowError: it states none.
    """
    try:
        row = CsvRow.model_validate(values_in(line, header, COLUMNS))
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


def _require_rate(row: CsvRow) -> None:
    if row.pi_tflops is None and row.beta_gbps is None:
        problem = "empty, and beta_gbps too; a row needs one of them"
        raise RowError([FieldError(field="pi_tflops", problem=problem)])
    if row.pi_tflops is not None and row.dtype is None:
        raise RowError([FieldError(field="dtype", problem="empty; say what was multiplied, such as float32")])
