"""Jobs are found, listed and changed, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, event

from mlcd.core.plan import Forecast, Plan
from mlcd.core.run import JobState
from mlcd.core.study import Ledger
from mlcd.errors import NotFoundError, StoreError
from mlcd.store import LostControlError, Store, open_store
from store.store_samples import DEPLOYMENT, OFFER, controller, job, task, trial


def test_a_job_comes_back_as_it_was(store: Store) -> None:
    endless = Forecast(1.0, 0.5, float("inf"), 1.0, 0.5, float("inf"))
    record = job(
        plan=Plan(DEPLOYMENT, endless, Ledger(1, 2), "“best” \0 \N{SNOWMAN}"),
        offers=(OFFER,),
        cloud_options={"trace": "x.csv"},
        controller=controller(),
    )
    store.add_job(record)
    assert store.job(record.id) == record
    assert store.jobs() == [record]


def test_half_characters_from_a_log_do_not_stop_the_booking(store: Store) -> None:
    store.add_job(job(error="caf\udce9 \0"))
    assert store.job("digits").error == "caf? \0"


def test_the_same_id_twice_is_refused(store: Store) -> None:
    store.add_job(job())
    with pytest.raises(StoreError, match="digits-1a2b"):
        store.add_job(job(name="other"))
    assert [record.job.name for record in store.jobs()] == ["digits"]


def test_newest_means_last_written_whatever_the_clocks_say(store: Store) -> None:
    store.add_job(job("a", submitted_at=900.0))
    store.add_job(job("b", submitted_at=1.0, state=JobState.FAILED))
    store.add_job(job("c", submitted_at=500.0, state=JobState.PAUSED))
    assert [record.id for record in store.jobs()] == ["c", "b", "a"]
    assert [record.id for record in store.jobs(limit=2)] == ["c", "b"]
    assert [record.id for record in store.jobs({JobState.SEARCHING, JobState.PAUSED})] == ["c", "a"]
    assert store.jobs(states=()) == []


def test_a_job_is_found_by_id_name_and_beginning(store: Store) -> None:
    for id_, name in (("digits-1a", "digits"), ("digits-2b", "digits"), ("rnn-77%", "digits-1a")):
        store.add_job(job(id_, name))
    assert store.job("digits-1a").id == "digits-1a"
    assert store.job("digits").id == "digits-2b"
    assert store.job("rnn-77").id == "rnn-77%"
    with pytest.raises(NotFoundError, match="digits-2b, digits-1a"):
        store.job("digits-")


@pytest.mark.parametrize("wild", ["", "%", "_igits-1a2b", "DIGITS-1"])
def test_nothing_but_a_true_beginning_is_taken_for_one(store: Store, wild: str) -> None:
    store.add_job(job())
    with pytest.raises(NotFoundError):
        store.job(wild)


def test_a_mistyped_job_is_answered_with_the_nearest(store: Store) -> None:
    with pytest.raises(NotFoundError) as none:
        store.job("anything")
    assert none.value.hint == "There are no jobs yet."
    for number in range(7):
        store.add_job(job(f"digits-{number}"))
    with pytest.raises(NotFoundError) as near:
        store.job("digist-3")
    assert near.value.hint == "Did you mean 'digits-3'?"
    with pytest.raises(NotFoundError) as far:
        store.job("zzzzzzzzzz")
    assert far.value.hint == "The newest are: digits-6, digits-5, digits-4, digits-3, digits-2."


def test_a_change_is_kept_and_given_back(store: Store) -> None:
    store.add_job(job(controller=controller()))
    changed = store.change_job("digits-1a2b", "mine", state=JobState.TRAINING, confirmed=True)
    assert (changed.state, changed.confirmed, changed.controller) == (JobState.TRAINING, True, controller())
    assert store.job("digits-1a2b") == changed
    assert store.jobs({JobState.TRAINING}) == [changed]


def test_a_change_that_makes_no_sense_changes_nothing(store: Store) -> None:
    store.add_job(job())
    with pytest.raises(TypeError):
        store.change_job("digits-1a2b", colour="red")
    with pytest.raises(ValueError, match="keeps its id"):
        store.change_job("digits-1a2b", id="other")
    with pytest.raises(NotFoundError):
        store.change_job("digits", error="a name is not an id here")
    assert store.jobs() == [job()]


def test_a_controller_that_lost_control_changes_nothing(store: Store) -> None:
    store.add_job(job(controller=controller("theirs")))
    with pytest.raises(LostControlError):
        store.change_job("digits-1a2b", "mine", error="zombie")
    with pytest.raises(LostControlError):
        store.add_task(task(), token="mine")
    store.change_job("digits-1a2b", "theirs", controller=None)
    with pytest.raises(LostControlError):
        store.change_job("digits-1a2b", "theirs", error="nobody drives it")
    assert store.job("digits-1a2b") == job()
    assert store.tasks() == []


def test_changes_by_many_threads_do_not_undo_each_other(store: Store) -> None:
    store.add_job(job())

    def change(field: str) -> None:
        for number in range(1, 16):
            store.change_job("digits-1a2b", **{field: number})

    fields = ("exit_code", "budget_usd", "deadline_at", "ended_at")
    threads = [Thread(target=change, args=(field,)) for field in fields]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.job("digits-1a2b") == job(**dict.fromkeys(fields, 15))


def test_jobs_are_found_by_parts_of_names_and_ids_in_whatever_letters(store: Store) -> None:
    store.add_job(job("über-größe-1", name="Über Größe 50%"))
    store.add_job(job("other-2", name="other"))
    for words in ("größe", "GRÖSSE", "über-g", "50%", "E-1"):
        assert [line.id for line in store.job_lines(words=words)] == ["über-größe-1"], words
    for words in ("5_%", "500", "nothing"):
        assert store.job_lines(words=words) == [], words


def test_lists_are_filtered_without_reading_documents(sqlite_url: str) -> None:
    with closing(open_store(sqlite_url)) as store, recorded_statements() as statements:
        for owners in (None, {"ada"}, {"ada", "bob"}):
            for states in (None, {JobState.FAILED}):
                store.job_lines(owners, states, "words", before=9)
    database = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    for statement, parameters in statements:
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        chosen = plan[next(place for place, step in enumerate(plan) if step.startswith("LIST SUBQUERY")) + 1]
        assert "COVERING INDEX" in chosen, (statement, plan)
    assert len(statements) == 6


def test_lessons_are_of_the_newest_jobs_that_tried_something(store: Store) -> None:
    for id_ in ("a", "b", "c"):
        store.add_job(job(id_))
    foreign = replace(trial(2, "a"), task_id="")
    store.add_trial("a", trial(1, "a"))
    store.add_trial("a", foreign)
    store.add_trial("c", trial(1, "c"))
    assert [lesson[1:] for lesson in store.lessons(9)] == [
        (job("c"), (trial(1, "c"),)),
        (job("a"), (trial(1, "a"), foreign)),
    ]
    ((number, record, found),) = store.lessons(1)
    assert (record, found) == (job("c"), (trial(1, "c"),))
    assert [record.id for _, record, _ in store.lessons(9, before=number)] == ["a"]


@contextmanager
def recorded_statements() -> Iterator[list[tuple[str, Any]]]:
    """What is asked of a database about lists, with the values."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        if " IN (SELECT " in statement:
            seen.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", note)
