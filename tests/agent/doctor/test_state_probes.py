"""Whether the state directory can hold what must not be lost."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetridge_agent.doctor import state_probes
from support.nodes import SickNode, severities

MIB = 1024**2


def room(monkeypatch: pytest.MonkeyPatch, free_bytes: int, *, inodes: int = 1000, inodes_free: int = 500) -> None:
    figures = SimpleNamespace(f_bavail=free_bytes, f_frsize=1, f_files=inodes, f_favail=inodes_free)
    monkeypatch.setattr(os, "statvfs", lambda _: figures)


def test_a_folder_that_can_be_written_is_well_and_left_as_it_was(node: SickNode) -> None:
    found = node.findings(state_probes.state_dir)

    assert severities(found)[0] == ("state directory", "ok")
    assert list(node.root.iterdir()) == []


def test_a_file_in_its_place_is_a_problem(node: SickNode) -> None:
    node.with_file("state", "")
    (found,) = node.findings(state_probes.state_dir)

    assert (found.what, found.severity) == ("state directory", "problem")
    assert "--state-dir" in found.remedy


@pytest.mark.parametrize("closed", ["spool", "locks/node.lock"])
def test_what_another_user_left_there_is_a_problem(
    node: SickNode, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    node.with_file("state/spool/1-report.json", "{}")
    node.with_file("state/locks/node.lock", "")
    monkeypatch.setattr(os, "access", lambda path, _: not str(path).endswith(closed))
    (found,) = node.findings(state_probes.state_dir)

    assert (found.what, found.severity) == ("state directory", "problem")
    assert closed in found.seen
    assert "chown" in found.remedy


def test_a_read_only_disk_is_a_problem(node: SickNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    (found,) = node.findings(state_probes.state_dir)

    assert found.seen.endswith("cannot be written: Read-only file system")


@pytest.mark.parametrize(
    ("free_bytes", "severity"), [(15 * MIB, "problem"), (200 * MIB, "warning"), (2048 * MIB, "ok")]
)
def test_room_for_reports_is_looked_at(
    node: SickNode, monkeypatch: pytest.MonkeyPatch, free_bytes: int, severity: str
) -> None:
    room(monkeypatch, free_bytes)

    assert ("disk", severity) in severities(node.findings(state_probes.state_dir))


def test_a_disk_without_inodes_is_full_however_much_room_it_has(
    node: SickNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    room(monkeypatch, 2048 * MIB, inodes_free=0)

    assert ("disk", "problem") in severities(node.findings(state_probes.state_dir))


def test_a_file_system_that_counts_no_inodes_has_enough(node: SickNode, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 2048 * MIB, inodes=0, inodes_free=0)

    assert ("disk", "ok") in severities(node.findings(state_probes.state_dir))


def mounted(node: SickNode, *lines: str) -> list[tuple[str, str]]:
    node.with_file("proc/self/mounts", "\n".join(lines))
    return severities(node.findings(state_probes.state_dir))


@pytest.mark.parametrize("kind", ["nfs4", "lustre", "beegfs", "fuse.sshfs", "ceph"])
def test_a_shared_file_system_is_a_warning(node: SickNode, kind: str) -> None:
    found = mounted(node, "/dev/vda / ext4 rw 0 0", f"server:/home {node.root} {kind} rw 0 0")

    assert ("state directory", "warning") in found


@pytest.mark.parametrize("kind", ["ext4", "xfs", "tmpfs", "overlay", "fuse.fuse-overlayfs"])
def test_a_disk_of_this_node_is_well(node: SickNode, kind: str) -> None:
    found = mounted(node, "server:/ / nfs4 rw 0 0", f"/dev/vdb {node.root} {kind} rw 0 0", "x /other nfs rw 0 0")

    assert ("state directory", "warning") not in found


def test_of_two_mounts_on_one_place_the_later_counts(node: SickNode) -> None:
    found = mounted(node, f"a {node.root} ext4 rw 0 0", f"b {node.root} nfs rw 0 0")

    assert ("state directory", "warning") in found


def test_a_mount_with_a_space_in_its_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "my disk").mkdir()
    node = SickNode(tmp_path / "my disk")
    escaped = str(node.root).replace(" ", "\\040")

    assert ("state directory", "warning") in mounted(node, f"b {escaped} nfs rw 0 0", "half a line")


def test_an_empty_spool_is_well(node: SickNode) -> None:
    assert severities(node.findings(state_probes.spool)) == [("spool", "ok")]


def test_reports_that_wait_are_a_warning(node: SickNode) -> None:
    node.with_file("state/spool/000000000001-a.json", "{}").with_file("state/spool/000000000002-b.json", "{}")
    (found,) = node.findings(state_probes.spool)

    assert (found.severity, found.seen) == ("warning", "2 reports wait, 4.00 B")
    assert "fleetridge-agent flush" in found.remedy


def test_a_full_spool_is_a_problem(node: SickNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_probes, "MAX_REPORTS", 1)
    node.with_file("state/spool/000000000001-a.json", "{}")

    assert severities(node.findings(state_probes.spool)) == [("spool", "problem")]


def test_dead_letters_and_broken_files_are_told(node: SickNode) -> None:
    node.with_file("state/dead-letter/000000000001-a.json", "{}")
    node.with_file("state/dead-letter/000000000001-a.json.reason.txt", "rejected")
    node.with_file("state/quarantine/x.json", "{")

    assert severities(node.findings(state_probes.spool)) == [
        ("spool", "ok"),
        ("dead letters", "warning"),
        ("quarantine", "warning"),
    ]


def test_settings_that_can_be_read_are_well(node: SickNode) -> None:
    node.environ["FLEETRIDGE_CLUSTER"] = "east"

    assert severities(node.findings(state_probes.settings)) == [("settings", "ok")]


def test_a_value_that_cannot_be_read_is_a_problem(node: SickNode) -> None:
    node.environ["FLEETRIDGE_REPS"] = "many"
    (found,) = node.findings(state_probes.settings)

    assert (found.severity, found.seen) == ("problem", "FLEETRIDGE_REPS: 'many' is not a whole number")


def test_a_misspelt_variable_is_a_warning_that_names_the_nearest(node: SickNode) -> None:
    node.environ["FLEETRIDGE_CLUSTR"] = "east"
    (found,) = node.findings(state_probes.settings)

    assert (found.severity, found.remedy) == ("warning", "did you mean FLEETRIDGE_CLUSTER?")


@pytest.mark.parametrize(
    ("mode", "severity"), [(0o600, "ok"), (0o400, "ok"), (0o440, "ok"), (0o644, "warning"), (0o660, "warning")]
)
def test_a_token_that_others_may_read_is_a_warning(node: SickNode, mode: int, severity: str) -> None:
    node.with_file("token", "made-up")
    (node.root / "token").chmod(mode)
    (found,) = node.findings(state_probes.token_file, "--token-file", str(node.root / "token"))

    assert found.severity == severity
    assert f"{mode:04o}" in found.seen
    assert "made-up" not in str(found)


def test_no_token_file_is_nobodys_trouble(node: SickNode) -> None:
    assert node.findings(state_probes.token_file) == []
    assert node.findings(state_probes.token_file, "--token-file", "/nowhere/token") == []
