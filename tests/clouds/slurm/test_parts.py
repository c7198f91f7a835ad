"""What Slurm's commands print, and what is made of it: offers, prices, jobs, causes. Nothing here needs a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcd.clouds.slurm.commands import Slurm
from mlcd.clouds.slurm.kinds import make_offers, read_kinds
from mlcd.clouds.slurm.login import Here
from mlcd.clouds.slurm.prices import Prices, read_prices
from mlcd.clouds.slurm.script import Comment, Request, Wanted, minutes_of, read_comment, sbatch_words
from mlcd.clouds.slurm.states import explained, in_the_queue, in_words, outcome_of, refusal_of_waiting
from mlcd.clouds.slurm.tables import (
    JobRow,
    read_duration,
    read_expected_start,
    read_jobs,
    read_nodes,
    read_preempted,
    read_submitted,
)
from mlcd.clouds.slurm.task import less_the_queue
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.core.task import EndCause
from mlcd.errors import CloudError, NoCapacityError, UserError

NODES = """welcome to the login node
c1|cpu|up|16|64000|intel,avx|(null)|idle|2-00:00:00|1-4
c2|cpu|up|16|64000|avx,intel|(null)|allocated|2-00:00:00|1-4
c3|cpu|up|16|64000|intel,avx|(null)|drained|2-00:00:00|1-4
c4|cpu|up|32|64000|intel,avx|(null)|mixed|2-00:00:00|1-4
g1|gpu|up|64|512000|(null)|gpu:a100:4(S:0-1)|idle~|infinite|1-infinite
g2|gpu|up|64|512000|(null)|gpu:a100:4(S:0-1)|idle*|infinite|1-infinite
g1|debug|up|64|512000|(null)|gpu:a100:4(S:0-1)|idle~|30:00|1
x1|old|inact|8|1000|(null)|(null)|idle|infinite|1-infinite
"""
JOB = JobRow(7, "mlcd-t1", "RUNNING", 1000.0, 2000.0, 900.0, 2, "")
TAKEN = Outcome(EndCause.SPOT_NOTICE, "its machine was told to go")


def test_nodes_that_are_alike_are_one_offer_and_those_that_take_no_jobs_are_none() -> None:
    kinds = {kind.name: kind for kind in read_kinds(read_nodes(NODES))}
    small = kinds["cpu+avx+intel-16c-64000m"]
    assert sorted(kinds) == [
        "cpu+avx+intel-16c-64000m",
        "cpu+avx+intel-32c-64000m",
        "debug+gpu-a100-4",
        "gpu+gpu-a100-4",
    ]
    assert (small.nodes, small.others, small.max_nodes) == (("c1", "c2"), ("c3", "c4"), 2)
    assert small.max_seconds == 2 * 86400
    gpu = kinds["gpu+gpu-a100-4"]
    assert (gpu.gpus, gpu.gpu_model, gpu.gres, gpu.nodes, gpu.max_seconds) == (4, "a100", "gpu:a100:4", ("g1",), None)
    assert (kinds["debug+gpu-a100-4"].max_nodes, kinds["debug+gpu-a100-4"].max_seconds) == (1, 1800)


def test_prices_are_per_node_core_or_gpu_in_units_of_the_site(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("partition,per,price\n*,core,0.1\ngpu,node,2\ngpu,gpu,10\n")
    offers = make_offers(read_kinds(read_nodes(NODES)), read_prices(str(file), 0.5), "2026-01-01")
    usd = {offer.instance.name: offer.usd_per_hour for offer in offers}
    assert usd["gpu+gpu-a100-4"] == pytest.approx(0.5 * (2 + 4 * 10))
    assert usd["cpu+avx+intel-16c-64000m"] == pytest.approx(0.5 * 16 * 0.1)


def test_without_a_price_list_all_is_free_of_charge_and_says_so() -> None:
    offers = make_offers(read_kinds(read_nodes(NODES)), Prices(), "2026-01-01")
    assert {(offer.usd_per_hour, offer.source) for offer in offers} == {(0.0, "no price: free of charge")}


@pytest.mark.parametrize("line", ["cpu,hour,1", "cpu,node,-1", "cpu,node,free", "cpu,node,inf"])
def test_a_price_list_that_cannot_be_read_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"partition,per,price\n{line}\n")
    with pytest.raises(UserError, match="cannot be read"):
        read_prices(str(file), 1.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30:00", 1800),
        ("2:00:00", 7200),
        ("1-12:00:00", 129600),
        ("infinite", None),
        ("n/a", None),
        ("UNLIMITED", None),
    ],
)
def test_durations_are_read_as_slurm_writes_them(text: str, seconds: int | None) -> None:
    assert read_duration(text) == seconds


def test_jobs_are_read_with_whatever_their_comments_hold() -> None:
    rows = read_jobs(
        "9|mlcd-t2|PENDING|1795098219|N/A|1795098000|1-4|Resources|mlcd/t2/j/1 | 2\n"
        "7|mlcd-t1|CANCELLED by 0|1795098219|1795098221|1795098218|2|None|(null)\nnoise\n"
    )
    assert [(row.id, row.state, row.ended) for row in rows] == [(7, "CANCELLED", True), (9, "PENDING", False)]
    assert (rows[1].nodes, rows[1].reason, rows[1].comment) == (1, "Resources", "mlcd/t2/j/1 | 2")
    assert (rows[0].ends_at, rows[1].ends_at, rows[0].comment) == (1795098221.0, None, "")


def test_what_sbatch_and_scontrol_say_is_found_among_other_words() -> None:
    assert read_submitted("welcome\n4711;cluster\n") == 4711
    assert read_submitted("sbatch: error: no") is None
    assert (
        read_expected_start("sbatch: Job 6 to start at 1795098218 using 4 processors on nodes n[1-2]") == 1795098218.0
    )
    assert read_expected_start("allocation failure") is None
    assert read_preempted("JobId=7 PreemptEligibleTime=1795098218 PreemptTime=1795098218 SuspendTime=None")
    assert not read_preempted("JobId=7 PreemptEligibleTime=1795098218 PreemptTime=None SuspendTime=None")


@pytest.mark.parametrize(
    ("wanted", "most", "minutes"),
    [
        (Wanted(600.0), None, 14),  # the limit, the grace, three minutes
        (Wanted(600.0), 300, 5),  # the partition allows no more
        (Wanted(1.0), 90, 1),
        (Wanted(), None, 24 * 60 + 4),  # slurm.hours
        (Wanted(), 7200, 120),
        (Wanted(86400.0, 3600.0), None, 90 + 15 + 4),  # half as long again as the forecast, and a quarter of an hour
        (Wanted(None, 36 * 3600.0), None, 54 * 60 + 15 + 4),  # a forecast of days, and no limit
        (Wanted(600.0, 3600.0), None, 14),  # never beyond the limit
    ],
)
def test_an_allocation_is_as_long_as_the_task_needs_and_no_longer_than_the_partition(
    wanted: Wanted, most: int | None, minutes: int
) -> None:
    assert minutes_of(wanted, 15.0, most, hours=24.0) == minutes


def test_a_job_asks_for_whole_nodes_of_its_kind_and_never_comes_back_by_itself() -> None:
    kind = next(kind for kind in read_kinds(read_nodes(NODES)) if kind.name.startswith("cpu+avx+intel-16c"))
    comment = Comment("job/a-t1", "job", "2 × cpu, batch 32")
    words = sbatch_words(
        Request(comment, kind, 2, 14, 15.0, "/home/me/a%2Fb", qos="high", options="--reservation='a b'")
    )
    expected = {
        *("--job-name=mlcd-job%2Fa-t1", "--nodes=2-2", "--exclusive", "--no-requeue", "--dependency=singleton"),
        *("--output=/home/me/a%%2Fb/slurm.log", "--chdir=/home/me/a%2Fb"),
        *("--time=14", "--signal=B:TERM@35", "--exclude=c[3-4]", "--qos=high", "--reservation=a b", "--partition=cpu"),
    }
    assert expected <= set(words)
    assert read_comment(next(word for word in words if word.startswith("--comment=")).partition("=")[2]) == comment
    assert read_comment("somebody's own") is None


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("NODE_FAIL", EndCause.NODE_LOST),
        ("PREEMPTED", EndCause.SPOT_NOTICE),
        ("TIMEOUT", EndCause.SPOT_NOTICE),
        ("OUT_OF_MEMORY", EndCause.OUT_OF_MEMORY),
        ("CANCELLED", EndCause.STOPPED),
        ("FAILED", EndCause.NODE_LOST),
    ],
)
def test_states_of_slurm_are_causes_of_ours(state: str, cause: EndCause) -> None:
    told = outcome_of(replace(JOB, state=state))
    assert told is not None
    assert told.cause is cause
    assert state in told.reason
    assert outcome_of(JOB) is None


@pytest.mark.parametrize(
    ("outcome", "state", "preempted", "cause"),
    [
        (TAKEN, "RUNNING", False, EndCause.SPOT_NOTICE),  # its time was over
        (TAKEN, "COMPLETED", False, EndCause.SPOT_NOTICE),  # and it ended in order
        (TAKEN, "COMPLETED", True, EndCause.SPOT_NOTICE),
        (TAKEN, "CANCELLED", False, EndCause.STOPPED),
        (TAKEN, "NODE_FAIL", False, EndCause.NODE_LOST),
        (Outcome(EndCause.NODE_LOST), "COMPLETED", False, EndCause.NODE_LOST),
        (Outcome(EndCause.NODE_LOST), "RUNNING", False, EndCause.NODE_LOST),
        (Outcome(EndCause.NODE_LOST), "OUT_OF_MEMORY", False, EndCause.OUT_OF_MEMORY),
    ],
)
def test_an_end_from_outside_is_explained_by_slurm(
    outcome: Outcome, state: str, preempted: bool, cause: EndCause
) -> None:
    told = explained(outcome, replace(JOB, state=state), preempted)
    assert told.cause is cause
    assert ("PREEMPTED" in told.reason) is preempted


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("Resources", None),
        ("Priority", None),
        ("QOSGrpCpuLimit", None),
        ("ReqNodeNotAvail, UnavailableNodes:c1", None),
        ("PartitionTimeLimit", NoCapacityError),
        ("QOSMaxNodePerJobLimit", NoCapacityError),
        ("AssocMaxWallDurationPerJobLimit", NoCapacityError),
        ("BadConstraints", NoCapacityError),
        ("InvalidQOS", UserError),
        ("JobHeldAdmin", UserError),
    ],
)
def test_what_will_never_start_is_not_waited_for(reason: str, error: type[Exception] | None) -> None:
    told = refusal_of_waiting(replace(JOB, state="PENDING", reason=reason))
    assert (None if told is None else type(told)) is error


@pytest.mark.parametrize(
    ("left", "started_at", "expected"),
    [
        (600.0, 1130.0, 500.0),
        (600.0, 1029.0, 600.0),
        (600.0, 999.0, 600.0),
        (50.0, 1130.0, 0.0),
        (600.0, None, 600.0),
        (None, 1100.0, None),
    ],
)
def test_what_a_task_has_waited_is_taken_off_its_time(
    left: float | None, started_at: float | None, expected: float | None
) -> None:
    assert less_the_queue(left, 1000.0, started_at) == expected


def test_a_queue_is_told_with_when_it_ends() -> None:
    waits = replace(JOB, state="PENDING", reason="Resources")
    assert (
        in_the_queue(waits, 700.0) == "Slurm's job 7 waits in the queue (Resources); it is expected to start in 5m 00s"
    )
    assert in_the_queue(replace(waits, started_at=None), 700.0).endswith("when it will start is not known yet")


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", NoCapacityError),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination",
            NoCapacityError,
        ),
        ("sbatch: error: invalid partition specified: nowhere", UserError),
        ("squeue: error: Unable to contact slurm controller (connect failure)", CloudError),
        ("bash: line 1: sinfo: command not found", UserError),
    ],
)
def test_refusals_are_told_apart(said: str, error: type[Exception]) -> None:
    assert type(in_words("submit a job", said)) is error


def test_a_job_that_is_submitted_from_inside_another_one_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SLURM_CONF", "SLURM_CONF_SERVER"):
        monkeypatch.setenv(name, "here")
    seen = Here().run("env").output
    assert "SLURM_CONF=here" in seen
    assert not any(word in seen for word in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SLURM_CONF_SERVER"))


def test_ended_jobs_are_asked_of_accounting_or_else_of_the_file_of_ended_jobs() -> None:
    class Login(Here):
        def __init__(self, **answers: str) -> None:
            self.answers = answers

        def run(self, command: str, *more: Any) -> Any:
            kind = "completed" if " -c " in command else "accounting"
            from mlcd.clouds.remote.base import CommandResult

            return CommandResult(
                kind not in self.answers, self.answers.get(kind, "Slurm accounting storage is disabled")
            )

    (known,) = Slurm(Login(accounting="7|mlcd-t1|CANCELLED by 0|1000|2000\n")).ended("mlcd-t1")
    assert (known.id, known.state, known.ends_at) == (7, "CANCELLED", 2000.0)
    (known,) = Slurm(Login(completed="7|mlcd-t1|NODE_FAIL|2000\n8|other|COMPLETED|2000\n")).ended("mlcd-t1")
    assert (known.id, known.state, known.ends_at) == (7, "NODE_FAIL", 2000.0)
    assert Slurm(Login()).ended("mlcd-t1") == []
