"""CPU credit carries a host through booting and importing, and gives nothing to steady work."""

from __future__ import annotations

from mlcd_emulate.credits import CREDIT_S, LOADED_AFTER_S, CpuCredit

CORES = 0.1
WORKING = CpuCredit(left_s=0.0, lifted=False, most_mib=200.0)


def load(credit: CpuCredit, cpu_s: float) -> CpuCredit:
    """The credit after a program has loaded for so many CPU seconds on a whole core."""
    for _ in range(round(cpu_s / 0.1)):
        credit = credit.after(credit.used_s + 0.1, credit.seen_at + 0.1, CORES, credit.most_mib + 5.0)
    return credit


def test_a_new_host_runs_freely_until_its_credit_is_used() -> None:
    credit = load(CpuCredit(), CREDIT_S - 0.5)
    assert credit.lifted
    credit = load(credit, 1.0)
    assert not credit.lifted
    assert credit.left_s == 0


def test_what_has_loaded_and_computes_is_held_to_its_share() -> None:
    credit = load(CpuCredit(), 2.0)
    while credit.used_s < 2.0 + LOADED_AFTER_S:
        credit = credit.after(credit.used_s + 0.1, credit.seen_at + 0.1, CORES, credit.most_mib)
    assert not credit.lifted


def test_steady_work_earns_nothing() -> None:
    credit = WORKING
    for second in range(1, 600):
        credit = credit.after(used_s=CORES * second, now=float(second), cores=CORES, memory_mib=200.0)
    assert not credit.lifted
    assert credit.left_s == 0


def test_waiting_for_peers_at_every_step_earns_nothing() -> None:
    credit, used, now = WORKING, 0.0, 0.0
    for _ in range(600):
        credit = credit.after(used_s=used, now=now + 0.5, cores=CORES, memory_mib=200.0)
        used, now = used + CORES * 0.5, now + 1.0
        credit = credit.after(used_s=used, now=now, cores=CORES, memory_mib=200.0)
        assert not credit.lifted


def test_what_is_started_may_load_at_full_speed() -> None:
    credit = load(WORKING.anew(), CREDIT_S / 2)
    assert credit.lifted


def test_a_pause_lifts_nothing_but_idling_does() -> None:
    assert not WORKING.after(used_s=0.0, now=2.0, cores=CORES, memory_mib=200.0).lifted
    rested = WORKING.after(used_s=0.0, now=60.0, cores=CORES, memory_mib=200.0)
    assert rested.lifted
    assert rested.left_s == CREDIT_S


def test_looking_twice_at_the_same_moment_changes_nothing() -> None:
    credit = CpuCredit().after(used_s=1.0, now=1.0, cores=CORES, memory_mib=50.0)
    assert credit.after(used_s=1.5, now=1.0, cores=CORES, memory_mib=90.0) == credit
