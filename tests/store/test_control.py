"""One controller at a time drives a job."""

from __future__ import annotations

import pytest

from mlcd.core.records import Controller
from mlcd.errors import NotFoundError
from mlcd.store import LostControlError, Store
from store.store_samples import all_at_once, controller, job


def never(_: Controller) -> bool:
    return False


def test_a_free_job_is_taken_and_a_taken_one_is_not(store: Store) -> None:
    store.add_job(job())
    taken = store.take_control("digits-1a2b", controller("mine"), never)
    assert taken == job(controller=controller("mine"))
    assert store.take_control("digits-1a2b", controller("theirs"), never) is None
    assert store.job("digits-1a2b") == taken


def test_a_dead_controller_is_replaced_and_told_so(store: Store) -> None:
    store.add_job(job(controller=controller("dead")))
    judged = []
    store.take_control("digits-1a2b", controller("mine"), lambda old: judged.append(old) or True)  # type: ignore[func-returns-value]
    assert judged == [controller("dead")]
    with pytest.raises(LostControlError):
        store.beat("digits-1a2b", "dead", 200.0)
    store.release("digits-1a2b", "dead")
    assert store.job("digits-1a2b").controller == controller("mine")


def test_taking_again_with_the_same_token_is_quiet(store: Store) -> None:
    store.add_job(job(controller=controller("mine", beat_at=1.0)))
    again = store.take_control("digits-1a2b", controller("mine", beat_at=2.0), never)
    assert again == job(controller=controller("mine", beat_at=2.0))


def test_a_heartbeat_is_seen_by_all(store: Store) -> None:
    store.add_job(job(controller=controller()))
    store.beat("digits-1a2b", "mine", 222.5)
    assert store.job("digits-1a2b").controller == controller(beat_at=222.5)


def test_a_released_job_is_free(store: Store) -> None:
    store.add_job(job(controller=controller()))
    store.release("digits-1a2b", "mine")
    store.release("digits-1a2b", "mine")
    assert store.job("digits-1a2b").controller is None
    with pytest.raises(LostControlError):
        store.beat("digits-1a2b", "mine", 1.0)
    assert store.take_control("digits-1a2b", controller("theirs"), never) is not None


def test_control_of_nothing_is_not_found(store: Store) -> None:
    with pytest.raises(NotFoundError):
        store.take_control("nothing", controller(), never)


TAKE = """
from mlcd.store import open_store
from store.store_samples import controller
url, number = sys.argv[1:]
store = open_store(url)
print("ready", flush=True)
input()
for job in range(40):
    if store.take_control(f"job-{job}", controller(number), lambda old: False):
        print(job)
"""


@pytest.mark.slow
def test_of_processes_that_take_control_at_once_exactly_one_wins(store: Store, url: str) -> None:
    for number in range(40):
        store.add_job(job(f"job-{number}"))
    won = [line for output in all_at_once(TAKE, 3, url) for line in output.split()]
    assert sorted(won, key=int) == [str(number) for number in range(40)]
