from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_server.csv_import.lines import COLUMNS, CsvRow, Header, HeaderError, RowError, header_of, row_of

ALL = header_of(",".join(COLUMNS))
SAMPLE = "Tesla V100-SXM2-16GB,,GPU-LH0404,,2020-06-02T17:27:42Z,float32,13.5673,,1350,73,296.79"


def line(**cells: str) -> str:
    """A line with all columns, empty but for those that are given and those that every row needs."""
    given_cells = {"gpu": "GPU-1", "dtype": "float32", "pi_tflops": "13.5"} | cells
    return ",".join(given_cells.get(column, "") for column in COLUMNS)


def faults(text: str, header: Header = ALL) -> dict[str, str]:
    with pytest.raises(RowError) as refusal:
        row_of(text, header)
    return {error.field: error.problem for error in refusal.value.errors}


def test_a_line_states_a_measurement() -> None:
    """What is empty is absent."""
    row = row_of(SAMPLE, ALL)

    assert row.model_dump(exclude_none=True) == {
        "device": "Tesla V100-SXM2-16GB",
        "gpu": "GPU-LH0404",
        "measured_at": datetime(2020, 6, 2, 17, 27, 42, tzinfo=timezone.utc),
        "dtype": "float32",
        "pi_tflops": 13.5673,
        "sm_clock_mhz": 1350,
        "temperature_c": 73,
        "power_w": 296.79,
    }


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_stand_in_any_order_between_any_of_three_signs(delimiter: str) -> None:
    """The header says both."""
    header = header_of(delimiter.join(["pi_tflops", "gpu", "dtype"]) + "\n")

    row = row_of(delimiter.join(["13.5", "GPU-1", "float32"]) + "\n", header)

    assert (row.gpu, row.pi_tflops) == ("GPU-1", 13.5)


def test_quoted_fields_may_hold_the_sign_and_quotes() -> None:
    """As spreadsheets write them."""
    assert row_of(line(device='"A ""B"", C"'), ALL).device == 'A "B", C'


@pytest.mark.parametrize("word", ["", " ", "[N/A]", "N/A", "[Not Supported]", "nan", "None"])
def test_words_for_no_reading_are_absent(word: str) -> None:
    """In every column that may be empty."""
    row = row_of(line(power_w=word, beta_gbps=word, measured_at=word, node=word, gpu_index=word), ALL)

    assert (row.power_w, row.beta_gbps, row.measured_at, row.node, row.gpu_index) == (None,) * 5


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("pi_tflops", "fast"),
        ("pi_tflops", "0"),
        ("pi_tflops", "-1"),
        ("pi_tflops", "inf"),
        ("pi_tflops", "1e999"),
        ("pi_tflops", "1_000"),
        ("pi_tflops", "0x1p3"),
        ("pi_tflops", "١٣"),
        ("power_w", "296.79 W"),
        ("power_w", '"1,5"'),
        ("gpu_index", "1.0"),
        ("gpu_index", "-1"),
        ("gpu_index", "99999999999"),
        ("measured_at", "yesterday"),
        ("measured_at", "2026-13-01T00:00:00Z"),
        ("device", "A\u001bB"),
        ("device", "A\udcffB"),
        ("gpu", "x" * 1000),
    ],
)
def test_a_bad_cell_is_named_by_its_column(column: str, cell: str) -> None:
    """So that the file can be mended."""
    assert list(faults(line(**{column: cell}))) == [column]


def test_a_line_with_a_nul_is_bad_whatever_python_reads_it() -> None:
    """Until 3.11 Python's CSV reader refuses the line as a whole, later ones leave it to the column."""
    assert len(list(faults(line(device="A\u0000B")))) == 1


def test_a_row_needs_a_rate() -> None:
    """Neither pi nor beta is no measurement."""
    assert "needs one" in faults(line(pi_tflops=""))["pi_tflops"]


def test_a_compute_rate_needs_a_dtype() -> None:
    """What was multiplied is not guessed."""
    assert list(faults(line(dtype=""))) == ["dtype"]
    assert row_of(line(dtype="", pi_tflops="", beta_gbps="790"), ALL).beta_gbps == 790


