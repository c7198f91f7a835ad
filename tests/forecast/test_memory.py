"""Memory is bought by what the batch needs."""

from __future__ import annotations

from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.progress import Usage
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.forecast.memory import MARGIN, memory_need

OFFER = Offer("test", InstanceType("m", vcpus=4, memory_gib=64.0), 1.0, 8, usd_per_gib_hour=0.1)


def at(nodes: int, batch: int) -> Deployment:
    return Deployment(OFFER, nodes, batch)


def seen(nodes: int, batch: int, gib: float) -> Trial:
    measurement = Measurement(100.0, 99.0, 101.0, usage=Usage(peak_memory_gib=gib))
    return Trial(at(nodes, batch), measurement, 60.0, 1.0)


def test_between_two_measured_shares_the_need_lies_on_their_line() -> None:
    need = memory_need([seen(1, 100, 4.0), seen(1, 300, 12.0)])
    assert need.gib(at(1, 100)) == 4.0 * MARGIN
    assert need.gib(at(1, 200)) == 8.0 * MARGIN
    assert need.gib(at(2, 400)) == need.gib(at(1, 200))  # a node's share counts


def test_below_the_smallest_its_peak_counts_and_beyond_the_largest_the_whole_machine_is_taken() -> None:
    need = memory_need([seen(1, 100, 4.0), seen(1, 300, 12.0)])
    assert need.gib(at(8, 100)) == need.gib(at(1, 100))
    assert need.gib(at(1, 301)) == 0.0
    assert need.cut(at(1, 301)).node_memory_gib == 64.0


def test_a_larger_share_never_needs_less() -> None:
    need = memory_need([seen(1, 100, 8.0), seen(1, 300, 6.0)])
    assert need.gib(at(1, 300)) == need.gib(at(1, 100)) == 8.0 * MARGIN


def test_a_machine_is_not_cut_larger_than_it_is() -> None:
    assert memory_need([seen(1, 100, 63.0)]).gib(at(1, 100)) == 64.0


def test_the_price_follows_the_memory_and_the_deployment_stays_the_same() -> None:
    cut = memory_need([seen(2, 200, 8.0)]).cut(at(2, 200))
    assert cut == at(2, 200)
    assert at(2, 200).usd_per_hour == 2 * (1.0 + 6.4)
    assert cut.usd_per_hour == 2 * (1.0 + 1.0)


def test_where_a_cut_was_too_small_the_whole_machine_is_taken() -> None:
    """Probes of another type saw less: one with more cores may load more of the data at once."""
    peaks = [seen(1, 100, 4.0), seen(1, 300, 12.0)]
    cut = memory_need(peaks).cut(at(1, 200))
    need = memory_need([*peaks, Trial(cut, Failure(FailureKind.OUT_OF_MEMORY, "full"), 60.0, 1.0)])
    assert need.gib(at(1, 100)) == 4.0 * MARGIN
    assert [need.cut(at(1, batch)).node_memory_gib for batch in (150, 200, 300)] == [64.0] * 3
    full = Trial(at(1, 200), Failure(FailureKind.OUT_OF_MEMORY, "full"), 60.0, 1.0)  # with all the memory
    assert memory_need([*peaks, full]).gib(at(1, 200)) == 8.0 * MARGIN
