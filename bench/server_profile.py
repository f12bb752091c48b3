"""What a server spends its time on: samples of its threads while it serves, and the steps of taking a report alone."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any

from pydantic_core import to_json

from fleetridge import strict_json
from fleetridge.report import Report
from fleetridge_server.ingest import intake
from fleetridge_server.ingest.body import inflated
from fleetridge_server.ingest.content_hash import content_sha256
from fleetridge_server.store.database import WRITE_THREADS, open_database
from fleetridge_server.store.upserts import in_chunks
from fleetridge_server.store.writing import Posted, write_calls

_EVERY_S = 0.02

# End of a file's path, a function or none for all of the file, and the part. From the innermost frame outwards the
# first that fits decides. What is in one part is not split further: a sample waits for the end of a call into C, so
# that it says the next line's name.
_PARTS = (
    ("fleetridge/strict_json.py", "parse", "examine"),
    ("ingest/body.py", "inflated", "examine"),
    ("ingest/intake.py", None, "examine"),
    ("store/current.py", "keep_values", "store: kept values"),
    ("store/sightings.py", "record_gpus", "store: gpus and nodes"),
    ("store/sightings.py", "record_nodes", "store: gpus and nodes"),
    ("store/writing.py", None, "store: the rest"),
    ("store/report_rows.py", None, "store: the rest"),
    ("api/reports.py", None, "take, the rest"),
    ("fleetridge_server/api/", None, "pages"),
    ("asyncio/base_events.py", None, "HTTP"),
)
_EVALUATOR = "evaluator"

# As many calls as there are threads that wait while one stores.
_TOGETHER = WRITE_THREADS - 1
_STORE_ALONE = "store, a call at a time"
_STORE_TOGETHER = f"store, {_TOGETHER} calls at a time"

# Where a thread is that waits for work or for others.
_IDLE_FILES = ("threading.py", "queue.py", "selectors.py", "connection_cy.py")
_WAITING = {
    ("database.py", "_on_begin"): "wait for the writer before",
    ("report_writer.py", "write"): "wait for the writer before",
}


@contextmanager
def sampled_parts(file: Path) -> Iterator[None]:
    """Write, at the end of the block, the share of samples of busy threads in each part."""
    end = threading.Event()
    seen: Counter[str] = Counter()
    thread = threading.Thread(target=_sample, args=(end, seen), daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        total = sum(seen.values())
        file.write_text(json.dumps({part: count / total for part, count in seen.items()}), encoding="utf-8")


def step_times_ms(url: str, calls: Sequence[bytes]) -> dict[str, float]:
    """Milliseconds of processor time in each step of taking a report, from compressed calls that are new."""
    spent: dict[str, float] = defaultdict(float)
    reports = 0
    posted: list[Posted] = []
    database = open_database(url)
    for call in calls:
        with _timed(spent, "inflate"):
            text = inflated(call, "gzip")
        with _timed(spent, "parse"):
            value = strict_json.parse(text)
        assert intake.is_envelope(value)  # noqa: S101 # of the bench
        items: Any = value["reports"]
        now = datetime.now(timezone.utc)
        with _timed(spent, "examine"):
            examined = [intake.examined(item, sent_at=None, received_at=now) for item in items]
        for item in items:
            with _timed(spent, "of it validate"):
                report = Report.model_validate(item)
            with _timed(spent, "hash"):
                content_sha256(report)
            with _timed(spent, "write out"):
                text = to_json(item)
            with _timed(spent, "compress"):
                intake.packed(text)
        posted.append(Posted([item for item in examined if isinstance(item, intake.Accepted)]))
        reports += len(items)
    write_calls(database, posted[:_TOGETHER])  # statements are put together, and pages read, the first time only
    posted = posted[_TOGETHER:]
    half = len(posted) // 2
    with _timed(spent, _STORE_ALONE):
        for one in posted[:half]:
            write_calls(database, [one])
    with _timed(spent, _STORE_TOGETHER):
        for together in in_chunks(posted[half:], _TOGETHER):
            write_calls(database, together)
    database.close()
    reports_of_half = sum(len(call.accepted) for call in posted) / 2
    halves = (_STORE_ALONE, _STORE_TOGETHER)
    return {step: own / (reports_of_half if step in halves else reports) * 1e3 for step, own in spent.items()}


@contextmanager
def _timed(spent: dict[str, float], step: str) -> Iterator[None]:
    started = time.thread_time()
    yield
    spent[step] += time.thread_time() - started


def _sample(end: threading.Event, seen: Counter[str]) -> None:
    own = threading.get_ident()
    while not end.wait(_EVERY_S):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001 # what samplers are told to use
            if ident != own and not _is_idle(frame):
                seen[_EVALUATOR if names.get(ident) == _EVALUATOR else _part(frame)] += 1


def _is_idle(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    is_worker = name.endswith("_backends/_asyncio.py") and frame.f_code.co_name == "run"
    return is_worker or name.endswith(_IDLE_FILES)


def _part(frame: FrameType | None) -> str:
    while frame is not None:
        name, function = frame.f_code.co_filename, frame.f_code.co_name
        for (end, waiting), part in _WAITING.items():
            if name.endswith(end) and function == waiting:
                return part
        for end, wanted, part in _PARTS:
            fits = end in name if end.endswith("/") else name.endswith(end)
            if fits and wanted in (None, function):
                return part
        frame = frame.f_back
    return "else"
