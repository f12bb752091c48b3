"""
What a setting is: an option, else a variable `FLEETRIDGE_…`, else a default; and the parsers of values. All: `options`.

A setting knows how to read its own text, so that the option and the variable take the same spellings and a wrong
value is answered with the name of whichever gave it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

from fleetridge_agent.errors import UsageError

T = TypeVar("T")
Word = TypeVar("Word", bound=str)
T_co = TypeVar("T_co", covariant=True)

_PREFIX = "FLEETRIDGE_"

# As many values as a report repeats of one option.
MANY = 1024

_PER_CENT = 100

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([smhd])")
_SECONDS_OF_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 365 * _SECONDS_OF_UNIT["d"]

_YES = frozenset({"1", "true", "yes", "on"})
_NO = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """
    One setting of a command.

    Attributes:
        name: of the option, without the two dashes.
        read: turns text into the value; raises ValueError with what would be right.
        help: sentence for `--help`.
        default: text that stands in where neither option nor variable is given, None for none.
        metavar: placeholder for `--help`.
        many: whether the option takes several values at once.
        repeats: whether the option may be given several times, as in `--label a=1 --label b=2`.
        is_switch: whether the option takes no value; the variable takes yes or no.
        also: further variables that are asked after our own.
    """

    name: str
    read: Callable[[str], T_co]
    help: str
    default: str | None = None
    metavar: str | None = None
    many: bool = False
    repeats: bool = False
    is_switch: bool = False
    also: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """The option as it is typed."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return _PREFIX + self.name.upper().replace("-", "_")

    def add_to(self, parser: argparse._ActionsContainer) -> None:
        """Offer this setting as an option."""
        shown = f"{self.help} [{', '.join((self.variable, *self.also))}"
        shown += f"; default: {self.default}]" if self.default is not None else "]"
        shown = shown.replace("%", "%%")
        if self.is_switch:
            parser.add_argument(self.option, action="store_const", const="yes", help=shown)
        elif self.repeats:
            parser.add_argument(self.option, action="append", metavar=self.metavar, help=shown)
        elif self.many:
            parser.add_argument(self.option, nargs="+", metavar=self.metavar, help=shown)
        else:
            parser.add_argument(self.option, metavar=self.metavar, help=shown)

    def given(self, source: Source) -> str | None:
        """Text that the option or a variable gives, None where neither does."""
        return self.origin(source)[1]

    def value(self, source: Source) -> T_co | None:
        """
        Value by option, variable or default; None where there is none of the three.

        Raises:
            UsageError: the text cannot be read; the message begins with the option or variable that gave it.
        """
        name, text = self.origin(source)
        text = self.default if text is None else text
        if text is None:
            return None
        try:
            return self.read(text)
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from error

    def required(self, source: Source) -> T_co:
        """
        Value of a setting that must have one.

        Raises:
            UsageError: it has none, or one that cannot be read.
        """
        value = self.value(source)
        if value is None:
            raise UsageError(f"{self.option} is needed; give it or set {self.variable}")
        return value

    def origin(self, source: Source) -> tuple[str, str | None]:
        """The option or variable that gives this setting, and its text; the option and None where neither does."""
        typed = getattr(source.options, self.name.replace("-", "_"), None)
        if typed is not None:
            return self.option, ("," if self.repeats else " ").join(typed) if isinstance(typed, list) else typed
        for variable in (self.variable, *self.also):
            # Templates of pods and units leave variables empty where there is nothing to say.
            if source.environ.get(variable, "").strip():
                return variable, source.environ[variable]
        return self.option, None


@dataclass(frozen=True, slots=True)
class Source:
    """Where settings come from: the parsed command line and the environment."""

    options: argparse.Namespace
    environ: Mapping[str, str]


def add_all(parser: argparse.ArgumentParser, title: str, settings: Iterable[Setting[object]]) -> None:
    """Offer settings as options under a title of their own."""
    group = parser.add_argument_group(title)
    for setting in settings:
        setting.add_to(group)


def words(text: str) -> tuple[str, ...]:
    """Words separated by spaces or commas."""
    return tuple(text.replace(",", " ").split())


