from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.reports import make_report

if TYPE_CHECKING:
    from support.app_client import AppClient


@pytest.mark.parametrize(
    "url",
    [
        "/livez",
        "/readyz",
        "/devices",
        "/devices/h200/ridge",
        "/devices/nothing/ridge",
        "/gpus/nothing",
        "/nodes/nothing",
        "/openapi.json",
        "/nowhere",
        "/reports",
    ],
)
def test_head_answers_as_get_does_but_for_the_body(one_report: AppClient, url: str) -> None:
    """Status and headers are the same, those of an error too."""
    same = {"X-Request-ID": "same"}
    got = one_report.get(url, params={"as_of": "2026-12-01"} if url.startswith("/devices") else {}, headers=same)
    head = one_report.request("HEAD", str(got.request.url), headers=same)

    assert (head.status_code, head.headers) == (got.status_code, got.headers)
    assert head.content == b""


def test_head_of_a_report_says_that_it_is_there(client: AppClient) -> None:
    """Without its document."""
    report = make_report()
    client.post("/reports", json=report)

    assert client.request("HEAD", f"/reports/{report['report_id']}").status_code == 200
