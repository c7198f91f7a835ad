"""A job's story made of plain values, for tests of what is shown."""

from __future__ import annotations

from dataclasses import replace
from math import exp

from mlcd.core.goal import Aim, Goal
from mlcd.core.job import BatchSizes, Job, NodeRange, Work
from mlcd.core.live import Live
from mlcd.core.machines import Deployment, InstanceType, Offer
from mlcd.core.plan import Alternative, Forecast, Plan
from mlcd.core.progress import MetricPoint, Point
from mlcd.core.records import BillItem, Event, JobRecord, TaskRecord
from mlcd.core.run import Attempt, AttemptEnd, JobState, Run
from mlcd.core.study import Belief, Ledger
from mlcd.core.task import TaskKind, TaskState
from mlcd.core.trial import Failure, FailureKind, Measurement, Trial
from mlcd.core.view import JobStory, JobView

SAMPLES = 6_000_000.0
SUBMITTED = 1_790_000_000.0
TYPES = (
    Offer("local", InstanceType("c5.4xlarge", vcpus=16, memory_gib=32), 0.68, 16, "us-east-1", source="catalog"),
    Offer(
        "local",
        InstanceType("p2.xlarge", vcpus=4, memory_gib=61, gpus=1, gpu_model="K80"),
        0.9,
        16,
        "us-east-1",
    ),
    Offer(
        "local",
        InstanceType("p3.2xlarge", vcpus=8, memory_gib=61, gpus=1, gpu_model="V100"),
        3.06,
        8,
        "us-east-1",
    ),
)
SPEEDS = (95.0, 210.0, 820.0)
TRIED = ((0, 1), (1, 1), (2, 1), (2, 4), (1, 16), (2, 8), (1, 6), (2, 2))


def speed(kind: int, nodes: int) -> float:
    """Samples/s that rise and then fall with the nodes."""
    return SPEEDS[kind] * nodes**0.85 * exp(-((nodes / 14.0) ** 2))


def deployment(kind: int, nodes: int) -> Deployment:
    """So many nodes of one of the types."""
    return Deployment(TYPES[kind], nodes, 256)


SPACE = tuple(deployment(kind, nodes) for kind, offer in enumerate(TYPES) for nodes in range(1, offer.max_nodes + 1))


def trial(kind: int, nodes: int, number: int = 1) -> Trial:
    """What a probe of it gave; sixteen nodes of the second type run out of memory."""
    where, rate, seconds = deployment(kind, nodes), speed(kind, nodes), 600.0 + 20 * nodes
    outcome: Measurement | Failure = Measurement(rate, rate * 0.97, rate * 1.03)
    if (kind, nodes) == (1, 16):
        tail = "step 3\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
        outcome = Failure(FailureKind.OUT_OF_MEMORY, "CUDA out of memory", 1, tail)
    return Trial(where, outcome, seconds, where.usd(seconds), task_id=f"p{number}")


TRIALS = tuple(trial(kind, nodes, number) for number, (kind, nodes) in enumerate(TRIED, start=1))


def beliefs(step: int) -> tuple[Belief, ...]:
    """Bands that narrow with each step and near what was tried."""
    tried = {(kind, nodes) for kind, nodes in TRIED[:step]}
    found = []
    for kind, offer in enumerate(TYPES):
        for nodes in range(1, offer.max_nodes + 1):
            near = min((abs(nodes - other) for k, other in tried if k == kind), default=12)
            spread = 0.04 + 0.5 * (1 - exp(-near / 4)) / step**0.5
            mean = speed(kind, nodes) * (1 + 0.3 * (1 - exp(-near / 5)))
            found.append(Belief(deployment(kind, nodes), mean, mean * (1 - 2 * spread), mean * (1 + 2 * spread)))
    return tuple(found)


def plan() -> Plan:
    """The plan for four of the third type."""
    where = deployment(2, 4)
    seconds = SAMPLES / speed(2, 4)
    forecast = Forecast(
        seconds,
        seconds * 0.97,
        seconds * 1.04,
        where.usd(seconds),
        where.usd(seconds * 0.97),
        where.usd(seconds * 1.04),
    )
    return Plan(
        where,
        forecast,
        search_cost(),
        "The fastest deployment measured whose total stays within the budget.",
        (Alternative(deployment(2, 8), None, "its total would pass the budget of $60.00"),),
        goal(),
    )


def search_cost() -> Ledger:
    """What the trials took."""
    return Ledger(sum(one.seconds for one in TRIALS), sum(one.usd for one in TRIALS))


def job(name: str = "char-rnn") -> Job:
    """A job with a secret and an environment variable."""
    return Job(
        name=name,
        run="python train.py --lr 0.1",
        envs={"WANDB_API_KEY": "value-that-is-not-shown"},
        secret_names=("HF_TOKEN",),
        nodes=NodeRange(1, 16),
        batch_sizes=BatchSizes((256,)),
        work=Work(SAMPLES),
        aim=Aim.FASTEST,
    )


def record(state: JobState, **more: object) -> JobRecord:
    """The record of the job."""
    planned = state not in (JobState.SEARCHING, JobState.FAILED)
    base = {"plan": plan() if planned else None, "offers": TYPES}
    return JobRecord("j-7f3a", job(), state, SUBMITTED, "local", **{**base, **more})  # type: ignore[arg-type]


