import pytest

from mlcd.worker.noise.schedule import MOST_INTERVAL, OPENING_READINGS, Schedule


def run(schedule: Schedule, steps: int, step_seconds: float, extra_seconds: float) -> float:
    """The share of the time that measuring takes in the second half of so many steps."""
    plain = extra = 0.0
    for step in range(1, steps + 1):
        measured = schedule.due(step)
        schedule.took(step_seconds + (extra_seconds if measured else 0.0), measured)
        if step > steps / 2:
            plain += step_seconds
            extra += extra_seconds if measured else 0.0
    return extra / plain


@pytest.mark.parametrize("extra_seconds", [0.001, 0.01, 0.07, 0.5])
def test_measuring_takes_less_than_two_percent_of_the_time(extra_seconds: float) -> None:
    assert run(Schedule(), 20000, 0.1, extra_seconds) < 0.02


def test_it_opens_with_steps_in_a_row_unless_they_are_slow() -> None:
    def opening(step_seconds: float) -> int:
        schedule, measured = Schedule(), []
        for step in range(1, 200):
            measured.append(schedule.due(step))
            schedule.took(step_seconds, measured[-1])
        return max(i for i in range(len(measured)) if all(measured[2 : 2 + i]))

    assert opening(0.001) == OPENING_READINGS
    assert opening(0.29) == OPENING_READINGS
    assert opening(0.31) == 0


def test_what_costs_little_is_measured_often() -> None:
    schedule = Schedule()
    run(schedule, 2000, 0.1, 0.0001)
    assert schedule.interval == 8


def test_ranks_with_different_intervals_meet_at_the_same_steps() -> None:
    slow, fast = Schedule(), Schedule()
    run(slow, 3000, 0.1, 0.2)
    run(fast, 3000, 0.1, 0.01)
    assert slow.interval > fast.interval
    assert all(fast.due(step) for step in range(10_000) if slow.due(step))


def test_a_known_cost_is_a_floor() -> None:
    schedule = Schedule()
    schedule.at_least(64)
    run(schedule, 2000, 0.1, 0.0)
    assert schedule.interval == 64


def test_where_there_is_nothing_to_measure_it_looks_ever_less_often() -> None:
    schedule = Schedule()
    for _ in range(20):
        schedule.rest()
    assert schedule.interval == MOST_INTERVAL
