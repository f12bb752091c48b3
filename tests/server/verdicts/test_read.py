"""Which evaluation answers for a time, and what is known of its gpus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from fleetridge_server.engine.cohort import Span
from fleetridge_server.evaluation import judgement as answering
from fleetridge_server.evaluation.judgement import evaluation_for
from fleetridge_server.verdicts.save import forget_evaluations
from fleetridge_server.verdicts.stored import (
    ANSWERS_FOR,
    EvaluationRef,
    columns_of,
    order_of,
    summaries_of,
    verdicts_of,
)
from support.evaluations import DAY, HOUR, NOON, Fleet, a_fleet, a_report

SECOND = timedelta(seconds=1)
SLOW = {"GPU-2": 0.12}


@contextmanager
def answer_for(
    fleet: Fleet, as_of: datetime, *, explicit: bool = True
) -> Iterator[tuple[Session, EvaluationRef | None]]:
    """The evaluation that answers for a time, and the session that it was read in."""
    device_group = fleet.device_group()
    with fleet.database.reading() as session:
        yield session, evaluation_for(session, device_group.device_id, Span(as_of), explicit=explicit)


def kind_of(fleet: Fleet, as_of: datetime, *, explicit: bool = True) -> tuple[str, datetime | None]:
    """What kind of evaluation answers for a time, and as of when it is."""
    with answer_for(fleet, as_of, explicit=explicit) as (_, ref):
        if ref is None:
            return "none", None
        kinds = {"made": ref.unstored is not None, "newest": ref.is_current, "historical": ref.historical}
        return next((kind for kind, holds in kinds.items() if holds), "of the series"), ref.as_of


@pytest.fixture
def known(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet with two evaluations that counts as a large one, for which nothing is made for an answer."""
    fleet.store(a_fleet(SLOW))
    fleet.evaluate(NOON + HOUR)
    fleet.evaluate(NOON + 3 * HOUR)
    monkeypatch.setattr(answering, "MOST_GPUS_AT_ONCE", 0)
    return fleet


def test_the_newest_evaluation_answers_for_now_however_old_it_is(known: Fleet) -> None:
    """And for every time since it was made."""
    newest = "newest", NOON + 3 * HOUR

    assert kind_of(known, NOON + 99 * DAY, explicit=False) == newest
    assert [kind_of(known, NOON + 3 * HOUR + since) for since in (0 * HOUR, SECOND, 99 * DAY)] == [newest] * 3


def test_for_an_earlier_time_the_last_before_answers_without_the_numbers_of_single_gpus(known: Fleet) -> None:
    """Order, figures and states are those of then."""
    with answer_for(known, NOON + 2 * HOUR) as (session, ref):
        assert ref is not None
        assert (ref.as_of, ref.has_verdicts) == (NOON + HOUR, False)
        assert verdicts_of(session, ref, ["GPU-2"]) == {}
        assert len(order_of(session, ref)) == 8
        summaries = summaries_of(session, ref)
        assert (summaries["GPU-2"].state, len(summaries)) == ("outlier", 8)
        assert summaries["GPU-2"].loss == pytest.approx(0.12, abs=1e-3)
        assert set(summaries_of(session, ref, states=["outlier"])) == {"GPU-2"}


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (HOUR - SECOND, ("none", None)),
        (HOUR, ("of the series", NOON + HOUR)),
        (3 * HOUR - SECOND, ("of the series", NOON + HOUR)),
        (3 * HOUR, ("newest", NOON + 3 * HOUR)),
    ],
)
def test_an_evaluation_answers_until_the_next(
    known: Fleet, at: timedelta, expected: tuple[str, datetime | None]
) -> None:
    """From its own time on, and not for what was before."""
    assert kind_of(known, NOON + at) == expected


def test_after_a_day_and_a_half_without_one_nobody_knows(known: Fleet) -> None:
    """What was said then says nothing any more, unless nothing was said since."""
    known.evaluate(NOON + 9 * DAY)

    assert kind_of(known, NOON + 3 * HOUR + ANSWERS_FOR) == ("of the series", NOON + 3 * HOUR)
    assert kind_of(known, NOON + 3 * HOUR + ANSWERS_FOR + SECOND) == ("none", None)


def test_a_historical_evaluation_answers_with_all_numbers(known: Fleet) -> None:
    """For its time and until the next one of the series."""
    known.evaluator.evaluate_past(known.device_group(), NOON + 2 * HOUR)

    assert kind_of(known, NOON + 2 * HOUR) == ("historical", NOON + 2 * HOUR)
    assert kind_of(known, NOON + 3 * HOUR - SECOND) == ("historical", NOON + 2 * HOUR)
    assert kind_of(known, NOON + 2 * HOUR - SECOND) == ("of the series", NOON + HOUR)
    with answer_for(known, NOON + 2 * HOUR) as (session, ref):
        assert ref is not None
        assert verdicts_of(session, ref, ["GPU-2"])["GPU-2"].verdict.state == "outlier"
        assert columns_of(session, ref, [0]) is not None


