"""What a keeper wrote of its task, as the engine wants to hear it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from mlcd.clouds.tasks.diagnosis import log_tail
from mlcd.clouds.tasks.files import Files
from mlcd.clouds.tasks.following import Asked, Follower
from mlcd.core.progress import Progress, Usage
from mlcd.core.task import Charge, Handle, TaskFolder, TaskState, TaskStatus

AskedKind = TypeVar("AskedKind")


class Standing(Protocol):
    """How a task stands, in whichever keeper's words."""

    @property
    def state(self) -> TaskState: ...
    @property
    def started_at(self) -> float | None: ...
    @property
    def setup_at(self) -> float | None: ...
    @property
    def running_at(self) -> float | None: ...
    @property
    def ended_at(self) -> float | None: ...
    @property
    def exit_code(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    @property
    def failed_node(self) -> int: ...
    @property
    def usage(self) -> Usage: ...


class Narrator:
    """Follows the tasks that it is asked about, so that each look reads only what is new."""

    def __init__(self) -> None:
        self._followers: dict[tuple[Handle, float, float], Follower] = {}
        self._asked: dict[Handle, Any] = {}

    def asked(self, files: Files[AskedKind, Any]) -> AskedKind | None:
        """What was asked for, which never changes; None: nothing by this name."""
        spec: AskedKind | None = self._asked.get(files.id) or files.read_spec()
        if spec is not None:
            self._asked[files.id] = spec
        return spec

    def tell(
        self,
        spec: Asked,
        folder: TaskFolder,
        state: Standing,
        charges: Sequence[Charge],
        clock_ahead: float = 0.0,
    ) -> TaskStatus:
        """The status of the task; clock_ahead: by how many seconds the clock of its machines is ahead of ours."""
        return TaskStatus(
            state=state.state,
            progress=self._progress(spec, folder, state, clock_ahead),
            charges=tuple(charges) if state.started_at is not None else (),
            started_at=state.started_at,
            setup_at=state.setup_at,
            running_at=state.running_at,
            ended_at=state.ended_at,
            exit_code=state.exit_code,
            reason=state.reason,
            log_tail=log_tail(folder.log(state.failed_node)),
        )

    def _progress(self, spec: Asked, folder: TaskFolder, state: Standing, clock_ahead: float) -> Progress:
        if state.started_at is None:
            return Progress()
        key = (spec.task.id, state.started_at, clock_ahead)
        follower = self._followers.get(key)
        if follower is None:
            follower = self._followers[key] = Follower(spec, folder, state.started_at, clock_ahead)
        return replace(follower.progress(ended=state.state is TaskState.SUCCEEDED), usage=state.usage)
