"""Progress and logs."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from fleetridge_agent.log import LOGGER, LogFormat, configure, stray_output_logged
from fleetridge_agent.progress import ProgressLine

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


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}


@pytest.mark.parametrize(
    ("stream", "log_format", "environ", "is_json"),
    [
        (io.StringIO(), "auto", POD, True),
        (io.StringIO(), "auto", {}, False),
        (Terminal(), "auto", POD, False),
        (io.StringIO(), "text", POD, False),
        (Terminal(), "json", {}, True),
    ],
)
def test_logs_are_for_programs_where_asked_for_and_by_themselves_in_a_pod_that_nobody_watches(
    stream: io.StringIO, log_format: LogFormat, environ: dict[str, str], is_json: bool
) -> None:
    configure(stream, log_format=log_format, environ=environ)
    log.info("measuring")

    assert stream.getvalue().startswith("{") == is_json


def entries(stream: io.StringIO) -> list[dict[str, str]]:
    return [json.loads(line) for line in lines(stream)]


def test_a_warning_of_a_library_is_a_line_like_any_other() -> None:
    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    with stray_output_logged():
        warnings.simplefilter("always")
        warnings.warn("this is\nold", DeprecationWarning, stacklevel=1)

    assert entries(stream)[0]["message"].startswith("DeprecationWarning: this is\nold (")


def test_a_library_that_logs_trouble_is_heard_and_one_that_chats_is_not() -> None:
    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    with stray_output_logged():
        logging.getLogger("some.library").info("HTTP/1.1 200")
        logging.getLogger("some.library").warning("retrying")

    assert [entry["message"] for entry in entries(stream)] == ["retrying"]


def test_what_breaks_in_a_thread_is_a_line_with_its_traceback() -> None:
    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    with stray_output_logged():
        thread = threading.Thread(target=lambda: int("gone wrong"))
        thread.start()
        thread.join()

    assert "ValueError: invalid literal" in entries(stream)[0]["exception"]


def test_what_breaks_while_it_is_cleared_away_is_a_line_too() -> None:
    class Stubborn:
        def __del__(self) -> None:
            raise ValueError("will not go")

    stream = io.StringIO()
    configure(stream, log_format="json", environ={})
    with stray_output_logged():
        Stubborn()

    assert "will not go" in entries(stream)[0]["exception"]


def test_strays_go_their_own_way_again_afterwards() -> None:
    before = (warnings.showwarning, threading.excepthook, sys.unraisablehook, list(logging.root.handlers))
    with stray_output_logged():
        pass

    assert (warnings.showwarning, threading.excepthook, sys.unraisablehook, list(logging.root.handlers)) == before


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_line_that_cannot_be_put_together_says_so_in_the_same_format(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure(stream, log_format=log_format, environ={})
    log.warning("%d gpus", "many")

    (line,) = lines(stream)
    said = json.loads(line)["message"] if log_format == "json" else line.removeprefix("error: ")
    assert said == "a line of the log could not be put together: '%d gpus'"


def test_half_a_character_in_a_name_cannot_break_a_line_for_programs() -> None:
    """A name of the file system that is no UTF-8 reaches Python as lone surrogates, which no stream can encode."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)
    configure(stream, log_format="json", environ={})
    log.warning("node %s", "n\udcff\x1b[2J\u2028{}")

    assert json.loads(raw.getvalue())["message"] == "node n\udcff\x1b[2J\u2028{}"
    assert raw.getvalue().isascii()
    assert b"\x1b" not in raw.getvalue()


def test_a_traceback_cannot_pass_for_lines_of_the_log() -> None:
    stream = io.StringIO()
    configure(stream, log_format="text", environ={})
    log.error("unexpected", exc_info=ValueError("bad\nerror: all lost\x1b[2J"))

    assert lines(stream)[0] == "error: unexpected"
    assert lines(stream)[1:] == ["  ValueError: bad", r"  error: all lost\x1b[2J"]


def test_nobody_to_read_the_log_is_no_reason_to_break() -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    configure(Gone(), log_format="text", environ={})
    log.warning("said to nobody")
