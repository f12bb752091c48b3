"""JSON is taken only where every database and reader can hold it."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge import strict_json

_KEPT_TEXT = st.text(st.characters(exclude_categories=("Cc", "Cs")))
_KEPT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _KEPT_TEXT,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(_KEPT_TEXT, children, max_size=4),
    max_leaves=20,
)


@given(_KEPT)
def test_whatever_can_be_kept_comes_through_unchanged(value: strict_json.Json) -> None:
    """Reading what was written gives the same value."""
    text = json.dumps(value, ensure_ascii=False).encode()

    assert value == strict_json.loads(text)


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999"])
def test_a_non_finite_number_is_refused_and_its_field_named(token: bytes) -> None:
    """Bare tokens and overflowing numbers alike."""
    with pytest.raises(strict_json.StrictJsonError, match="not a finite number") as caught:
        strict_json.loads(b'{"points":[{"ms":1},{"ms":' + token + b"}]}")

    assert caught.value.path == "points[1].ms"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40])
def test_an_integer_beyond_64_bits_is_refused(number: int) -> None:
    """No database column holds it."""
    with pytest.raises(strict_json.StrictJsonError, match="beyond 64 bits"):
        strict_json.loads(b'{"a":%d}' % number)


@pytest.mark.parametrize("text", ['"n1\\u0000"', '"\\u001b[31m"', '"a\\u007f"', '"line\\nbreak"', '"\\u0085"'])
def test_a_control_character_in_text_is_refused(text: str) -> None:
    """NUL breaks PostgreSQL, escapes break terminals."""
    with pytest.raises(strict_json.StrictJsonError, match="control character") as caught:
        strict_json.loads(b'{"node":{"name":' + text.encode() + b"}}")

    assert caught.value.path == "node.name"


def test_a_control_character_in_a_key_is_refused() -> None:
    """A key is text too."""
    with pytest.raises(strict_json.StrictJsonError, match="field's name"):
        strict_json.loads(b'{"a":{"k\\u0000":1}}')


def test_a_lone_surrogate_is_refused() -> None:
    """UTF-8 cannot spell it."""
    with pytest.raises(strict_json.StrictJsonError):
        strict_json.loads(b'"\\ud800"')


@pytest.mark.parametrize("depth", [strict_json.MAX_DEPTH + 1, 150, 100_000])
def test_deep_nesting_is_refused_without_exhausting_the_stack(depth: int) -> None:
    """Neither the parser nor the check recurses without bound."""
    with pytest.raises(strict_json.StrictJsonError):
        strict_json.loads(b"[" * depth + b"]" * depth)


def test_nesting_at_the_limit_is_taken() -> None:
    """The limit itself is inside."""
    depth = strict_json.MAX_DEPTH - 1

    strict_json.loads(b"[" * depth + b"1" + b"]" * depth)


@pytest.mark.parametrize("text", [b"", b"{", b'{"a":1}}', b"\xff\xfe", b"{'a':1}", b'"\xff"'])
def test_what_is_not_json_in_utf_8_is_refused(text: bytes) -> None:
    """With a sentence, not with whatever the parser throws."""
    with pytest.raises(strict_json.StrictJsonError, match="not JSON in UTF-8"):
        strict_json.loads(text)


@given(st.text())
def test_text_made_printable_is_taken(text: str) -> None:
    """Whatever a driver says can be sent once it is written out."""
    assert strict_json.printable_problem(strict_json.as_printable(text)) is None


def test_an_escape_sequence_is_written_out() -> None:
    """The reader sees what was there."""
    assert strict_json.as_printable("a\x1b[31m b") == "a\\x1b[31m b"


@pytest.mark.parametrize("entry", [b"0", b"{}", b"[]", b'""'])
def test_a_text_of_endless_small_values_is_refused_before_it_is_unfolded(entry: bytes) -> None:
    """What a value costs has little to do with the bytes that spell it."""
    text = b"[" + (entry + b",") * (strict_json.MAX_VALUES - 1) + entry + b"]"
    tracemalloc.start()

    with pytest.raises(strict_json.TooManyValuesError, match="send fewer"):
        strict_json.parse(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 100_000


def test_as_many_values_as_allowed_are_taken() -> None:
    """The list itself is one of them."""
    text = b"[" + b"0," * (strict_json.MAX_VALUES - 3) + b"0]"

    assert len(strict_json.loads(text)) == strict_json.MAX_VALUES - 2  # type: ignore[arg-type] # a list


@pytest.mark.parametrize("value", [[0] * 500_000, {"x": [{}] * 500_000}, {str(key): 1 for key in range(100_000)}])
def test_a_check_takes_no_memory_for_each_value(value: strict_json.Json) -> None:
    """Paths are made of what is wrong, and of nothing else."""
    tracemalloc.start()

    strict_json.check(value)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak_bytes < 100_000


def test_a_part_may_have_fewer_values_than_the_whole() -> None:
    """Where the bound is passed is named."""
    with pytest.raises(strict_json.StrictJsonError, match="more than 10 values") as caught:
        strict_json.check({"a": [1, 2, 3], "b": {"c": [1] * 6}}, max_values=10)

    assert caught.value.path == "b.c"


def test_of_a_key_that_is_named_twice_the_last_counts() -> None:
    """As the documentation says."""
    assert strict_json.loads(b'{"a":1,"a":2}') == {"a": 2}
