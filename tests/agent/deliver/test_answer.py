"""What the server's answer means for the posted reports."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetridge_agent.deliver.answer import Answer, decide

ONE, TWO, THREE = sorted(str(uuid4()) for _ in range(3))


def results(*outcomes: tuple[str, str], errors: list[Any] | None = None) -> Answer:
    listed = [{"report_id": report_id, "outcome": outcome, "errors": errors or []} for report_id, outcome in outcomes]
    return Answer(200, json.dumps({"results": listed}).encode())


@pytest.mark.parametrize("outcome", ["created", "duplicate"])
def test_a_report_that_the_server_has_is_delivered(outcome: str) -> None:
    decision = decide(results((ONE, outcome)), [ONE])

    assert decision.delivered == {ONE}
    assert not decision.kept
    assert not decision.retry


@pytest.mark.parametrize("outcome", ["conflict", "rejected"])
def test_a_report_that_the_server_will_never_take_is_a_dead_letter(outcome: str) -> None:
    problem = {"field": "points[3].ms", "problem": "must be above 0"}
    decision = decide(results((ONE, outcome), errors=[problem]), [ONE])

    assert decision.dead == {ONE: f"{outcome}: points[3].ms: must be above 0"}
    assert not decision.kept


def test_results_are_matched_by_id_and_not_by_place() -> None:
    decision = decide(results((THREE, "rejected"), (ONE, "created"), (TWO, "duplicate")), [ONE, TWO, THREE])

    assert decision.delivered == {ONE, TWO}
    assert set(decision.dead) == {THREE}


def test_an_id_is_recognised_in_capitals() -> None:
    assert decide(results((ONE.upper(), "created")), [ONE]).delivered == {ONE}


def test_a_report_of_which_nothing_was_said_is_kept_and_tried_again() -> None:
    decision = decide(results((ONE, "created")), [ONE, TWO])

    assert decision.delivered == {ONE}
    assert decision.kept == {TWO}
    assert decision.retry


def test_ids_that_were_never_posted_change_nothing() -> None:
    decision = decide(results((THREE, "rejected"), (ONE, "created")), [ONE])

    assert decision.delivered == {ONE}
    assert not decision.dead


@pytest.mark.parametrize("outcome", ["accepted", "", "CREATED"])
def test_an_unknown_outcome_keeps_the_report(outcome: str) -> None:
    assert decide(results((ONE, outcome)), [ONE]).kept == {ONE}


def test_a_contradiction_keeps_the_report() -> None:
    assert decide(results((ONE, "created"), (ONE, "rejected")), [ONE]).kept == {ONE}


def test_the_same_result_twice_is_no_contradiction() -> None:
    assert decide(results((ONE, "created"), (ONE, "duplicate")), [ONE]).delivered == {ONE}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><body>Log in to the network</body></html>",
        b'{"results": [{"report_id": "',
        b"[]",
        b"null",
        b'"created"',
        b"{}",
        b'{"results": null}',
        b'{"results": {"report_id": "x", "outcome": "created"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_success_that_is_not_in_our_shape_keeps_everything(body: bytes) -> None:
    decision = decide(Answer(200, body), [ONE, TWO])

    assert decision.kept == {ONE, TWO}
    assert decision.retry
    assert not decision.server_responded


@pytest.mark.parametrize(
    "result",
    ["created", 7, None, {}, {"report_id": 7, "outcome": "created"}, {"report_id": "no uuid", "outcome": "created"}],
)
def test_a_malformed_result_does_not_spoil_its_neighbours(result: object) -> None:
    good = {"report_id": ONE, "outcome": "created", "errors": []}
    decision = decide(Answer(200, json.dumps({"results": [result, good]}).encode()), [ONE, TWO])

    assert decision.delivered == {ONE}
    assert decision.kept == {TWO}


@pytest.mark.parametrize("outcome", [None, 1, ["created"], {"created": True}])
def test_an_outcome_that_is_no_word_keeps_the_report(outcome: object) -> None:
    body = json.dumps({"results": [{"report_id": ONE, "outcome": outcome}]}).encode()

    assert decide(Answer(200, body), [ONE]).kept == {ONE}


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_a_passing_trouble_is_worth_another_try(status: int) -> None:
    decision = decide(Answer(status), [ONE, TWO])

    assert decision.kept == {ONE, TWO}
    assert decision.retry


@pytest.mark.parametrize(
    "status", [100, 201, 202, 204, 206, 400, 401, 402, 403, 404, 405, 409, 410, 415, 422, 426, 451]
)
def test_any_other_answer_keeps_the_reports_for_a_later_run(status: int) -> None:
    decision = decide(Answer(status, b'{"status": 0}'), [ONE, TWO])

    assert decision.kept == {ONE, TWO}
    assert not decision.dead
    assert not decision.retry


@pytest.mark.parametrize(
    ("status", "remedy"), [(401, "--token-file"), (403, "--cluster"), (404, "--server"), (415, "gzip")]
)
def test_an_answer_that_needs_a_person_names_the_remedy(status: int, remedy: str) -> None:
    assert remedy in decide(Answer(status), [ONE]).reason


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_its_target_is_named(status: int) -> None:
    decision = decide(Answer(status, location="https://other.example/\x1b[31mreports"), [ONE])

    assert decision.kept == {ONE}
    assert not decision.retry
    assert r"https://other.example/\x1b[31mreports" in decision.reason


def test_too_large_a_list_is_split() -> None:
    decision = decide(Answer(413), [ONE, TWO])

    assert decision.split
    assert decision.kept == {ONE, TWO}


def test_too_large_a_report_is_kept_as_it_cannot_be_split() -> None:
    decision = decide(Answer(413), [ONE])

    assert not decision.split
    assert decision.kept == {ONE}
    assert not decision.retry


def test_what_the_server_says_of_a_report_is_made_safe_to_print() -> None:
    decision = decide(results((ONE, "rejected"), errors=["bad\x1b[2J\nname"]), [ONE])

    assert decision.dead[ONE] == r"rejected: bad\x1b[2J\nname"


@pytest.mark.parametrize("errors", [None, "text", 3, {}, []])
def test_a_refusal_without_errors_is_still_a_refusal(errors: object) -> None:
    body = json.dumps({"results": [{"report_id": ONE, "outcome": "rejected", "errors": errors}]}).encode()

    assert decide(Answer(200, body), [ONE]).dead == {ONE: "rejected: no reason given"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
_OUTCOMES = st.sampled_from(["created", "duplicate", "conflict", "rejected", "later"])
_RESULTS = st.lists(
    st.fixed_dictionaries({"report_id": st.sampled_from([ONE, TWO, "x"]), "outcome": _OUTCOMES | _JSON}), max_size=4
)
_BODIES = (
    st.binary(max_size=40)
    | _JSON.map(lambda value: json.dumps(value).encode())
    | _RESULTS.map(lambda listed: json.dumps({"results": listed}).encode())
)


@given(status=st.integers(100, 599), body=_BODIES)
def test_every_report_has_exactly_one_fate_and_only_the_servers_word_ends_it(status: int, body: bytes) -> None:
    decision = decide(Answer(status, body), [ONE, TWO])
    fates = [*decision.delivered, *decision.dead, *decision.kept]

    assert sorted(fates) == [ONE, TWO]
    assert status == 200 or decision.kept == {ONE, TWO}
    assert bool(decision.kept) == bool(decision.reason)


TOO_NEW = {"field": "schema_version", "problem": "unknown schema version"}


def test_a_report_that_is_too_new_for_the_server_waits_for_its_upgrade() -> None:
    decision = decide(results((ONE, "rejected"), errors=[TOO_NEW]), [ONE])

    assert decision.kept == {ONE}
    assert not decision.dead
    assert not decision.retry
    assert decision.server_responded
    assert "upgrade" in decision.reason


@pytest.mark.parametrize(
    "errors", [[], [TOO_NEW, {"field": "points[0].ms", "problem": "x"}], [TOO_NEW, "x"], "x", None]
)
def test_a_report_with_any_other_fault_is_a_dead_letter(errors: Any) -> None:
    listed = [{"report_id": ONE, "outcome": "rejected", "errors": errors}]
    decision = decide(Answer(200, json.dumps({"results": listed}).encode()), [ONE])

    assert set(decision.dead) == {ONE}


@pytest.mark.parametrize(
    ("status", "one_by_one"), [(400, True), (403, True), (422, True), (500, True), (401, False), (503, False)]
)
def test_an_answer_that_one_report_may_be_the_cause_of_is_told_apart(status: int, one_by_one: bool) -> None:
    assert decide(Answer(status), [ONE, TWO]).one_by_one is one_by_one
