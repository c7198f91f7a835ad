"""What trials teach."""

from __future__ import annotations

import pytest

from mlcd.core.trial import FailureKind
from mlcd.search.trials import exclusions, failed_trials, measured_trials
from search_worlds import deployment, failed, measured, study_of


def test_repeated_measurements_are_averaged_and_surer() -> None:
    here = deployment()
    (trial,) = measured_trials(study_of(measured(here, 80.0, 0.02), measured(here, 125.0, 0.02)))
    assert trial.measurement is not None
    assert trial.measurement.samples_per_second == pytest.approx(100.0)
    assert trial.measurement.relative_error == pytest.approx(0.02 / 2**0.5)


def test_a_failure_is_forgotten_once_the_deployment_was_measured() -> None:
    here = deployment()
    study = study_of(failed(here, FailureKind.LOST), measured(here, 10.0))
    assert failed_trials(study) == ()
    assert len(measured_trials(study)) == 1


def test_out_of_memory_forbids_larger_batches_and_the_same_batch_on_fewer_nodes() -> None:
    rules = exclusions(study_of(failed(deployment("c5", 2, 64))))
    assert rules.excludes(deployment("c5", 2, 128))
    assert rules.excludes(deployment("c5", 1, 64))
    assert not rules.excludes(deployment("c5", 4, 64))
    assert not rules.excludes(deployment("c5", 2, 32))


def test_out_of_memory_forbids_other_types_only_where_their_memory_is_known_to_be_no_larger() -> None:
    rules = exclusions(study_of(failed(deployment("t4", 1, 64, gpus=1, gpu_memory_gib=16.0))))
    assert rules.excludes(deployment("k80", 1, 64, gpus=1, gpu_memory_gib=12.0))
    assert not rules.excludes(deployment("a100", 1, 64, gpus=1, gpu_memory_gib=40.0))
    assert not rules.excludes(deployment("odd", 1, 64, gpus=1))
    assert not rules.excludes(deployment("t4x4", 1, 64, gpus=4, gpu_memory_gib=16.0))


def test_two_crashes_without_a_success_rule_out_the_type() -> None:
    once = study_of(failed(deployment("c5", 1), FailureKind.CRASHED))
    twice = once.with_trial(failed(deployment("c5", 2), FailureKind.HUNG))
    assert not exclusions(once).excludes(deployment("c5", 3))
    assert exclusions(twice).excludes(deployment("c5", 3))
    assert not exclusions(twice.with_trial(measured(deployment("c5", 4), 1.0))).excludes(deployment("c5", 3))


def test_missing_capacity_says_nothing_about_other_sizes() -> None:
    study = study_of(failed(deployment("c5", 2), FailureKind.NO_CAPACITY))
    assert exclusions(study).empty


def test_too_many_nodes_for_the_job_rule_out_more_of_them_of_any_kind() -> None:
    rules = exclusions(study_of(failed(deployment("c5", 4), FailureKind.UNFIT)))
    assert not rules.excludes(deployment("c5", 3))
    assert rules.excludes(deployment("c5", 4))
    assert rules.excludes(deployment("p3", 8, gpus=1))
    assert not rules.empty


def test_a_program_that_found_no_gpu_is_excluded_wherever_there_is_none() -> None:
    rules = exclusions(study_of(failed(deployment("c5", 1), FailureKind.NO_GPU)))
    assert not rules.empty
    assert rules.excludes(deployment("m5", 4))
    assert not rules.excludes(deployment("p3", 1, gpus=1))


def test_a_machine_whose_gpu_is_not_found_says_nothing_of_the_program() -> None:
    rules = exclusions(study_of(failed(deployment("p3", 1, gpus=1), FailureKind.NO_GPU)))
    assert rules.empty


def test_nodes_that_do_not_share_the_work_forbid_all_that_have_several() -> None:
    rules = exclusions(study_of(failed(deployment("c5", 2), FailureKind.NOT_SHARED)))
    assert rules.excludes(deployment("p3", 4, gpus=1))
    assert not rules.excludes(deployment("c5", 1))
    assert not rules.excludes(deployment("p3", 1, gpus=4))


def test_ranks_of_one_node_that_do_not_share_the_work_forbid_several_gpus_too() -> None:
    rules = exclusions(study_of(failed(deployment("p3", 1, gpus=4), FailureKind.NOT_SHARED)))
    assert rules.excludes(deployment("g5", 1, gpus=2))
    assert rules.excludes(deployment("c5", 2))
    assert not rules.excludes(deployment("g5", 1, gpus=1))
