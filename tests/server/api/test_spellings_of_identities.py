"""One gpu whose UUID is spelled in several ways is one gpu."""

from __future__ import annotations

import json

import pytest

from support.app_client import AppClient
from support.evaluated import NOW
from support.fleet import gpu_ids, post, read, ridge
from support.reports import make_report

CARD = "1a2b3c4d-0000-4000-8000-0123456789AB"
SPELLINGS = (f"GPU-{CARD}", CARD, f"gpu-{CARD.lower()}", CARD.upper(), f"GPU-{CARD.lower()}", f" {CARD} ")
KEPT = f"GPU-{CARD.lower()}"


def test_reports_in_every_spelling_are_of_one_gpu(client: AppClient) -> None:
    post(client, [make_report(gpu__uuid=spelling) for spelling in SPELLINGS])
    assert gpu_ids(ridge(client)) == [KEPT]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_gpu_is_found_by_every_spelling(client: AppClient, spelling: str) -> None:
    post(client, [make_report(gpu__uuid=SPELLINGS[0])])
    assert read(client, f"/gpus/{spelling.strip()}")["gpu_id"] == KEPT


def test_a_mark_covers_a_gpu_in_every_spelling(client: AppClient) -> None:
    post(client, [make_report(gpu__uuid=SPELLINGS[0])])
    made = client.post("/marks", json={"kind": "retired", "reason": "sold", "author": "ops", "gpu_id": CARD})
    assert made.status_code == 201, made.text
    assert made.json()["gpu_id"] == KEPT


def test_the_report_keeps_what_was_sent(client: AppClient) -> None:
    sent = make_report(gpu__uuid=CARD)
    post(client, [sent], sent_at=NOW.isoformat())
    assert json.loads(client.get(f"/reports/{sent['report_id']}").content)["gpu"]["uuid"] == CARD


def test_a_slice_is_not_its_card_and_other_shapes_are_left_as_they_are(client: AppClient) -> None:
    others = (f"MIG-{CARD}", f"mig-{CARD.lower()}", "GPU-ABCDEF", "GPU-abcdef")
    post(client, [make_report(gpu__uuid=spelling) for spelling in others])
    assert sorted(gpu_ids(ridge(client))) == sorted(["GPU-ABCDEF", "GPU-abcdef", f"MIG-{CARD.lower()}"])