def several(read: Callable[[str], T], *, at_most: int = MANY) -> Callable[[str], tuple[T, ...]]:
    """Reader of one value or several, separated by spaces or commas."""

    def read_all(text: str) -> tuple[T, ...]:
        """Every value; raises ValueError where there is none, or too many."""
        values = tuple(read(word) for word in words(text))
        if not values:
            raise ValueError("give at least one value")
        if len(values) > at_most:
            raise ValueError(f"{len(values)} values are too many; give at most {at_most}")
        return values

    return read_all


def one_of(*choices: Word) -> Callable[[str], Word]:
    """Reader of one word out of a few."""

    def read(text: str) -> Word:
        """The choice that is spelled exactly so; raises ValueError where none is."""
        for choice in choices:
            if choice == text:
                return choice
        raise ValueError(f"{text!r} is none of {', '.join(choices)}")

    return read


def whole_number(*, at_least: int, at_most: int) -> Callable[[str], int]:
    """Reader of a whole number within bounds."""

    def read(text: str) -> int:
        """The number; raises ValueError where it is none, or out of bounds."""
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if not at_least <= value <= at_most:
            raise ValueError(f"{value} is not between {at_least} and {at_most}")
        return value

    return read


def positive_number(text: str) -> float:
    """
    Reader of a number above zero.

    Raises:
        ValueError: it is not one, or not finite.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0 < value < float("inf"):
        raise ValueError(f"{text} is not a number above zero")
    return value


def per_cent(text: str) -> float:
    """
    Reader of a share in per cent ("3%", "3 %" or "3") as a fraction.

    Raises:
        ValueError: it is none, or not between 0 and 100 %.
    """
    digits = text.strip().removesuffix("%").strip()
    try:
        share = float(digits) / _PER_CENT
    except ValueError:
        raise ValueError(f"{text!r} is no share; give one such as 3%") from None
    if not 0 < share < 1:
        raise ValueError(f"{text} is not between 0 and 100 %")
    return share


def duration(text: str) -> timedelta:
    """
    Reader of a length of time: a number and one of s, m, h, d, such as "90s" or "24h".

    Raises:
        ValueError: it is none, or longer than a year.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no length of time; give a number with s, m, h or d, such as 30m or 24h")
    seconds = float(found[1]) * _SECONDS_OF_UNIT[found[2]]
    if seconds > _LONGEST_S:
        raise ValueError(f"{text} is longer than 365d")
    return timedelta(seconds=seconds)


def positive_duration(text: str) -> timedelta:
    """
    Reader of a length of time above zero.

    Raises:
        ValueError: it is none, zero, or longer than a year.
    """
    found = duration(text)
    if not found:
        raise ValueError(f"{text} leaves no time; give a length of time above zero, such as 15m")
    return found


def plain_text(text: str) -> str:
    """
    Reader of text that can be printed, without space at its ends.

    Raises:
        ValueError: it is empty or holds control characters.
    """
    from fleetridge.strict_json import printable_problem  # noqa: PLC0415 # brings a parser with it that `--help` needs not

    stripped = text.strip()
    if not stripped:
        raise ValueError("give some text")
    if problem := printable_problem(stripped):
        raise ValueError(problem)
    return stripped


def switch(text: str) -> bool:
    """
    Reader of yes or no.

    Raises:
        ValueError: it is neither.
    """
    word = text.strip().casefold()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise ValueError(f"{text!r} is neither yes nor no; give 1 or 0")


def as_arguments(source: Source, settings: Iterable[Setting[object]]) -> tuple[str, ...]:
    """Words that give another process the same options; what variables gave it has from them as well."""
    return tuple(word for setting in settings for word in _typed(source, setting))


def _typed(source: Source, setting: Setting[object]) -> Iterator[str]:
    typed = getattr(source.options, setting.name.replace("-", "_"), None)
    if typed is None:
        return
    if setting.is_switch:
        yield setting.option
    elif setting.repeats:
        yield from (f"{setting.option}={value}" for value in typed)
    elif setting.many:
        yield from (setting.option, *typed)
    else:
        yield f"{setting.option}={typed}"
