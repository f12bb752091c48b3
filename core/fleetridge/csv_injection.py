"""Text from others in tables that people open in a spreadsheet."""

from __future__ import annotations

# Characters with which spreadsheets let a formula begin, in half and full width (OWASP, "CSV Injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # meant as they are


def defused(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe goes before what would start one."""
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
