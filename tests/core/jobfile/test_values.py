"""Values are read in every form that people write."""

from __future__ import annotations

from typing import Any

import pytest

from job_texts import complaint, job, with_run
from mlcd.core.jobfile import parse_job


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("A100:8", (("A100", 8.0),)),
        ("A100", (("A100", 1.0),)),
        ("{A100: 8}", (("A100", 8.0),)),
        ("{A100:1, V100:2}", (("A100", 1.0), ("V100", 2.0))),
        ("[L4:1, 'H100:0.5']", (("L4", 1.0), ("H100", 0.5))),
    ],
)
def test_accelerators_are_read_in_every_form(written: str, read: Any) -> None:
    assert job(with_run(f"resources: {{accelerators: {written}}}")).resources[0].accelerators == read


def test_accelerators_may_be_asked_for_by_skypilots_other_name() -> None:
    job = parse_job(with_run("resources: {gpus: 'H100:8', any_of: [{use_spot: true}, {gpus: A100}]}")).job
    assert [each.accelerators for each in job.resources] == [(("H100", 8.0),), (("A100", 1.0),)]
    both = complaint(with_run("resources: {gpus: H100, accelerators: A100}"))
    assert "resources: there is both 'gpus' and 'accelerators'; leave one out" in both


@pytest.mark.parametrize(
    ("written", "gib", "exact"),
    [("32", 32, True), ("32+", 32, False), ("64GB+", 64, False), ("512MB", 0.5, True), ("1tb", 1024, True)],
)
def test_memory_has_units(written: str, gib: float, exact: bool) -> None:
    found = job(with_run(f"resources: {{memory: {written}}}")).resources[0]
    assert (found.min_memory_gib, found.exact_memory) == (gib, exact)


def test_a_range_of_batch_sizes_never_passes_its_upper_end() -> None:
    assert job(with_run("batch_size: 48..400")).batch_sizes.choices == (48, 96, 192, 384)
    assert job(with_run("batch_size: [128, 64, 128]")).batch_sizes.choices == (64, 128)
    assert job(with_run("batch_size: 256")).batch_sizes.fixed == 256


def test_batch_sizes_may_be_taken_in_passes_and_the_learning_rate_may_follow() -> None:
    text = "run: a\nbatch_size: {sizes: 32..128, accumulate: 8}\nlearning_rate: sqrt\nelastic: false\n"
    job = parse_job(text).job
    assert job.batch_sizes.choices == (32, 64, 128)
    assert job.batch_sizes.accumulate == 8
    assert job.learning_rate.rule == "sqrt"
    assert not job.elastic
