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

from mlcd.adapt.changes import Conditions, Lesson, Replan, largest_change, reconsider
from mlcd.api import Client
from mlcd.core.machines import Deployment
from mlcd.core.records import JobRecord
from mlcd.core.run import JobState
from mlcd.core.task import TaskKind
from mlcd.core.view import JobView
from mlcd.errors import TaskFailedError

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
    search_usd: float
    samples: float
    samples_per_second: float  # as it was measured there; 0: it was not
    model: Path

    @property
    def usd_per_sample(self) -> float:
        """Of the training alone; 0: not known."""
        return self.deployment.usd(1.0) / self.samples_per_second if self.samples_per_second else 0.0


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
        decision = self._decision(conditions)
        if decision is None:
            changes |= _pinned(self.phases[-1].deployment)
        if self.phases and self._hand_on:
            mounts = {**changes.get("file_mounts", {}), PREVIOUS: str(self.phases[-1].model)}
            changes |= {"file_mounts": mounts}
        view = self._drive(changes)
        phase = self._phase(conditions, view, decision.why if decision is not None else "")
        self._learn(phase)
        self.phases.append(phase)
        return phase

    def _decision(self, conditions: Conditions) -> Replan | None:
        """Whether the next phase searches; the first always does."""
        if not self.phases:
            return Replan("nothing is known yet")
        last, searched = self.phases[-1], [phase for phase in self.phases if phase.searched]
        samples = conditions.samples or last.samples
        search_usd = searched[-1].search_usd if searched else 0.0
        before = searched[-1].conditions if searched else last.conditions
        decision = reconsider(before, conditions, last.usd_per_sample * samples, search_usd, self.lessons)
        return decision if isinstance(decision, Replan) else None

    def _drive(self, changes: Mapping[str, Any]) -> JobView:
        envs = {
            **changes.get("envs", {}),
            **({"PREVIOUS": PREVIOUS} if self.phases and self._hand_on else {}),
        }
        overrides = {name: value for name, value in changes.items() if name != "envs"}
        loaded = self._client.load(self._job, envs=envs, overrides=overrides)
        job_id = self._client.submit(loaded, cloud=self._cloud)
        self._client.confirm(job_id)
        view = self._client.drive(job_id)
        if view.record.state is not JobState.SUCCEEDED:
            raise TaskFailedError(
                f"Phase {len(self.phases) + 1} ({job_id}) is {view.record.state}: {view.record.error}",
                f"`mlcd logs {job_id}` says more.",
            )
        return view

    def _phase(self, conditions: Conditions, view: JobView, why: str) -> Phase:
        record = view.record
        search_usd = sum(item.usd for item in view.bill if item.kind is TaskKind.PROBE)
        samples = max((attempt.samples_before + attempt.samples for attempt in view.run.attempts), default=0.0)
        return Phase(
            number=len(self.phases) + 1,
            job_id=record.id,
            conditions=replace(conditions, samples=conditions.samples or samples),
            deployment=record.deployment,
            searched=bool(why),
            why=why or "replanning would not pay",
            seconds=view.spent.seconds,
            usd=view.spent.usd,
            search_usd=search_usd if why else 0.0,
            samples=samples,
            samples_per_second=_measured(view),
            model=self._model_of(record),
        )

    def _model_of(self, record: JobRecord) -> Path:
        return self._client.settings.jobs / record.id / "model"

    def _learn(self, phase: Phase) -> None:
        """What a search has gained, against going on as before at the old cost of a sample."""
        if not (phase.searched and self.phases) or self.phases[-1].usd_per_sample <= 0:
            return
        _, change = largest_change(self.phases[-1].conditions, phase.conditions)
        saved = 1.0 - phase.usd_per_sample / self.phases[-1].usd_per_sample
        self.lessons.append(Lesson(change, saved))


def _measured(view: JobView) -> float:
    """Samples a second of the deployment that was taken."""
    seen = [
        trial.measurement.samples_per_second
        for trial in view.trials
        if trial.measurement is not None and trial.deployment == view.record.deployment
    ]
    return seen[-1] if seen else 0.0


def _pinned(deployment: Deployment) -> dict[str, Any]:
    """The keys that leave one deployment alone."""
    return {"resources": {"instance_type": deployment.offer.instance.name}, "num_nodes": deployment.nodes}
