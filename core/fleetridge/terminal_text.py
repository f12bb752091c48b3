"""
Text that is safe and straight in a terminal: control characters shown, widths counted as a terminal counts them.

Device and node names come from machines that nobody vouches for. A name that holds an escape sequence must not
recolour, move or rewrite what stands around it.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

ELLIPSIS = "…"

# Besides all of category C (controls, format marks such as bidirectional overrides, surrogates, private and unassigned
# characters), which a terminal acts upon or cannot show.
_SEPARATORS_OF_LINES = ("Zl", "Zp")

# Fullwidth and Wide of Unicode's East Asian Width (UAX #11) take two columns.
_TWO_COLUMNS = ("F", "W")

# Marks that sit on the character before them.
_NO_COLUMN = ("Mn", "Me")

# Vowels and finals of Hangul written in pieces: they join the syllable before them and take no column of their own.
_HANGUL_JOINING = range(0x1160, 0x1200)


def visible(text: str) -> str:
    r"""Text with everything that a terminal would act upon spelled out: an escape becomes the characters "\x1b"."""
    # Printable is what has nothing to spell out; nearly all text is, and a page has a hundred thousand names.
    return text if text.isprintable() else "".join(_spelled_out(char) for char in text)


def display_width(text: str) -> int:
    """Columns that visible text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def shortened(text: str, width: int, *, ellipsis: str = ELLIPSIS) -> str:
    """Text of at most `width` columns, its end replaced by an ellipsis where it was longer."""
    if display_width(text) <= width:
        return text
    mark, _ = _split_at(ellipsis, width)
    kept, _ = _split_at(text, width - display_width(mark))
    return kept + mark


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Text filled with spaces to `width` columns: after it, or before it where it stands to the right."""
    spaces = " " * (width - display_width(text))
    return spaces + text if right else text + spaces


def wrapped(text: str, width: int) -> list[str]:
    """
    Lines of at most `width` columns with every word of the text, broken between words where that is possible.

    A width below 2 counts as 2, the widest that one character gets.
    """
    room = max(width, 2)
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(joined) <= room:
            lines[-1] = joined
            continue
        pieces = _pieces(word, room)
        lines = [*lines, *pieces] if lines[-1] else pieces
    return lines


def _pieces(word: str, width: int) -> list[str]:
    pieces = []
    while display_width(word) > width:
        head, word = _split_at(word, width)
        pieces.append(head)
    return [*pieces, word]


def _split_at(text: str, width: int) -> tuple[str, str]:
    """The longest start that fits into `width` columns, and the rest."""
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > width:
            return text[:index], text[index:]
    return text, ""


def _spelled_out(char: str) -> str:
    category = unicodedata.category(char)
    if category.startswith("C") or category in _SEPARATORS_OF_LINES:
        return char.encode("unicode_escape").decode("ascii")
    return char


@lru_cache(maxsize=1024)
def _columns(char: str) -> int:
    if unicodedata.category(char) in _NO_COLUMN or ord(char) in _HANGUL_JOINING:
        return 0
    return 2 if unicodedata.east_asian_width(char) in _TWO_COLUMNS else 1
