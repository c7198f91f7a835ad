"""What a study is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlcd.core.job import BatchSizes, Job, NodeRange, Resources
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.progress import Usage
from mlcd.core.study import ProbeTime
from mlcd.core.trial import Failure, FailureKind, Measurement, Phases, Trial
from mlcd.engine.failures import (
    refuse_broken_program,
    refuse_failed_starts,
    refuse_failing_cloud,
    trials_that_count,
)
from mlcd.engine.spaces import cut_to_measure, in_more_passes, recorded_space
from mlcd.engine.study import at_todays_memory, learnt_probe_time, learnt_start, training_share
from mlcd.errors import CloudError, TaskFailedError, UserError
from mlcd.search.table import table_of

OFFER = Offer("local", InstanceType("m", vcpus=1), usd_per_hour=1.0, max_nodes=4)
FULL = Deployment(OFFER, 1, 256)
SPACE = [FULL] * 9


def failed(reason: FailureKind, deployment: Deployment = FULL, fixes: int = 0) -> Trial:
    failure = Failure(reason, "it did", log_tail="the end")
    return Trial(deployment, failure, seconds=10.0, usd=0.1, fixes=fixes)


def measured() -> Trial:
    seen = Measurement(100.0, 98.0, 102.0)
    return Trial(FULL, seen, seconds=20.0, usd=0.1, phases=Phases(1.0, 2.0, 5.0, 12.0))


def job(accumulate: int = 1) -> Job:
    return Job(name="j", run="python train.py", batch_sizes=BatchSizes((256,), accumulate))


def test_a_probe_whose_machine_went_away_is_tried_again_but_not_forever() -> None:
    lost, crashed = failed(FailureKind.LOST), failed(FailureKind.CRASHED)
    assert trials_that_count([lost, crashed, lost], fixes=0) == (crashed,)
    assert trials_that_count([lost] * 3, fixes=0) == (lost,) * 3


def test_a_probe_that_lacked_memory_cut_from_its_machine_is_tried_again_with_all_of_it() -> None:
    """Else all larger batches would be taken not to fit."""
    offer = replace(OFFER, instance=replace(OFFER.instance, memory_gib=64.0), usd_per_gib_hour=0.1)
    whole = Deployment(offer, 1, 256)
    trials = [failed(FailureKind.OUT_OF_MEMORY, replace(whole, memory_gib=10.0))]
    assert trials_that_count(trials, fixes=0) == ()
    assert in_more_passes(job(accumulate=4), trials) == ()
    trials.append(failed(FailureKind.OUT_OF_MEMORY, whole))
    assert trials_that_count(trials, fixes=0) == (trials[1],)


def test_faults_of_a_program_that_was_fixed_count_no_more() -> None:
    full, crashed = failed(FailureKind.OUT_OF_MEMORY), failed(FailureKind.CRASHED)
    again = failed(FailureKind.CRASHED, fixes=1)
    assert trials_that_count([full, crashed, again], fixes=1) == (full, again)


def test_what_ran_out_of_memory_may_be_tried_in_more_passes() -> None:
    trials = [failed(FailureKind.OUT_OF_MEMORY)]
    assert in_more_passes(job(), trials) == ()
    (twice,) = in_more_passes(job(accumulate=4), trials)
    assert (twice.accumulation, twice.batch_size) == (2, 256)
    assert twice != FULL
    (four,) = in_more_passes(job(accumulate=4), [failed(FailureKind.OUT_OF_MEMORY, twice)])
    assert four.accumulation == 4
    assert in_more_passes(job(accumulate=4), [failed(FailureKind.OUT_OF_MEMORY, four)]) == ()


def test_a_crash_is_not_mended_by_more_passes() -> None:
    assert in_more_passes(job(accumulate=4), [failed(FailureKind.CRASHED)]) == ()


def test_a_program_that_fails_everywhere_is_not_paid_for_any_longer() -> None:
    refuse_broken_program([failed(FailureKind.CRASHED)], SPACE)
    with pytest.raises(TaskFailedError) as caught:
        refuse_broken_program([failed(FailureKind.CRASHED)] * 2, SPACE)
    assert caught.value.log_tail == "the end"
    refuse_broken_program([measured(), failed(FailureKind.CRASHED), failed(FailureKind.CRASHED)], SPACE)


def test_a_program_that_is_never_seen_to_step_is_paid_for_once() -> None:
    with pytest.raises(TaskFailedError, match="never reported on the deployment tried") as caught:
        refuse_broken_program([failed(FailureKind.SILENT)], SPACE)
    assert "probe.silent_seconds" in caught.value.hint
    refuse_broken_program([measured(), failed(FailureKind.SILENT)], SPACE)


def test_each_kind_of_failure_is_told_by_its_own_name() -> None:
    with pytest.raises(TaskFailedError) as caught:
        refuse_broken_program([failed(FailureKind.HUNG), failed(FailureKind.CRASHED)], SPACE)
    told = "The program hung on 1 of the deployments tried and crashed on 1 of the deployments tried"
    assert caught.value.message.startswith(told)


def test_a_lack_of_memory_is_not_the_programs_fault() -> None:
    refuse_broken_program([failed(FailureKind.OUT_OF_MEMORY)] * 5, SPACE)


def test_probe_times_are_scaled_to_what_was_seen() -> None:
    assert learnt_probe_time(ProbeTime(10.0, 1.0, 1), []) == ProbeTime(10.0, 1.0, 1)
    assert learnt_probe_time(ProbeTime(10.0, 1.0, 1), [measured()]) == ProbeTime(20.0, 2.0, 1)
    assert learnt_probe_time(ProbeTime(10.0, 1.0, 1, 5.0), [measured()]) == ProbeTime(20.0, 2.0, 1, 10.0)


def test_the_start_is_what_comes_before_the_first_step() -> None:
    assert learnt_start(None, [measured()], warmup_seconds=2.0) == pytest.approx(6.0)
    assert learnt_start(0.0, [measured()], warmup_seconds=2.0) == 0.0


def test_the_training_share_of_a_probe_is_its_measuring() -> None:
    assert training_share([measured()]) == pytest.approx(0.6)
    assert training_share([failed(FailureKind.CRASHED)]) == 0.0


def test_a_recording_can_be_replayed_with_any_job() -> None:
    recorded = tuple(Deployment(OFFER, nodes, batch) for nodes in (2, 4) for batch in (128, 512))
    fits = Job("j", "a", nodes=NodeRange(2, 2), batch_sizes=BatchSizes((128,)))
    assert recorded_space(fits, (OFFER,), recorded).deployments == (recorded[0],)
    free = Job("j", "a", nodes=NodeRange(1, 8))
    assert recorded_space(free, (OFFER,), recorded).deployments == recorded
    foreign = Job("j", "a", batch_sizes=BatchSizes((64,)), resources=(Resources(instance_types=("p3.2xlarge",)),))
    space = recorded_space(foreign, (OFFER,), recorded)
    assert space.deployments == recorded
    assert len(space.notices) == 3


def test_where_memory_is_sold_by_the_gib_each_deployment_gets_what_its_batch_was_seen_to_need() -> None:
    offer = replace(OFFER, instance=replace(OFFER.instance, memory_gib=64.0), usd_per_gib_hour=0.1)
    space = tuple(Deployment(offer, 1, batch) for batch in (64, 128, 256))
    seen = Measurement(100.0, 99.0, 101.0, usage=Usage(peak_memory_gib=8.0))
    cut = cut_to_measure(space, [Trial(space[1], seen, 60.0, 1.0)])
    assert cut == space
    assert [each.node_memory_gib for each in cut] == [10.0, 10.0, 64.0]
    assert table_of(cut).usd_per_hour.tolist() == pytest.approx([each.usd_per_hour for each in cut])
    assert table_of(space).usd_per_hour.tolist() == pytest.approx([each.usd_per_hour for each in space])


def test_a_probe_with_all_the_memory_is_forecast_with_what_its_training_needs() -> None:
    offer = replace(OFFER, instance=replace(OFFER.instance, memory_gib=64.0), usd_per_gib_hour=0.1)
    tried, today = Deployment(offer, 1, 64), Deployment(offer, 1, 64, memory_gib=10.0)
    (trial,) = at_todays_memory([replace(measured(), deployment=tried)], [today])
    assert trial.deployment.usd_per_hour == today.usd_per_hour < tried.usd_per_hour
    assert trial.usd == measured().usd


def test_what_a_cloud_refuses_for_good_is_told_in_its_own_words() -> None:
    refused = Failure(FailureKind.REFUSED, "The cluster has no namespace 'team'.", hint="Create it.")
    trial = Trial(FULL, refused, seconds=3.0, usd=0.0)
    with pytest.raises(UserError, match="no namespace 'team'") as caught:
        refuse_failing_cloud([trial], deployments=9)
    assert caught.value.hint == "Create it."
    refuse_failing_cloud([measured(), trial], deployments=9)  # elsewhere it works


def test_a_cloud_that_starts_nothing_is_not_called_a_program_that_crashed() -> None:
    refuse_failing_cloud([failed(FailureKind.NOT_STARTED)], deployments=9)
    with pytest.raises(CloudError, match=r"could not be run on each of the 2 deployments tried: not started"):
        refuse_failing_cloud([failed(FailureKind.NOT_STARTED)] * 2, deployments=9)
    refuse_broken_program([failed(FailureKind.NOT_STARTED)] * 5, SPACE)


def test_failed_starts_are_not_called_a_goal_out_of_reach() -> None:
    with pytest.raises(CloudError, match=r"no capacity \(it did\)"):
        refuse_failed_starts([failed(FailureKind.NO_CAPACITY)] * 3)
    refuse_failed_starts([failed(FailureKind.NO_CAPACITY), measured()])  # then it is the goal
    refuse_failed_starts([])


def test_what_a_cloud_refused_is_tried_again_once_it_was_fixed() -> None:
    refused, none = failed(FailureKind.REFUSED), failed(FailureKind.NO_CAPACITY)
    assert trials_that_count([refused, none], fixes=0) == (refused, none)
    assert trials_that_count([refused, none], fixes=1) == ()
