"""Owners of jobs, and their monthly budgets, on both databases."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mlcd.core.accounts import Account, Role, Team
from mlcd.core.run import JobState
from mlcd.core.task import Charge, TaskKind
from mlcd.errors import AllowanceError, NotFoundError
from mlcd.store import Store
from mlcd.store.spending import month_start
from store.store_samples import job, task


def hire(store: Store, name: str, budget_usd: float | None = None, team: str = "team") -> None:
    store.accounts.add(Account(name, Role.USER, team, 0.0, budget_usd))


def spend(store: Store, job_id: str, usd: float, at: float) -> None:
    """A task of that time with a bill."""
    known = replace(task(len(store.tasks(job_id)) + 1, job_id), intended_at=at)
    store.add_task(known)
    store.put_charges(job_id, known.id, TaskKind.PROBE, [Charge("x", 1.0, usd)])


def test_what_was_spent_this_month_counts_and_what_was_before_does_not(store: Store) -> None:
    hire(store, "ada", budget_usd=10.0)
    store.add_job(job("old", owner="ada", budget_usd=9.0))
    store.change_job("old", state=JobState.STOPPED)
    spend(store, "old", 8.0, at=month_start(time.time()) - 60)
    store.add_job(job("new", owner="ada", budget_usd=10.0))
    store.change_job("new", state=JobState.SUCCEEDED)
    spend(store, "new", 6.0, at=time.time())
    with pytest.raises(AllowanceError, match=r"only \$4.00 are left"):
        store.add_job(job("more", owner="ada", budget_usd=5.0))
    store.add_job(job("less", owner="ada", budget_usd=4.0))
    own, team = store.accounts.allowances("ada")
    assert (own.spent_usd, own.committed_usd, own.left_usd) == (6.0, 4.0, 0.0)
    assert team.left_usd is None


def test_a_job_at_work_holds_what_it_may_still_spend(store: Store) -> None:
    hire(store, "ada", budget_usd=10.0)
    store.add_job(job("one", owner="ada", budget_usd=6.0))
    spend(store, "one", 5.0, at=time.time())
    own, _ = store.accounts.allowances("ada")
    assert (own.spent_usd, own.committed_usd) == (5.0, 1.0)
    store.change_job("one", state=JobState.STOPPED)
    store.add_job(job("two", owner="ada", budget_usd=5.0))
    with pytest.raises(AllowanceError):
        store.change_job("one", state=JobState.SEARCHING)
    assert store.job("one").state is JobState.STOPPED


def test_replays_cost_nothing_and_a_controller_is_not_held_up(store: Store) -> None:
    hire(store, "ada", budget_usd=1.0)
    store.add_job(job("replayed", owner="ada", budget_usd=100.0, virtual_clock=True))
    store.add_job(job("real", owner="ada", budget_usd=1.0))
    store.accounts.change("ada", budget_usd=0.0)
    store.change_job("real", stop_asked=True)
    assert store.job("real").stop_asked


def test_submitting_at_once_does_not_overdraw_a_team(store: Store) -> None:
    store.accounts.put_team(Team("red", 10.0))
    for name in ("ada", "bob"):
        hire(store, name, team="red")

    def submit(number: int) -> bool:
        try:
            store.add_job(job(f"job-{number}", owner=("ada", "bob")[number % 2], budget_usd=3.0))
        except AllowanceError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(submit, range(16))) == 3


def test_a_job_is_found_among_its_owners_jobs_only(store: Store) -> None:
    store.add_job(job("digits-1", owner="ada"))
    store.add_job(job("digits-2", owner="bob"))
    assert store.job("digits", owners={"ada"}).id == "digits-1"
    with pytest.raises(NotFoundError) as error:
        store.job("digits-2", owners={"ada"})
    assert "digits-2" not in error.value.hint
    assert [line.id for line in store.job_lines(owners={"bob"})] == ["digits-2"]


def test_the_setup_token_makes_one_admin_however_many_try(store: Store) -> None:
    store.accounts.offer_setup("digest")

    def first(number: int) -> bool:
        return store.accounts.add_first(Account(f"a{number}", Role.ADMIN, "team", 0.0), "hash", "digest")

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(first, range(8))) == 1
    assert store.accounts.count() == 1
