"""The life of one task on functions, as its scheduler lives it.

    code to the object store → function → parameter store → ┌ generation: orders, invoke, follow ┐ → outputs → last words
                                                            └ time up, lost, straggling: again ──┘

A generation is one start of all programs from the same checkpoint. Each function runs close to its limit: shortly before,
its program is asked to end, all ranks agree on a step and save, and the next generation goes on from there. When a
function is lost, only it is invoked anew; the others start their programs again where they are. The state is written
before anything is invoked, so that a scheduler that takes over knows every function there may be.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mlcd.clouds.checkpoints import samples_of
from mlcd.clouds.functions.counting import CountedObjects
from mlcd.clouds.functions.crew import Crew
from mlcd.clouds.functions.files import Spec, State, Stint, TaskFiles
from mlcd.clouds.functions.homecoming import Home, newest_shipped, restarted
from mlcd.clouds.functions.keeping import Keeper
from mlcd.clouds.functions.lambdas import Lambdas, function_name
from mlcd.clouds.functions.offers import memory_of
from mlcd.clouds.functions.orders import ORDERS, Event, Orders, to_bytes
from mlcd.clouds.functions.ranks import event_for, tick_seconds
from mlcd.clouds.functions.settings import FunctionsSettings
from mlcd.clouds.functions.stores import ParameterServers, bills_requests, objects_url
from mlcd.clouds.functions.uploading import upload_code
from mlcd.clouds.functions.verdicts import Again, Finish, Scene, Wait, decide
from mlcd.clouds.tasks.environment import checkpoint_folder
from mlcd.clouds.tasks.files import working_folder
from mlcd.clouds.tasks.watch import Ending, Watch
from mlcd.core.task import Refusal, TaskState
from mlcd.errors import CloudError, MlcdError, NoCapacityError, UserError
from mlcd.sync import ObjectError, ObjectRefused, open_object_store

TICK_SECONDS = 0.1
SETTLE_SECONDS = 3.0  # after a program failed, for others to show that they are the cause
VAIN_LOSSES = 5  # in a row without a newer checkpoint: the task is given up
VAIN_TIMES = 2
LATE_SECONDS = 1.5  # for the last report; more, and after the grace, where a checkpoint may be on its way
OBJECTS_SECONDS = 60.0  # that the object store may be away


class Scheduling:
    """One task, from the upload to the last words."""

    def __init__(
        self,
        files: TaskFiles,
        spec: Spec,
        secrets: Mapping[str, str],
        settings: FunctionsSettings,
        state: State,
    ) -> None:
        self._files, self._spec, self._task = files, spec, spec.task
        self._settings = settings
        self._secrets = secrets
        self._home = Path(spec.home)
        folder = working_folder(spec.task, files)
        self._homecoming = Home(folder, checkpoint_folder(spec.task, folder), spec.task.checkpoint_keep)
        self._objects = CountedObjects(open_object_store(objects_url(settings, self._home, spec.task.id)))
        self._kept = Keeper(
            files,
            spec,
            self._homecoming,
            self._objects,
            state,
            settings.lost_seconds,
            tick_seconds(settings, memory_of(spec.deployment.offer)) if bills_requests(settings) else 0.0,
        )
        self._lambdas = Lambdas(settings, self._home)
        self._name = function_name(spec.task.id)
        self._crew = Crew(self._lambdas, self._name, self._create)
        self._servers = ParameterServers(settings, spec.task.id, spec.deployment.nodes)
        self._watch = Watch(files.stop, (files.root, folder.root))
        self._memory_mb = memory_of(spec.deployment.offer)
        # A function looks for orders at every tick.
        self._hears_seconds = LATE_SECONDS + tick_seconds(settings, self._memory_mb)

    def run(self) -> None:
        """Live through it, whatever happens, and leave the last words."""
        self._kept.save()
        self._end(self._live())

    def _live(self) -> Finish:
        try:
            self._open()
            return self._generations()
        except Ending as ending:
            return Finish(ending.state, ending.reason)
        except MlcdError as error:  # of the settings, of AWS or of a store: not the program's
            return self._refused(error)
        except Exception as error:  # whatever it is, the functions must be ended and the cause told
            traceback.print_exc()
            return Finish(TaskState.FAILED, f"mlcd's own error: {error!r}; see {self._files.log}")

    def _refused(self, error: MlcdError) -> Finish:
        """Before anything was invoked, something may have to be changed; later it is a loss, and is tried again."""
        if self._kept.state.generation:
            return Finish(TaskState.LOST, str(error))
        return Finish(TaskState.FAILED, error.message, refused=_kind_of(error), hint=error.hint)

    def _open(self) -> None:
        self._homecoming.make()
        self._watch.check()
        if not self._kept.state.uploaded:
            disk_mb = self._settings.disk_mb if self._settings.endpoint else None
            upload_code(
                self._task, self._home.parent, self._files.root, self._objects, self._watch.check, disk_mb
            )
            self._kept.upload_checkpoint()
            self._kept.change(uploaded=True)
        self._create()
        self._servers.start()

    def _generations(self) -> Finish:
        """Begin, or take over from a scheduler that is gone; then look again and again."""
        self._watch.check()
        everyone = tuple(range(self._spec.deployment.nodes))
        if not self._kept.state.generation:
            self._begin_generation(everyone, "")
        else:
            self._take_over()
        while True:
            self._watch.wait(TICK_SECONDS)
            verdict = self._look()
            finish = self._again(verdict) if isinstance(verdict, Again) else verdict
            if isinstance(finish, Finish):
                return finish

    def _take_over(self) -> None:
        """Hear what there is to hear; a parameter store that was the last scheduler's is gone with it."""
        now = time.time()
        self._watch.limit(self._seconds_left())
        self._kept.change(stints=tuple(replace(stint, heard_at=now) for stint in self._kept.state.stints))
        self._kept.hear(self._crew)
        if self._servers.url and not self._kept.all_ended:
            gone = tuple(stint.rank for stint in self._kept.state.stints if stint.ended)
            self._begin_generation(gone, self._kept.bring_checkpoint())

    def _look(self) -> Wait | Again | Finish:
        self._hear()
        self._kept.save()
        if away := self._kept.away_seconds:
            lost = Finish(TaskState.LOST, f"the object store cannot be used: {self._kept.away_why}")
            return lost if away > OBJECTS_SECONDS else Wait()
        alone = len(self._kept.state.stints) == 1
        return decide(
            Scene(
                stints=self._kept.state.stints,
                now=time.time(),
                memory_mb=self._memory_mb,
                lost_seconds=self._settings.lost_seconds,
                settle_seconds=0.0 if alone else SETTLE_SECONDS,
                tails=self._kept.tails(),
                store_lives=self._servers.alive(),
            )
        )

    def _hear(self) -> None:
        """What there is to hear; the task's time counts from the begin of its first function, not from its invocation."""
        began_at = self._kept.state.started_at
        self._kept.hear(self._crew)
        if self._kept.state.started_at != began_at:
            self._watch.limit(self._seconds_left())

    def _again(self, again: Again) -> Finish | None:
        """Begin the next generation, unless too many were in vain."""
        checkpoint = self._kept.bring_checkpoint()
        vain = self._vain(again, checkpoint)
        if again.losses and vain > VAIN_LOSSES:
            return Finish(TaskState.LOST, f"{vain} restarts in a row came to nothing; the last: {again.why}")
        if not again.losses and vain > VAIN_TIMES:
            limit = self._settings.duration_seconds
            why = f"no checkpoint was committed in {vain} times {limit} s, the longest that a function lives"
            return Finish(TaskState.FAILED, why)
        told = f"{again.why}; going on from {checkpoint or 'the beginning'}"
        self._kept.note(told)
        state = self._kept.state
        self._kept.change(
            vain=vain,
            restarts=state.restarts + 1,
            losses=state.losses + again.losses,
            notes=(*state.notes, told) if again.losses else state.notes,
        )
        self._servers.revive()
        self._begin_generation(again.ranks, checkpoint)
        return None

    def _vain(self, again: Again, checkpoint: str) -> int:
        """Restarts in a row without a newer checkpoint; a function that had but the rest of its time does not count."""
        if checkpoint != self._kept.state.checkpoint:
            return 0
        fresh = all(stint.generation == self._kept.state.generation for stint in self._kept.state.stints)
        return self._kept.state.vain + (1 if fresh or again.losses else 0)

    def _begin_generation(self, ranks: tuple[int, ...], checkpoint: str) -> None:
        """Write down what is going to be, order it, and invoke."""
        now = time.time()
        state = self._kept.state
        checkpoint = checkpoint or newest_shipped(self._objects)
        samples = samples_of(self._homecoming.checkpoints / checkpoint) if checkpoint else 0.0
        before = self._task.samples_before
        if state.started_at is None:
            state = replace(state, started_at=now)
            self._watch.limit(self._task.max_seconds)
        if state.generation:
            self._homecoming.close_streams(state, now)
            state = restarted(state, self._spec.deployment.nodes, max(0.0, samples - before))
        state = replace(state, generation=state.generation + 1, checkpoint=checkpoint)
        for stint in state.stints:
            if stint.rank not in ranks:
                state = state.with_stint(replace(stint, phase="again", exit_code=None, heard_at=now))
        for rank in ranks:
            state = self._with_new_stint(state, rank, now)
        self._kept.state = state
        self._kept.save()
        self._order(self._orders(samples or before))
        for stint in state.stints:
            if stint.rank in ranks:
                self._crew.invoke(self._event(stint))

    def _with_new_stint(self, state: State, rank: int, now: float) -> State:
        number = state.invocations + 1
        for old in state.stints:
            if old.rank == rank and not old.ended:
                self._kept.replaced[old.invocation] = old
        stint = Stint(rank, f"i{number}", state.generation, now, now, self._settings.duration_seconds)
        return replace(state.with_stint(stint), invocations=number)

    def _orders(self, samples: float, end: str = "") -> Orders:
        state = self._kept.state
        return Orders(
            generation=state.generation,
            members={str(stint.rank): stint.invocation for stint in state.stints},
            checkpoint=state.checkpoint,
            samples_before=samples,
            sync_url=self._servers.url,
            sync_timeout=self._settings.straggler_seconds,
            end=end,
        )

    def _order(self, orders: Orders) -> None:
        """Put the orders up; tried again for a while, since nothing goes on without them."""
        give_up_at = time.monotonic() + OBJECTS_SECONDS
        while True:
            try:
                self._objects.put(ORDERS, to_bytes(orders))
                return
            except ObjectError:
                if time.monotonic() > give_up_at:
                    raise
                self._watch.pause(0.5)

    def _event(self, stint: Stint) -> Event:
        url = objects_url(self._settings, self._home, self._task.id)
        return event_for(self._spec, self._settings, stint, url, self._secrets, self._seconds_left())

    def _create(self) -> None:
        self._lambdas.create(
            self._name, self._memory_mb, {"MLCD_TASK_ID": self._task.id, "MLCD_JOB_ID": self._task.job_id}
        )

    def _end(self, finish: Finish) -> None:
        """End what runs, bring everything home, clear up, and say how it went."""
        self._end_functions(finish)
        finish = self._bring_outputs(finish)
        with suppress(MlcdError):
            self._lambdas.delete(self._name)
        self._servers.stop()
        self._files.forget_secrets()
        state = self._kept.state
        ends = [stint.billed_from + stint.seconds(time.time()) for stint in state.stints]
        # What is billed leaves out the waiting, and may so be over before the program began.
        began = [] if state.running_at is None else [state.running_at]
        self._kept.change(
            state=finish.state,
            reason=finish.reason,
            exit_code=finish.exit_code,
            failed_node=finish.rank,
            refused=finish.refused,
            hint=finish.hint,
            ended_at=max(ends + began, default=time.time()),
        )

    def _end_functions(self, finish: Finish) -> None:
        """Ask every program to end; what has not ended in time is ended with its function."""
        if self._kept.all_ended:
            return
        grace = self._task.grace_seconds if finish.state is TaskState.STOPPED else 1.0
        with suppress(ObjectError):
            self._objects.put(ORDERS, to_bytes(self._orders(0.0, end=finish.reason or finish.state.value)))
        saving = any(stint.running_at is not None for stint in self._kept.state.stints)
        late = max(self._hears_seconds, self._settings.margin_seconds)
        give_up_at = time.monotonic() + (grace + late if saving else self._hears_seconds)
        while not self._kept.all_ended and time.monotonic() < give_up_at:
            self._watch.pause(TICK_SECONDS)
            self._kept.hear(self._crew)
        now = time.time()
        if not self._kept.all_ended:
            with suppress(MlcdError):
                self._lambdas.delete(self._name)
            ended = [
                stint if stint.ended else replace(stint, ended_at=now) for stint in self._kept.state.stints
            ]
            self._kept.change(stints=tuple(ended))

    def _bring_outputs(self, finish: Finish) -> Finish:
        """Nothing is cleared up before it is home."""
        if not self._kept.state.generation:
            return finish
        try:
            self._kept.hear(self._crew)
            self._kept.bring_checkpoint()
            self._homecoming.fetch_outputs(self._objects)
            for key in self._objects.keys(""):
                self._objects.delete(key)
        except (ObjectError, CloudError, OSError) as error:
            traceback.print_exc()
            why = f"what it made could not be brought home and is still in the object store: {error}"
            return Finish(TaskState.FAILED, why) if finish.state is TaskState.SUCCEEDED else finish
        return finish

    def _seconds_left(self) -> float | None:
        limit, began = self._task.max_seconds, self._kept.state.started_at
        if limit is None or began is None:
            return limit
        return max(0.0, limit - (time.time() - began))


def _kind_of(error: MlcdError) -> Refusal:
    if isinstance(error, NoCapacityError):
        return Refusal.NO_CAPACITY
    return Refusal.USER if isinstance(error, UserError | ObjectRefused) else Refusal.CLOUD
