"""Progress and logs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from fleetridge_agent.log import LOGGER, ProgressLine, configure

log = logging.getLogger(f"{LOGGER}.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Say yes, as a terminal does."""
        return True


@pytest.fixture(autouse=True)
def _restored_logger() -> Iterator[None]:
    logger = logging.getLogger(LOGGER)
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers, logger.level, logger.propagate = before


def lines(stream: io.StringIO) -> list[str]:
    return stream.getvalue().splitlines()


def test_information_is_a_sentence_and_trouble_names_its_level() -> None:
    stream = io.StringIO()
    configure(stream, log_format="text", environ={})
    log.info("measuring")
    log.warning("spooled")

    assert lines(stream) == ["measuring", "warning: spooled"]


def test_json_logs_are_one_object_a_line() -> None:
    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    log.warning("two\nlines of %s", "text")
    (entry,) = [json.loads(line) for line in lines(stream)]

    assert entry["message"] == "two\nlines of text"
    assert entry["level"] == "warning"
    assert entry["time"].endswith("+00:00")


def test_json_logs_hold_a_traceback_in_the_same_line() -> None:
    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    try:
        int("gone wrong")
    except ValueError:
        log.exception("unexpected")

    assert "ValueError: invalid literal" in json.loads(stream.getvalue())["exception"]


def test_colour_is_for_terminals_only() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        configure(stream, log_format="text", environ={})
        log.error("broken")

    assert terminal.getvalue() == "\x1b[31merror\x1b[0m: broken\n"
    assert pipe.getvalue() == "error: broken\n"


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_declined(environ: dict[str, str]) -> None:
    terminal = Terminal()
    configure(terminal, log_format="text", environ=environ)
    log.error("broken")

    assert terminal.getvalue() == "error: broken\n"


def test_an_empty_no_color_declines_nothing() -> None:
    terminal = Terminal()
    configure(terminal, log_format="text", environ={"NO_COLOR": ""})
    log.error("broken")

    assert "\x1b[31m" in terminal.getvalue()


def test_what_a_stranger_wrote_cannot_command_the_terminal() -> None:
    stream = io.StringIO()
    configure(stream, log_format="text", environ={})
    log.warning("node %s", "n1\x1b[2J\nerror: all lost")

    assert lines(stream) == [r"warning: node n1\x1b[2J\nerror: all lost"]


def test_progress_is_one_line_that_rewrites_itself_and_makes_way_for_logs() -> None:
    terminal = Terminal()
    progress = configure(terminal, log_format="text", environ={"NO_COLOR": "1"})
    progress.show("1 of 2")
    progress.show("2 of 2")
    log.info("done")

    assert terminal.getvalue() == "\r\x1b[K1 of 2\r\x1b[K2 of 2\r\x1b[Kdone\n"


@pytest.mark.parametrize(
    ("stream", "log_format", "environ"),
    [(io.StringIO(), "text", {}), (Terminal(), "json", {}), (Terminal(), "text", {"TERM": "dumb"})],
)
def test_progress_is_shown_on_a_terminal_only(stream: io.StringIO, log_format: str, environ: dict[str, str]) -> None:
    progress = configure(stream, log_format="json" if log_format == "json" else "text", environ=environ)
    progress.show("1 of 2")
    progress.clear()

    assert stream.getvalue() == ""


def test_a_progress_text_wider_than_the_terminal_is_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    ProgressLine(terminal, enabled=True).show("x" * 100)

    assert len(terminal.getvalue().removeprefix("\r\x1b[K")) == 19