def searching() -> JobView:
    """In the middle of the search."""
    live = Live("p4", TaskKind.PROBE, TaskState.RUNNING, deployment(1, 6), 130.0, 0.2, 0.0, 800.0, None, None, None)
    spent = Ledger(2000.0, 1.1)
    return JobView(record(JobState.SEARCHING), goal(), spent, spent, TRIALS[:3], live=live, controlled=True)


def goal() -> Goal:
    """As fast as possible for sixty dollars, within four hours."""
    return Goal(Aim.FASTEST, deadline_seconds=4 * 3600.0, budget_usd=60.0)


def served(view: JobView) -> JobView:
    """The same with two parameter servers of another type than the workers."""
    plan = view.record.plan
    assert plan is not None
    server = replace(plan.deployment.offer, instance=InstanceType("c5n.large", 2, network_gbps=3.0), usd_per_hour=0.11)
    where = replace(plan.deployment, servers=2, server_offer=server)
    return replace(view, record=replace(view.record, plan=replace(plan, deployment=where)))


def planned() -> JobView:
    """The search is over and the plan waits."""
    return JobView(record(JobState.PLANNED), goal(), search_cost(), search_cost(), TRIALS)


def training() -> JobView:
    """Half way through the training."""
    live = Live(
        "t1",
        TaskKind.TRAINING,
        TaskState.RUNNING,
        deployment(2, 4),
        1200.0,
        4.1,
        SAMPLES / 2,
        speed(2, 4),
        1250.0,
        search_cost().seconds + 2450.0,
        search_cost().usd + 8.3,
        {"loss": 1.234},
    )
    spent = Ledger(search_cost().seconds + 1200.0, search_cost().usd + 4.1)
    attempt = Attempt("t1", 1, deployment(2, 4), SUBMITTED + 5000.0, samples=SAMPLES / 2, seconds=1200.0, usd=4.1)
    return JobView(
        record(JobState.TRAINING, confirmed=True),
        goal(),
        spent,
        search_cost(),
        TRIALS,
        Run((attempt,)),
        live=live,
        controlled=True,
    )


def succeeded() -> JobView:
    """Done in two attempts, the model handed back."""
    where = deployment(2, 4)
    attempts = (
        Attempt("t1", 1, where, SUBMITTED, 0.0, 2e6, 900.0, where.usd(900.0), AttemptEnd.LOST, "node 2 went away"),
        Attempt("t2", 2, where, SUBMITTED, 2e6, 4e6, 1700.0, where.usd(1700.0), AttemptEnd.FINISHED, ""),
    )
    spent = Ledger(search_cost().seconds + 2650.0, search_cost().usd + where.usd(2600.0))
    return JobView(
        record(JobState.SUCCEEDED, confirmed=True, ended_at=SUBMITTED + spent.seconds),
        goal(),
        spent,
        search_cost(),
        TRIALS,
        Run(attempts),
        bill(attempts),
        model="/data/jobs/j-7f3a/model",
    )


def bill(attempts: tuple[Attempt, ...]) -> tuple[BillItem, ...]:
    """One line for each probe and attempt."""
    probes = tuple(BillItem(one.task_id, TaskKind.PROBE, str(one.deployment), one.seconds, one.usd) for one in TRIALS)
    return probes + tuple(
        BillItem(one.task_id, TaskKind.TRAINING, str(one.deployment), one.seconds, one.usd) for one in attempts
    )


def events() -> tuple[Event, ...]:
    """What happened."""
    messages = [("state", "The search begins: 40 deployments, heterbo.")]
    messages += [("trial", f"Trial {i}: {one.deployment} done.") for i, one in enumerate(TRIALS, start=1)]
    messages += [
        ("plan", "Chosen: 4 × p3.2xlarge."),
        ("decision", "Node 2 was lost; started again from step 7,800."),
    ]
    return tuple(Event(i, "j-7f3a", SUBMITTED + 300.0 * i, kind, text) for i, (kind, text) in enumerate(messages, 1))


def story(view: JobView | None = None) -> JobStory:
    """The whole story of the job that succeeded."""
    points = tuple(Point(60.0 + 10 * i, 90.0 * i, 24_000.0 * i) for i in range(251))
    metrics = tuple(MetricPoint(p.seconds, p.steps, "loss", 3.2 * exp(-p.samples / 2e6) + 1.1) for p in points)
    metrics += tuple(MetricPoint(p.seconds, p.steps, "accuracy", 1 - exp(-p.samples / 2e6)) for p in points[::10])
    tasks = tuple(
        TaskRecord(one.task_id, "j-7f3a", TaskKind.PROBE, i, one.deployment, "local", SUBMITTED)
        for i, one in enumerate(TRIALS, start=1)
    )
    return JobStory(
        view or succeeded(),
        tasks,
        events(),
        SPACE,
        tuple(beliefs(step) for step in range(1, len(TRIALS) + 1)),
        points,
        metrics,
        "epoch 9 loss 1.213\nepoch 10 loss 1.208\nsaved model.pt\n",
    )
