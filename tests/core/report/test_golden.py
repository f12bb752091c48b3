"""Golden reports of every version of the contract: what was once sent must be read for good."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetridge import strict_json
from fleetridge.report import Report

_FOLDER = Path(__file__).parents[2] / "fixtures" / "reports"
_GOLDEN = sorted(_FOLDER.glob("v*/*.json"))
_DIGESTS: dict[str, str] = json.loads((_FOLDER / "sha256.json").read_text())


@pytest.mark.parametrize("path", _GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_report_comes_through_whole(path: Path) -> None:
    """Nothing that was sent is lost or changed by reading and writing it."""
    sent = json.loads(path.read_text())

    assert sent == json.loads(Report.model_validate(sent).model_dump_json(exclude_unset=True))


@pytest.mark.parametrize("path", _GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_golden_report_keeps_its_hash(path: Path) -> None:
    """
    A retry must be recognised after an upgrade of the server.

    A new golden file is entered in sha256.json by hand; the digest of an old one never changes.
    """
    report = Report.model_validate(strict_json.loads(path.read_bytes()))

    assert _DIGESTS[f"{path.parent.name}/{path.name}"] == report.content_sha256().hex()


def test_every_digest_belongs_to_a_golden_report() -> None:
    """No file was dropped in silence."""
    assert set(_DIGESTS) == {f"{path.parent.name}/{path.name}" for path in _GOLDEN}