def test_a_historical_evaluation_as_of_the_time_of_an_older_one_answers_in_its_place(known: Fleet) -> None:
    """That is what it was made for; in the place of the newest none is needed."""
    for at in (NOON + HOUR, NOON + 3 * HOUR):
        known.evaluator.evaluate_past(known.device_group(), at)

    assert kind_of(known, NOON + HOUR) == ("historical", NOON + HOUR)
    assert kind_of(known, NOON + 3 * HOUR) == ("newest", NOON + 3 * HOUR)


def test_what_somebody_had_made_of_the_time_since_leaves_the_newest_in_its_place(known: Fleet) -> None:
    """It answers for its own time alone."""
    known.evaluator.evaluate_past(known.device_group(), NOON + 5 * HOUR)

    assert kind_of(known, NOON + 5 * HOUR) == ("historical", NOON + 5 * HOUR)
    assert kind_of(known, NOON + 6 * HOUR) == ("newest", NOON + 3 * HOUR)
    assert kind_of(known, NOON + 6 * HOUR, explicit=False) == ("newest", NOON + 3 * HOUR)


def test_of_a_small_fleet_one_is_made_for_the_answer(known: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is stored that has the numbers of its gpus; for now none is made."""
    monkeypatch.setattr(answering, "MOST_GPUS_AT_ONCE", 8)

    assert kind_of(known, NOON + 2 * HOUR) == ("made", NOON + 2 * HOUR)
    assert kind_of(known, NOON - HOUR) == ("made", NOON - HOUR)
    assert kind_of(known, NOON + 4 * HOUR) == ("newest", NOON + 3 * HOUR)
    known.evaluator.evaluate_past(known.device_group(), NOON + 2 * HOUR)
    assert kind_of(known, NOON + 2 * HOUR) == ("historical", NOON + 2 * HOUR)


def test_of_a_small_fleet_what_somebody_had_stored_answers_for_its_very_time_alone(
    known: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know what was reported after it."""
    monkeypatch.setattr(answering, "MOST_GPUS_AT_ONCE", 8)
    known.evaluator.evaluate_past(known.device_group(), NOON + HOUR)

    assert kind_of(known, NOON + HOUR) == ("historical", NOON + HOUR)
    assert kind_of(known, NOON + HOUR + SECOND) == ("made", NOON + HOUR + SECOND)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_state_of_the_past_is_as_old_as_the_series_says_where_it_said_the_same(
    known: Fleet, monkeypatch: pytest.MonkeyPatch, *, is_stored: bool
) -> None:
    """A state that nobody had said by then began as of the answer."""
    monkeypatch.setattr(answering, "MOST_GPUS_AT_ONCE", 8)
    at = NOON + 2 * HOUR
    known.store([a_report("GPU-3", 600.0, at=at - since * SECOND) for since in (1, 2, 3)], received_at=at - SECOND)
    if is_stored:
        known.evaluator.evaluate_past(known.device_group(), at)

    with answer_for(known, at) as (session, ref):
        assert ref is not None
        assert (ref.unstored is None) == is_stored
        summaries, verdicts = summaries_of(session, ref), verdicts_of(session, ref, ["GPU-2", "GPU-3"])
    since = {gpu_id: own.since for gpu_id, own in summaries.items()}
    assert since == {f"GPU-{gpu}": at if gpu == 3 else NOON + HOUR for gpu in range(8)}
    assert {gpu_id: own.since for gpu_id, own in verdicts.items()} == {"GPU-2": NOON + HOUR, "GPU-3": at}


def test_one_that_is_made_for_an_answer_says_what_a_stored_one_says(
    known: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same code: every gpu, order, figure and value."""

    def said() -> object:
        with answer_for(known, NOON + 2 * HOUR) as (session, ref):
            assert ref is not None
            gpus = [f"GPU-{number}" for number in range(8)]
            verdicts = {gpu: own.verdict for gpu, own in verdicts_of(session, ref, gpus).items()}
            columns = columns_of(session, ref, [0, 1]) or {}
            values = {number: (own.counted, own.groups, bytes(own.values)) for number, own in columns.items()}
            return verdicts, order_of(session, ref).rows, values, ref.body, summaries_of(session, ref)

    known.evaluator.evaluate_past(known.device_group(), NOON + 2 * HOUR)
    stored = said()
    with known.database.writing() as session:
        with answer_for(known, NOON + 2 * HOUR) as (_, ref):
            assert ref is not None
            assert ref.evaluation_id is not None
            forgotten = ref.evaluation_id
        forget_evaluations(session, [forgotten])
    monkeypatch.setattr(answering, "MOST_GPUS_AT_ONCE", 8)

    assert kind_of(known, NOON + 2 * HOUR)[0] == "made"
    assert said() == stored
