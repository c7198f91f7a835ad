"""CPU credit carries a host through booting and importing, and gives nothing to steady work."""

from __future__ import annotations

from mlcd.emulate.credits import LAUNCH_CREDIT_S, CpuCredit

CORES = 0.1


def test_a_new_host_runs_freely_until_its_credit_is_used() -> None:
    credit = CpuCredit().after(used_s=3.0, now=2.0, cores=CORES)
    assert credit.lifted
    credit = credit.after(used_s=LAUNCH_CREDIT_S + 0.5, now=3.0, cores=CORES)
    assert not credit.lifted
    assert credit.left_s == 0


def test_steady_work_earns_nothing() -> None:
    credit = CpuCredit(left_s=0.0, lifted=False)
    for second in range(1, 600):
        credit = credit.after(used_s=CORES * second, now=float(second), cores=CORES)
    assert not credit.lifted
    assert credit.left_s == 0


def test_a_pause_lifts_nothing_but_idling_does() -> None:
    credit = CpuCredit(left_s=0.0, lifted=False)
    assert not credit.after(used_s=0.0, now=2.0, cores=CORES).lifted
    rested = credit.after(used_s=0.0, now=60.0, cores=CORES)
    assert rested.lifted
    assert rested.left_s == LAUNCH_CREDIT_S


def test_looking_twice_at_the_same_moment_changes_nothing() -> None:
    credit = CpuCredit().after(used_s=1.0, now=1.0, cores=CORES)
    assert credit.after(used_s=1.5, now=1.0, cores=CORES) == credit
