"""Workflows: jobs one after the other that hand their model on, each on a deployment that suits it.

    flow = Workflow(mlcd.Client(), "job.yaml", cloud="functions")
    for size in (32, 128, 512):
        done = flow.run(Conditions(batch_size=size), batch_size=size, work={"epochs": 4, "dataset_size": 1437})
    done.model                            what the last phase handed back

The first phase searches. A later one goes on where the one before it ran, unless the policy (mlcd.adapt.changes) finds that
the job has changed so much that replanning pays. Between phases nothing runs and nothing costs. The model of a phase is
at $PREVIOUS in the next one's working folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mlcd.adapt.changes import Conditions, Lesson, Replan
from mlcd.adapt.phases import PhaseFacts, last_searched, lesson_of, lost_to_search, next_phase, usd_per_sample
from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.trial import FailureKind
from mlcd.core.view import JobView
from mlcd.errors import GoalUnreachableError, TaskFailedError

PREVIOUS = "previous"  # the folder in which a phase finds the model of the one before it


@dataclass(frozen=True)
class Phase:
    """One job of the workflow, done."""

    number: int
    job_id: str
    conditions: Conditions
    deployment: Deployment
    searched: bool
    why: str  # it was searched, or not
    seconds: float
    usd: float
    search_usd: float  # lost to looking; what probes have trained is not
    samples: float
    usd_per_sample: float  # of the training alone, as it was measured there; 0: it was not
    model: Path

    @property
    def facts(self) -> PhaseFacts:
        """What is remembered of it for the next."""
        return PhaseFacts(self.conditions, self.searched, self.search_usd, self.usd_per_sample)


class Workflow:
    """Runs phases and remembers what they have taught."""

    def __init__(
        self,
        client: Client,
        job: str | Path | Mapping[str, Any],
        cloud: str | None = None,
        *,
        hand_on: bool = True,
    ) -> None:
        self._client = client
        self._job = job
        self._cloud = cloud
        self._hand_on = hand_on  # each phase's model to the next
        self.phases: list[Phase] = []
        self.lessons: list[Lesson] = []

    @property
    def usd(self) -> float:
        """All phases together."""
        return sum(phase.usd for phase in self.phases)

    def run(self, conditions: Conditions, **changes: Any) -> Phase:
        """Run the next phase to its end: the job with these keys changed."""
        decision = next_phase([phase.facts for phase in self.phases], conditions, self.lessons)
        if self.phases and self._hand_on:
            mounts = {**changes.get("file_mounts", {}), PREVIOUS: str(self.phases[-1].model)}
            changes |= {"file_mounts": mounts}
        if isinstance(decision, Replan):
            self.phases.append(self._searched(conditions, changes, decision.why))
        else:
            self.phases.append(self._stayed(conditions, changes))
        return self.phases[-1]

    def _searched(self, conditions: Conditions, changes: Mapping[str, Any], why: str) -> Phase:
        """The phase on whatever a search finds."""
        view = self._succeeded(self._drive(changes))
        phase = self._phase(conditions, view, why, searched=True)
        self._learn(phase, view)
        return phase

    def _stayed(self, conditions: Conditions, changes: Mapping[str, Any]) -> Phase:
        """The phase where the one before it ran, or on what a search finds where that cannot be."""
        view = self._drive({**changes, **_pinned(self.phases[-1].deployment)})
        if not _serves_no_more(view):
            return self._phase(conditions, self._succeeded(view), "replanning would not pay", searched=False)
        why = f"{self.phases[-1].deployment} does not serve any more: {view.record.error}"
        phase = self._searched(conditions, {**changes, **_limits_left(view)}, why)
        lost = view.spent
        return replace(phase, seconds=phase.seconds + lost.seconds, usd=phase.usd + lost.usd)

    def _drive(self, changes: Mapping[str, Any]) -> JobView:
        envs = {
            **changes.get("envs", {}),
            **({"PREVIOUS": PREVIOUS} if self.phases and self._hand_on else {}),
        }
        overrides = {name: value for name, value in changes.items() if name != "envs"}
        loaded = self._client.load(self._job, envs=envs, overrides=overrides)
        job_id = self._client.submit(loaded, cloud=self._cloud)
        self._client.confirm(job_id)
        return self._client.drive(job_id)

    def _succeeded(self, view: JobView) -> JobView:
        if view.record.state is not JobState.SUCCEEDED:
            raise TaskFailedError(
                f"Phase {len(self.phases) + 1} ({view.record.id}) is {view.record.state}: {view.record.error}",
                f"`mlcd logs {view.record.id}` says more.",
            )
        return view

    def _phase(self, conditions: Conditions, view: JobView, why: str, *, searched: bool) -> Phase:
        record = view.record
        carried = any(attempt.samples_before > 0 for attempt in view.run.attempts[:1])
        lost = lost_to_search(view.trials, carried)
        samples = max((attempt.samples_before + attempt.samples for attempt in view.run.attempts), default=0.0)
        return Phase(
            number=len(self.phases) + 1,
            job_id=record.id,
            conditions=replace(conditions, samples=conditions.samples or samples),
            deployment=record.deployment,
            searched=searched,
            why=why,
            seconds=view.spent.seconds,
            usd=view.spent.usd,
            search_usd=lost.usd if searched else 0.0,
            samples=samples,
            usd_per_sample=usd_per_sample(record.deployment, view.trials),
            model=self._model_of(record),
        )

    def _model_of(self, record: JobRecord) -> Path:
        return self._client.settings.jobs / record.id / "model"

    def _learn(self, phase: Phase, view: JobView) -> None:
        """What a search has gained, against staying where the phase before it ran."""
        if not self.phases:
            return
        last, believed = self.phases[-1], self._client.story(view.record.id).beliefs
        staying_usd = usd_per_sample(last.deployment, view.trials, believed[-1] if believed else ())
        before = last_searched([each.facts for each in self.phases]).conditions
        lesson = lesson_of(before, phase.conditions, staying_usd, phase.usd_per_sample)
        self.lessons.extend([lesson] if lesson is not None else [])


def _serves_no_more(view: JobView) -> bool:
    """Whether the job failed because its one deployment cannot keep the limits, or cannot hold it; others may."""
    failures = [trial.failure.reason for trial in view.trials if trial.failure is not None]
    unreachable = view.record.exit_code == GoalUnreachableError.exit_code
    failed = view.record.state is JobState.FAILED and (unreachable or FailureKind.OUT_OF_MEMORY in failures)
    return failed and view.goal.excess(view.spent.seconds, view.spent.usd) < 1.0


def _limits_left(view: JobView) -> dict[str, Any]:
    """The limits of a phase less what the failed job has taken; a moment stays the same moment."""
    deadline, budget = view.goal.limits
    left: dict[str, Any] = {}
    if deadline is not None and view.record.job.deadline_at is None:
        left["deadline"] = f"{deadline - view.spent.seconds:.3f}s"
    if budget is not None:
        left["budget"] = budget - view.spent.usd
    return left


def _pinned(deployment: Deployment) -> dict[str, Any]:
    """The keys that leave one deployment alone."""
    servers = {"instance_type": deployment.of_servers.instance.name, "count": deployment.servers}
    return {
        "resources": {"instance_type": deployment.offer.instance.name},
        "num_nodes": deployment.nodes,
        **({"servers": servers} if deployment.servers else {}),
    }
