"""Where two files of answers differ, path by path."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

_NAMES = ("gpu_id", "report_id", "slug", "name", "level", "label", "factor", "id")
_LONGEST = 150
_MISSING = "(nothing)"
_LINES = "[lines]"


class Difference(NamedTuple):
    """One path of one answer, and what stands there before and after."""

    question: str
    path: str
    before: Any
    after: Any

    @property
    def group(self) -> tuple[str, str]:
        """The route, and the path without names and numbers."""
        form, url = self.question.split(" ")[:2]
        route = re.sub(r"GPU-[\w-]+|(?<=/devices/)[\w-]+|(?<=/nodes/)[\w-]+", "*", url.partition("?")[0])
        return f"{form} {route}", re.sub(r"\[[^]]*\]", "[*]", self.path)


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """All paths that differ, answers in their order."""
    found = []
    for question in sorted({*before, *after}):
        first, second = (dict(_paths(own.get(question), "")) for own in (before, after))
        for path in sorted({*first, *second}):
            pair = first.get(path, _MISSING), second.get(path, _MISSING)
            if path.endswith(_LINES) and _MISSING not in pair:
                found += [Difference(question, path, *block) for block in _blocks(*pair)]
            elif pair[0] != pair[1]:
                found.append(Difference(question, path, *pair))
    return found


def _blocks(before: list[str], after: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Lines of a text that differ, those that follow one another together."""
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if before != after else []
    for step, start, end, from_, to in steps:
        if step != "equal":
            yield before[start:end], after[from_:to]


def print_differences(found: Sequence[Difference], *, every: bool) -> None:
    """Groups with their numbers and an example of each, or every difference."""
    groups: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    for own in found:
        groups[own.group].append(own)
    if every:
        for own in found:
            print(f"{own.question} {own.path}: {_short(own.before)} -> {_short(own.after)}")
    else:
        for (route, path), members in groups.items():
            example = members[0]
            print(f"{len(members):6} {route} {path}")
            print(f"       {example.question} {example.path}: {_short(example.before)} -> {_short(example.after)}")
    questions = {own.question for own in found}
    print(f"{len(found)} paths in {len(questions)} answers differ, in {len(groups)} groups")


def _paths(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 # any JSON
    """All leaves of an answer; entries of a list by their names, so that another order is one difference."""
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _paths(part, f"{path}.{name}")
    elif isinstance(value, list) and value:
        names = [_name(part) for part in value]
        known = None not in names and len(set(names)) == len(names)
        if known:
            yield f"{path}[order]", names
        elif all(isinstance(part, str) for part in value):
            yield f"{path}{_LINES}", value
            return
        for number, (name, part) in enumerate(zip(names, value, strict=True)):
            yield from _paths(part, f"{path}[{name if known else number}]")
    else:
        yield path, value


def _name(value: Any) -> str | None:  # noqa: ANN401 # any JSON
    """What tells an entry of a list from the others."""
    if not isinstance(value, dict):
        return None
    roof = value.get("roof", value)
    if isinstance(roof, dict) and "dtype" in roof:
        parts = [roof.get(name) for name in ("kind", "dtype", "out_dtype", "fast_accumulation", "regime")]
        of = value.get("conditions") or {"method": value.get("method")}
        return f"{' '.join(map(str, parts))} {json.dumps(of, sort_keys=True)}"
    return next((str(value[name]) for name in _NAMES if value.get(name) is not None), None)


def _short(value: Any) -> str:  # noqa: ANN401 # any JSON
    written = json.dumps(value)
    return written if len(written) <= _LONGEST else f"{written[:_LONGEST]}…"