@pytest.mark.parametrize("text", ["a,b", SAMPLE + ",", '"open,' + SAMPLE, 'a"b,' * 5 + '"x"y,,,,,'])
def test_a_line_of_another_shape_is_bad_as_a_whole(text: str) -> None:
    """Too few fields, too many, a quote that nobody closes."""
    assert list(faults(text)) == [""]


def test_unknown_columns_are_kept_as_text() -> None:
    """They are the owner's, and may matter later."""
    header = header_of("gpu,beta_gbps,rack,,rack_unit")

    row = row_of("GPU-1,790,r1,x,", header)

    assert row.model_extra == {"rack": "r1", "column_4": "x"}


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", "pi_tflops or beta_gbps"),
        ("gpu,dtype", "pi_tflops or beta_gbps"),
        ("pi_tflops,dtype", "gpu"),
        ("pi_tflops,dtype,node", "gpu_index"),
        ("gpu,pi_tflops", "dtype"),
        ("PK\x03\x04", "pi_tflops or beta_gbps"),
        ('gpu,"beta_gbps', "pi_tflops or beta_gbps"),
        ("gpu,beta_gbps,gpu", "twice: gpu"),
        (SAMPLE, "pi_tflops or beta_gbps"),
    ],
)
def test_a_header_that_cannot_serve_is_refused(text: str, missing: str) -> None:
    """With what is missing."""
    with pytest.raises(HeaderError, match=missing):
        header_of(text)


@given(st.text())
def test_any_line_is_a_row_or_bad(text: str) -> None:
    """Nothing in a file makes the reader fail."""
    with suppress(RowError):
        assert isinstance(row_of(text, ALL), CsvRow)


@given(st.floats(min_value=1e-12, max_value=1e15))
def test_a_number_is_read_as_python_writes_it(value: float) -> None:
    """To the last digit."""
    assert row_of(line(pi_tflops=repr(value)), ALL).pi_tflops == value


@pytest.mark.parametrize("text", ['B",,GPU-2,,,float32,13.5,,,,', line(device='A"B'), line(node=' "n1"')])
def test_a_quote_within_a_field_makes_the_line_bad(text: str) -> None:
    """It may be the rest of a quoted field with a line break, whose first words would become a device."""
    assert "quote" in faults(text)[""]


@pytest.mark.parametrize("cell", ["20261120", "2026", "46346", "1767225600.5"])
def test_a_number_is_no_time(cell: str) -> None:
    """Spreadsheets count days, others seconds; neither is guessed at."""
    assert "ISO 8601" in faults(line(measured_at=cell))["measured_at"]


def test_an_endless_foreign_cell_is_kept_cut() -> None:
    """It costs neither the measurement nor much room; the cut shows."""
    row = row_of("GPU-1,790," + "x" * 5000, header_of("gpu,beta_gbps,remark"))

    assert row.beta_gbps == 790
    assert row.model_extra == {"remark": "x" * 255 + "…"}


def test_a_foreign_cell_with_control_characters_is_kept_written_out() -> None:
    """Nothing in a column that we do not know costs the measurement."""
    row = row_of("GPU-1,790,a\x1bb", header_of("gpu,beta_gbps,remark"))

    assert row.model_extra == {"remark": "a\\x1bb"}


def test_a_file_that_is_not_utf_8_is_named_so() -> None:
    """And not as one without columns."""
    columns = "gpu,beta_gbps,größe"
    latin, utf16 = (columns.encode(name).decode("utf-8", "surrogateescape") for name in ("latin-1", "utf-16"))

    with pytest.raises(HeaderError, match="not UTF-8; save"):
        header_of(latin)
    with pytest.raises(HeaderError, match="UTF-16; save"):
        header_of(utf16)


@pytest.mark.parametrize(
    ("name", "meant"), [("Pi_TFLOPS", "pi_tflops"), ("MEASURED_AT", "measured_at"), ("Measured At", "measured_at")]
)
def test_a_near_miss_of_a_columns_name_is_told(name: str, meant: str) -> None:
    """Passed over, it would lose what the column says."""
    with pytest.raises(HeaderError, match=f"spell it {meant}"):
        header_of(f"gpu,dtype,beta_gbps,{name}")
