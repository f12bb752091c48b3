"""The last verdict on a node, on disk."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from fleetridge_agent.check.last_verdict import LastVerdict, keep_last, read_last, still_holding, verdict_path
from fleetridge_agent.check.verdict import GpuVerdict, State

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def gpu(uuid: str, state: State = "ok", *, ago: timedelta = timedelta(), passing: bool = False) -> GpuVerdict:
    return GpuVerdict(uuid=uuid, index=0, state=state, judged_at=NOW - ago, passing=passing)


def states(last: LastVerdict | None) -> dict[str | None, State]:
    assert last is not None
    return {verdict.uuid: verdict.state for verdict in last.gpus}


def test_a_verdict_is_read_as_it_was_kept(tmp_path: Path) -> None:
    kept = keep_last(tmp_path, "n1", [gpu("GPU-a", "degraded")], all_gpus=True)

    assert read_last(tmp_path, "n1") == kept
    assert not list(tmp_path.rglob("*.tmp"))


def test_nodes_that_share_a_folder_keep_a_verdict_each(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a")], all_gpus=True)
    keep_last(tmp_path, "n/2", [gpu("GPU-b")], all_gpus=True)

    assert states(read_last(tmp_path, "n1")) == {"GPU-a": "ok"}
    assert states(read_last(tmp_path, "n/2")) == {"GPU-b": "ok"}
    assert read_last(tmp_path, "n_2") is None


def test_a_gpu_that_was_busy_keeps_its_last_verdict(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a", ago=DAY), gpu("GPU-b", ago=DAY)], all_gpus=True)
    kept = keep_last(tmp_path, "n1", [gpu("GPU-a", "unknown", passing=True), gpu("GPU-b", "degraded")], all_gpus=True)

    assert states(kept) == {"GPU-a": "ok", "GPU-b": "degraded"}
    assert kept.gpus[0].judged_at == NOW - DAY


def test_a_gpu_that_was_absent_and_is_busy_is_back(tmp_path: Path) -> None:
    gone = gpu("GPU-a", "degraded", ago=DAY).model_copy(update={"absent": 1})
    keep_last(tmp_path, "n1", [gone], all_gpus=True)
    kept = keep_last(tmp_path, "n1", [gpu("GPU-a", "unknown", passing=True)], all_gpus=True)

    assert [(verdict.state, verdict.absent) for verdict in kept.gpus] == [("unknown", 0)]


def test_a_gpu_that_cannot_be_measured_loses_its_last_verdict(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a", ago=DAY)], all_gpus=True)

    assert states(keep_last(tmp_path, "n1", [gpu("GPU-a", "unknown")], all_gpus=True)) == {"GPU-a": "unknown"}


def test_a_check_of_some_gpus_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a", "degraded"), gpu("GPU-b")], all_gpus=True)

    assert states(keep_last(tmp_path, "n1", [gpu("GPU-a")], all_gpus=False)) == {"GPU-a": "ok", "GPU-b": "ok"}


def test_a_check_of_all_gpus_forgets_those_that_are_gone(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a", "degraded"), gpu("GPU-b")], all_gpus=True)

    assert states(keep_last(tmp_path, "n1", [gpu("GPU-b")], all_gpus=True)) == {"GPU-b": "ok"}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"format": 2}', b"\xff", b'{"format": 1, "node": "n1", "gpus": [{"state": "fine"}]}'],
)
def test_a_file_that_is_no_verdict_is_none(tmp_path: Path, content: bytes) -> None:
    verdict_path(tmp_path, "n1").parent.mkdir()
    verdict_path(tmp_path, "n1").write_bytes(content)

    assert read_last(tmp_path, "n1") is None


def test_no_verdict_was_ever_kept(tmp_path: Path) -> None:
    assert read_last(tmp_path / "absent", "n1") is None


def test_a_verdict_holds_until_it_is_too_old() -> None:
    last = LastVerdict(node="n1", gpus=(gpu("GPU-a", ago=DAY), gpu("GPU-b", ago=DAY + timedelta(seconds=1))))
    young, old = still_holding(last, max_age=DAY, now=NOW)

    assert young.state == "ok"
    assert (old.state, old.reason) == ("unknown", "verdict too old")


def test_a_verdict_from_the_future_holds_for_nothing() -> None:
    last = LastVerdict(node="n1", gpus=(gpu("GPU-a", ago=-timedelta(hours=1)),))

    assert still_holding(last, max_age=DAY, now=NOW)[0].state == "unknown"


def test_a_clock_that_was_set_back_a_second_ages_nothing() -> None:
    last = LastVerdict(node="n1", gpus=(gpu("GPU-a", ago=-timedelta(seconds=1)),))

    assert still_holding(last, max_age=DAY, now=NOW)[0].state == "ok"


def test_gpus_can_be_asked_for_by_uuid_or_number() -> None:
    last = LastVerdict(node="n1", gpus=(gpu("GPU-a"), gpu("GPU-b").model_copy(update={"index": 1})))

    def named(*chosen: str) -> list[str | None]:
        return [found.uuid for found in still_holding(last, max_age=DAY, now=NOW, chosen=chosen)]

    assert named("GPU-b") == ["GPU-b"]
    assert named("0") == ["GPU-a"]
    assert named("7") == []


def test_later_versions_may_add_fields(tmp_path: Path) -> None:
    keep_last(tmp_path, "n1", [gpu("GPU-a")], all_gpus=True)
    path = verdict_path(tmp_path, "n1")
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "green"}))

    assert states(read_last(tmp_path, "n1")) == {"GPU-a": "ok"}


def test_a_pipe_in_place_of_the_verdict_keeps_nobody_waiting(tmp_path: Path) -> None:
    path = verdict_path(tmp_path, "n1")
    path.parent.mkdir(parents=True)
    os.mkfifo(path)

    assert read_last(tmp_path, "n1") is None
