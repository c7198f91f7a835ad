"""The status of a task, from what its runner wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import Files, RunnerState, TaskSpec
from mlcd.clouds.tasks.progress import Follower
from mlcd.core.progress import Progress
from mlcd.core.task import Charge, Handle, TaskFolder, TaskState, TaskStatus

SpecKind = TypeVar("SpecKind", bound=TaskSpec)


class StatusReader:
    """Follows the tasks that it is asked about, so that each look reads only what is new."""

    def __init__(self) -> None:
        self._followers: dict[tuple[Handle, float, float], Follower] = {}
        self._specs: dict[Handle, Any] = {}

    def spec_of(self, files: Files[SpecKind, Any]) -> SpecKind | None:
        """What was asked for, which never changes; None: nothing by this name."""
        spec: SpecKind | None = self._specs.get(files.id) or files.read_spec()
        if spec is not None:
            self._specs[files.id] = spec
        return spec

    def read(self, spec: TaskSpec, folder: TaskFolder, state: RunnerState, charges: Sequence[Charge]) -> TaskStatus:
        """The status of the task."""
        return TaskStatus(
            state=state.state,
            progress=self._progress(spec, folder, state),
            charges=tuple(charges) if state.started_at is not None else (),
            started_at=state.started_at,
            setup_at=state.setup_at,
            running_at=state.running_at,
            ended_at=state.ended_at,
            exit_code=state.exit_code,
            reason=state.reason,
            log_tail=log_tail(folder.log(state.failed_node)),
            cause=state.cause,
            refused=state.refused,
            hint=state.hint,
            warning=state.warning,
            notes=state.notes,
        )

    def _progress(self, spec: TaskSpec, folder: TaskFolder, state: RunnerState) -> Progress:
        if state.started_at is None:
            return Progress()
        key = (spec.task.id, state.started_at, state.clock_ahead)
        follower = self._followers.get(key)
        if follower is None:
            follower = self._followers[key] = Follower(spec, folder, state.started_at, state.clock_ahead)
        return replace(follower.progress(ended=state.state is TaskState.SUCCEEDED), usage=state.usage)
