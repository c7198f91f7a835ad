from __future__ import annotations

from dataclasses import replace

from forecast.steps import LAW
from mlcd.forecast.similarity import find_match, similarity
from mlcd.forecast.stored import StoredModel

SEEN = StoredModel("mine", "abc", {"t4": LAW}, noise_scale=1000, smallest_batch=32)


def test_the_same_training_is_like_itself() -> None:
    assert similarity(SEEN, replace(SEEN, job="again", laws={})) == 1.0


def test_a_job_a_little_slower_is_similar_and_reused() -> None:
    near = replace(SEEN, job="near", fingerprint="", laws={"t4": replace(LAW, alpha_seconds=0.022)})
    match = find_match(SEEN, [near])
    assert match is not None
    assert match.similarity > 0.9
    assert "near" in match.reason


def test_a_job_ten_times_as_long_is_not_reused() -> None:
    far = replace(SEEN, job="far", fingerprint="", laws={"t4": replace(LAW, alpha_seconds=0.2)})
    assert find_match(SEEN, [far]) is None


def test_similarity_is_the_same_both_ways() -> None:
    other = replace(SEEN, fingerprint="", laws={"t4": replace(LAW, beta_seconds=1e-3)}, noise_scale=500)
    assert similarity(SEEN, other) == similarity(other, SEEN)


def test_jobs_without_a_common_family_are_not_similar() -> None:
    assert similarity(SEEN, replace(SEEN, fingerprint="", laws={"a100": LAW})) == 0.0
