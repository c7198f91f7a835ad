"""What a job takes over from earlier ones."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from mlcd.api import Client
from mlcd.core.job import BatchSizes, Direction, Job, Target, Work
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.progress import NodeUsage, Usage
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.study import WorkerBandwidth
from mlcd.core.trial import Measurement, Trial
from mlcd.core.view import JobView
from mlcd.engine.context import JobContext
from mlcd.engine.earlier_jobs import Earlier, Past, learn_from_earlier
from mlcd.engine.models import expected_samples, noise_known
from mlcd.engine.programs import fingerprint
from mlcd.forecast.estimate import Estimate
from mlcd.forecast.profiles import laws_of
from mlcd.forecast.samples_needed import NoiseKnown, OtherNoise, universal_growth
from mlcd.forecast.statistical import Work as Trained
from mlcd.forecast.stored import StoredModel
from small_jobs import MakeJob

OFFER = Offer("local", InstanceType("m", vcpus=1), usd_per_hour=1.0, max_nodes=4)
JOB = Job(
    "j",
    "python train.py",
    batch_sizes=BatchSizes((32, 64, 128)),
    work=Work(1000.0, until=Target("loss", 0.5, Direction.DOWN)),
)
RECORD = JobRecord("j-2", JOB, JobState.SEARCHING, 0.0, "local")


def trials(factor: float = 1.0, noise: float | None = None) -> tuple[Trial, ...]:
    """Speeds of a program whose step takes 10 ms and 0.2 ms a sample on one node."""
    return tuple(
        Trial(Deployment(OFFER, 1, batch), Measurement(rate, rate, rate, noise_scale=noise), 10.0, 0.1)
        for batch in (32, 128)
        if (rate := factor * batch / (0.01 + 0.0002 * batch))
    )


def past(job_id: str, factor: float = 1.0, likeness: str = "", noise: float | None = None) -> Past:
    model = StoredModel(job_id, job_id, laws_of(trials(factor)), noise, noise and noise / 2, 32)
    return Past(job_id, trials(factor), model, likeness)


def test_trials_of_the_same_program_are_known_before_the_first_probe() -> None:
    earlier = Earlier(RECORD, (past("a", likeness="the same program"), past("b")))
    assert earlier.studies(()) == (trials(),)


def test_the_bandwidth_of_a_worker_is_known_from_every_job_of_the_same_program() -> None:
    usage = Usage.of([NodeUsage(network_mbps=80.0), NodeUsage(network_mbps=300.0)])
    served = Deployment(
        OFFER, 2, 64, servers=1, server_offer=replace(OFFER, instance=InstanceType("s", network_gbps=3.0))
    )
    seen = (Trial(served, Measurement(1.0, 1.0, 1.0, usage=usage), 10.0, 0.1),)
    pasts = tuple(Past(name, seen, None, "the same program") for name in "abcd")
    changed = Past("changed", seen, None, "the same program, with files that have changed since", changed=True)
    known = Earlier(RECORD, (changed, *pasts, Past("other", seen, None))).bandwidths
    assert known == tuple(WorkerBandwidth("m", 64, 3.0, 80.0, name) for name in "abcd")


def test_a_program_whose_files_have_changed_is_known_as_such() -> None:
    mine = replace(RECORD, job=replace(JOB, workdir="/code"), code="new")
    others = [replace(mine, id=code, code=code) for code in ("new", "old")]
    lessons = [(0.0, other, trials()) for other in others]
    context = cast(JobContext, SimpleNamespace(store=SimpleNamespace(lessons=lambda *_: lessons)))
    told = {past.job_id: (past.likeness, past.changed) for past in learn_from_earlier(context, mine).pasts}
    changed = "the same program, with files that have changed since"
    assert told == {"new": ("the same program", False), "old": (changed, True)}


def test_another_program_is_taken_over_once_a_probe_shows_that_it_is_alike() -> None:
    earlier = Earlier(RECORD, (past("near", 1.1), past("far", 20.0)))
    assert earlier.studies(()) == ()
    match = earlier.match(trials())
    assert match is not None
    assert match.model.job == "near"
    assert "like near" in match.reason
    assert earlier.studies(trials()) == (trials(1.1),)


def test_a_program_that_is_like_no_other_takes_over_nothing() -> None:
    assert Earlier(RECORD, (past("far", 20.0),)).studies(trials()) == ()


def test_noise_is_known_over_a_training_of_the_job_at_its_beginning_and_of_other_jobs() -> None:
    same = StoredModel("a", fingerprint(RECORD), noise_scale=700.0, work=Trained(32, 500.0))
    known = Earlier(RECORD, (Past("a", (), same, "the same program"),))
    assert noise_known(known, trials(noise=100.0)).whole == 700.0
    assert noise_known(Earlier(RECORD), trials(noise=100.0)) == NoiseKnown(first=100.0)
    others = Earlier(RECORD, (past("b", noise=640.0), past("no noise")))
    assert noise_known(others, ()) == NoiseKnown(others=(OtherNoise(640.0, 320.0),))


class Rented:
    """A cloud of which nothing is recorded."""


def expected(job: Job, *pasts: Past, noise: float | None = None) -> dict[int, Estimate]:
    record = replace(RECORD, job=job)
    context = cast(JobContext, SimpleNamespace(cloud=Rented()))
    return expected_samples(context, record, Earlier(record, pasts), trials(noise=noise))


def test_a_job_that_was_never_trained_is_forecast_by_the_universal_model() -> None:
    """A first noise that is far too low carries nothing away; the batch sizes on offer are not taken for free either."""
    found = expected(JOB, noise=0.1)
    assert found[32] == Estimate(1000.0, 1000.0, 1000.0)
    assert found[128] == universal_growth(32, 128, 128, 0.1, ()).scaled(1000.0)
    assert 1000.0 < found[128].value < 1500.0
    assert found[128].log_spread > 0.1


def test_a_job_of_one_batch_size_needs_what_its_user_says() -> None:
    assert expected(replace(JOB, batch_sizes=BatchSizes((64,))), noise=100.0) == {}
    assert expected(replace(JOB, batch_sizes=BatchSizes(())), noise=100.0) == {}


def test_a_training_at_a_batch_size_that_nobody_knows_tells_nothing_of_others() -> None:
    hidden = StoredModel("a", fingerprint(RECORD), noise_scale=700.0, work=Trained(0, 500.0))
    assert expected(JOB, Past("a", (), hidden, "the same program"))[32].value == 1000.0


def run(client: Client, job: dict[str, object]) -> JobView:
    job_id = client.submit(client.load(job))
    client.confirm(job_id)
    return client.drive(job_id)


@pytest.mark.slow
def test_a_training_to_the_same_target_is_forecast_by_what_it_took(client: Client, make_job: MakeJob) -> None:
    until = {"samples": 100000, "until": {"metric": "loss", "value": 0.001}}
    first = run(client, make_job(work=until))
    assert first.record.state is JobState.SUCCEEDED, first.record.error
    took = client.view(first.record.id).record.learnt["work"]["samples"]
    assert took == first.run.samples
    second = run(client, make_job(work=until))
    assert second.record.state is JobState.SUCCEEDED, second.record.error
    assert second.record.samples_at == {0: took}
    assert first.record.plan is not None
    assert second.record.plan is not None
    assert second.record.plan.forecast.seconds < first.record.plan.forecast.seconds / 10
    told = [event.message for event in client.events(second.record.id) if event.kind == "learn"]
    assert any(first.record.id in words and "the same program" in words for words in told)
    assert any("Samples to the target" in words for words in told)


def test_a_probe_that_reaches_the_target_leaves_what_it_took(client: Client, make_job: MakeJob) -> None:
    until = {"samples": 100000, "until": {"metric": "loss", "value": 0.002}}
    probe = {"warmup_seconds": 0.2, "min_seconds": 60, "max_seconds": 60, "silent_seconds": 60}
    view = run(client, make_job(work=until, probe=probe))
    assert view.record.state is JobState.SUCCEEDED, view.record.error
    assert "did all the work" in view.run.attempts[0].why
    assert view.record.learnt["work"] == {"batch": 0, "samples": view.run.samples}
    assert 500 <= view.run.samples < 5000
