"""Options, variables and defaults."""

from __future__ import annotations

import argparse

import pytest

from fleetridge_agent.config import options, setting_types
from fleetridge_agent.config.setting_types import Setting, Source, add_all, as_arguments
from fleetridge_agent.errors import UsageError

REPS = Setting("reps", setting_types.whole_number(at_least=1, at_most=1000), "Timed calls.", default="25")
SQUARE = Setting(
    "square", setting_types.several(setting_types.whole_number(at_least=1, at_most=100)), "Sizes.", many=True
)
LABEL = Setting("label", setting_types.words, "Label.", repeats=True)
PLAIN = Setting("allow-plain-http", setting_types.switch, "Allow.", default="no", is_switch=True)
NODE = Setting("node", setting_types.plain_text, "Name.", also=("NODE_NAME",))


def source(*arguments: str, **environ: str) -> Source:
    parser = argparse.ArgumentParser()
    setting_types.add_all(parser, "settings", (REPS, SQUARE, LABEL, PLAIN, NODE))
    return Source(parser.parse_args(arguments), environ)


def test_an_option_wins_over_the_variable() -> None:
    assert REPS.value(source("--reps", "3", FLEETRIDGE_REPS="4")) == 3


def test_the_variable_wins_over_the_default() -> None:
    assert REPS.value(source(FLEETRIDGE_REPS="4")) == 4


def test_without_either_the_default_holds() -> None:
    assert REPS.value(source()) == 25


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert REPS.value(source(FLEETRIDGE_REPS=" ")) == 25


def test_a_foreign_variable_is_asked_after_our_own() -> None:
    assert NODE.value(source(NODE_NAME="n1")) == "n1"
    assert NODE.value(source(NODE_NAME="n1", FLEETRIDGE_NODE="n2")) == "n2"


def test_several_values_come_from_one_option() -> None:
    assert SQUARE.value(source("--square", "4", "8")) == (4, 8)


@pytest.mark.parametrize("text", ["4 8", "4,8", " 4, 8 "])
def test_several_values_come_from_one_variable(text: str) -> None:
    assert SQUARE.value(source(FLEETRIDGE_SQUARE=text)) == (4, 8)


def test_a_repeated_option_collects_its_values() -> None:
    assert LABEL.value(source("--label", "a=1", "--label", "b=2")) == ("a=1", "b=2")


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("false", False)])
def test_a_switch_takes_yes_or_no_from_its_variable(text: str, value: bool) -> None:
    assert PLAIN.value(source(FLEETRIDGE_ALLOW_PLAIN_HTTP=text)) is value


def test_a_switch_is_on_when_given() -> None:
    assert PLAIN.value(source("--allow-plain-http", FLEETRIDGE_ALLOW_PLAIN_HTTP="no")) is True
    assert PLAIN.value(source()) is False


@pytest.mark.parametrize("text", ["0", "1001", "-1", "1.5", "many", "∞"])
def test_a_wrong_value_is_answered_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--reps: "):
        REPS.value(source("--reps", text))


def test_a_wrong_value_is_answered_with_the_name_of_the_variable() -> None:
    with pytest.raises(UsageError, match=r"^FLEETRIDGE_REPS: 'many' is not a whole number"):
        REPS.value(source(FLEETRIDGE_REPS="many"))


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e999", "x", ""])
def test_a_peak_is_a_number_above_zero(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        setting_types.positive_number(text)


@pytest.mark.parametrize(("text", "problem"), [("", "give some"), (" ", "give some"), ("a\x1bb", r"U\+001B")])
def test_a_name_is_printable_text(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        setting_types.plain_text(text)


def test_a_switch_says_what_it_takes() -> None:
    with pytest.raises(UsageError, match="FLEETRIDGE_ALLOW_PLAIN_HTTP: 'perhaps' is neither yes nor no; give 1 or 0"):
        PLAIN.value(source(FLEETRIDGE_ALLOW_PLAIN_HTTP="perhaps"))


def test_a_choice_names_the_words_that_it_takes() -> None:
    with pytest.raises(ValueError, match="'all' is none of cuda, cpu"):
        setting_types.one_of("cuda", "cpu")("all")


def test_a_needed_setting_says_how_to_give_it() -> None:
    with pytest.raises(UsageError, match="--node is needed; give it or set FLEETRIDGE_NODE"):
        NODE.required(source())


def test_an_option_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="--square: give at least one value"):
        SQUARE.value(source("--square", ","))


def test_help_names_variable_and_default() -> None:
    parser = argparse.ArgumentParser()
    setting_types.add_all(parser, "settings", (REPS,))

    assert "[FLEETRIDGE_REPS; default: 25]" in " ".join(parser.format_help().split())


@pytest.mark.parametrize(("text", "value"), [("3%", 0.03), ("3 %", 0.03), ("3", 0.03), ("0.5%", 0.005), ("99%", 0.99)])
def test_a_share_is_given_in_per_cent(text: str, value: float) -> None:
    assert setting_types.per_cent(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["0", "-1%", "100%", "nan", "inf", "", "%", "3 percent", "1e-400"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="%"):
        setting_types.per_cent(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("24h", 86400), ("1.5 d", 129600)])
def test_a_length_of_time_is_a_number_with_a_unit(text: str, seconds: int) -> None:
    assert setting_types.duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["24", "h", "-1h", "1w", "1h30m", "999999999d", "1e3s", "∞h", "٣h"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no length of time|longer than 365d"):
        setting_types.duration(text)


def test_a_limit_leaves_some_time() -> None:
    assert setting_types.positive_duration("1s").total_seconds() == 1
    with pytest.raises(ValueError, match="above zero"):
        setting_types.positive_duration("0s")


SETTINGS: tuple[Setting[object], ...] = (*options.DELIVERING, *options.NAMING, *options.MEASURING, *options.COMMON)


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_all(parser, "all", SETTINGS)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--server", "https://f.example/a b"),
        ("--label", "rack=row 1", "--label", "site=-x"),
        ("--gpus", "0", "GPU-a", "--square", "512", "1024", "--force"),
        ("--node=-odd", "--cluster=--east"),
        ("--log-format", "json", "--state-dir", "/var/lib/f r"),
    ],
)
def test_another_process_reads_the_same_options(words: tuple[str, ...]) -> None:
    first = parsed(*words)

    assert parsed(*as_arguments(Source(first, {}), SETTINGS)) == first


def test_what_a_variable_gave_is_left_to_the_variable() -> None:
    """A process inherits it; on a command line everybody could read it."""
    assert as_arguments(Source(parsed(), {"FLEETRIDGE_SERVER": "https://f.example"}), SETTINGS) == ()
