"""Text from others in CSV that people open in a spreadsheet: none of it may begin a formula."""

from __future__ import annotations

# Characters with which spreadsheets let a formula begin, in half and full width (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # meant as they are


def escaped_formula(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe goes before what would start one."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
