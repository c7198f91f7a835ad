"""The life of one task on functions, as its runner lives it.

    code to the object store → function → parameter store → ┌ generation: instructions, invoke, follow ┐ → outputs → final state
                                                            └ time up, lost, straggling: again ──┘

A generation is one start of all programs from the same checkpoint. Each function runs close to its limit: shortly before,
its program is asked to end, all ranks agree on a step and save, and the next generation goes on from there. When a
function is lost, only it is invoked anew; the others start their programs again where they are. The state is written
before anything is invoked, so that a runner that takes over knows every function there may be.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from mlcd.clouds.checkpoints import samples_of
from mlcd.clouds.tasks.life import TaskLife
from mlcd.clouds.tasks.outcome import Outcome
from mlcd.clouds.tasks.processes import birth
from mlcd.clouds.tasks.watch import Watch
from mlcd.core.task import EndCause, TaskState
from mlcd.errors import CloudError, MlcdError, UserError
from mlcd.worker.saving import mean_loss_seconds
from mlcd_functions.collect import Collector, newest_shipped, restarted
from mlcd_functions.counted_objects import CountedObjects
from mlcd_functions.files import Invocation, Spec, State, TaskFiles
from mlcd_functions.invoker import Invoker
from mlcd_functions.lambdas import Lambdas, function_name
from mlcd_functions.messages import INSTRUCTIONS, Event, Instructions, to_bytes
from mlcd_functions.objects.base import open_object_store
from mlcd_functions.objects.errors import ObjectError, ObjectRefused
from mlcd_functions.offers import memory_of
from mlcd_functions.outcomes import Restart, Situation, Wait, decide
from mlcd_functions.ranks import event_for, tick_seconds
from mlcd_functions.record import Record
from mlcd_functions.settings import FunctionsSettings
from mlcd_functions.stores import (
    LocalStore,
    NamedStore,
    NoStore,
    ParameterStore,
    bills_requests,
    objects_url,
    rents_store,
)
from mlcd_functions.upload import upload_code

TICK_SECONDS = 0.1
SETTLE_SECONDS = 3.0  # after a program failed, for others to show that they are the cause
FRUITLESS_LOSSES = 5  # in a row without a newer checkpoint: the task is given up
FRUITLESS_TIMES = 2
LATE_SECONDS = 1.5  # for the last report; more, and after the grace, where a checkpoint may be on its way
OBJECTS_SECONDS = 60.0  # that the object store may be away


class FunctionTask(TaskLife[Spec, State]):
    """One task, from the upload to the final state."""

    files_kind = TaskFiles
    users_errors = (UserError, ObjectRefused)

    def __init__(self, files: TaskFiles, spec: Spec, secrets: Mapping[str, str]) -> None:
        super().__init__(files, spec, secrets)
        self._settings = settings = files.read_settings() or FunctionsSettings()
        self._memory_mb = memory_of(spec.deployment.offer)
        tick = tick_seconds(settings, self._memory_mb)
        self._collector = Collector(self._folder, self._checkpoints, spec.task.checkpoint_keep)
        self._objects = CountedObjects(open_object_store(objects_url(settings, self._home, spec.task.id)))
        state = replace(files.read_state() or State(), pid=os.getpid(), birth=birth(os.getpid()))
        read_seconds = tick if bills_requests(settings) else 0.0
        self._record = Record(files, self._collector, self._objects, state, settings.lost_seconds, read_seconds)
        self._lambdas = Lambdas(settings, self._home)
        self._name = function_name(spec.task.id)
        self._invoker = Invoker(self._lambdas, self._name, self._create)
        self._watch = Watch(files.stop, (files.root, self._folder.root))
        self._store = self._parameter_store(files)
        self._hears_seconds = LATE_SECONDS + tick  # a function looks for instructions at every tick

    def run(self) -> None:
        """Live through it, whatever happens, and leave the final state."""
        self._record.begin()
        outcome = self._record.state.outcome
        if outcome is None:
            outcome = self._live()
            self._end_functions(outcome)
            with suppress(OSError):  # a full disk: what is rented must be given back all the same
                self._record.change(outcome=outcome)
        self._end(outcome)

    def _parameter_store(self, files: TaskFiles) -> ParameterStore:
        settings, task = self._settings, self._task
        if self._spec.deployment.nodes == 1:
            return NoStore()
        if rents_store(settings):
            from mlcd_functions.rented.store import RentedStore  # the cloud ec2 takes long to import

            return RentedStore(settings, files, task, self._record, self._watch)
        return NamedStore(settings.parameters, task.id) if settings.parameters else LocalStore(settings.store_memory_mb)

    def _steps(self) -> Outcome:
        self._open()
        return self._generations()

    @property
    def _began(self) -> bool:
        return self._record.state.generation > 0

    def _refused(self, error: MlcdError) -> Outcome:
        """Before anything was invoked, something may have to be changed; later it is a loss, and is tried again."""
        return Outcome(EndCause.NODE_LOST, str(error)) if self._began else super()._refused(error)

    def _open(self) -> None:
        self._make_folders()
        self._watch.check()
        if not self._record.state.uploaded:
            disk_mb = self._settings.disk_mb if self._settings.endpoint else None
            upload_code(self._task, self._home.parent, self._files.root, self._objects, self._watch.check, disk_mb)
            self._record.upload_checkpoint()
            self._record.change(uploaded=True)
        self._create()
        if not (self._began and self._record.all_ended):
            self._store.start()

    def _generations(self) -> Outcome:
        """Begin, or take over from a runner that is gone; then poll until it ends."""
        self._watch.check()
        everyone = tuple(range(self._spec.deployment.nodes))
        if not self._record.state.generation:
            self._begin_generation(everyone, "")
        else:
            self._take_over()
        while True:
            self._watch.wait(TICK_SECONDS)
            found = self._look()
            outcome = self._restart(found) if isinstance(found, Restart) else found
            if isinstance(outcome, Outcome):
                return outcome

    def _take_over(self) -> None:
        """Read what has been reported; where the parameter store went with the last runner, the programs get another."""
        now = time.time()
        self._watch.limit(self._seconds_left())
        self._record.change(
            latest=tuple(replace(invocation, reported_at=now) for invocation in self._record.state.latest)
        )
        self._record.receive(self._invoker)
        if self._store.anew and not self._record.all_ended:
            gone = tuple(invocation.rank for invocation in self._record.state.latest if invocation.ended)
            self._begin_generation(gone, self._record.bring_checkpoint())

    def _look(self) -> Wait | Restart | Outcome:
        self._receive()
        self._record.change()
        if away := self._record.away_seconds:
            lost = Outcome(EndCause.NODE_LOST, f"the object store cannot be used: {self._record.away_why}")
            return lost if away > OBJECTS_SECONDS else Wait()
        alone = len(self._record.state.latest) == 1
        return decide(
            Situation(
                invocations=self._record.state.latest,
                now=self._record.looked_at,
                memory_mb=self._memory_mb,
                lost_seconds=self._settings.lost_seconds,
                log=self._folder.log,
                settle_seconds=0.0 if alone else SETTLE_SECONDS,
                store_lives=self._store.alive(),
            )
        )

    def _receive(self) -> None:
        """Read what has been reported; the task's time counts from the begin of its first function, not from its invocation."""
        began_at = self._record.state.started_at
        self._record.receive(self._invoker)
        if self._record.state.started_at != began_at:
            self._watch.limit(self._seconds_left())

    def _restart(self, restart: Restart) -> Outcome | None:
        """Begin the next generation, unless too many led nowhere."""
        checkpoint = self._record.bring_checkpoint()
        fruitless = self._fruitless(restart, checkpoint)
        if restart.losses and fruitless > FRUITLESS_LOSSES:
            return Outcome(
                EndCause.NODE_LOST, f"{fruitless} restarts in a row came to nothing; the last: {restart.why}"
            )
        if not restart.losses and fruitless > FRUITLESS_TIMES:
            limit = self._settings.duration_seconds
            why = f"no checkpoint was committed in {fruitless} times {limit} s, the longest that a function lives"
            return Outcome(EndCause.CRASHED, why)
        told = f"{restart.why}; going on from {checkpoint or 'the beginning'}"
        self._record.note(told)
        state = self._record.state
        self._record.change(
            fruitless=fruitless,
            restarts=state.restarts + 1,
            losses=state.losses + restart.losses,
            notes=(*state.notes, told) if restart.losses else state.notes,
        )
        self._store.revive()
        self._begin_generation(restart.ranks, checkpoint)
        return None

    def _fruitless(self, restart: Restart, checkpoint: str) -> int:
        """Restarts in a row without a newer checkpoint; a function that had but the rest of its time does not count."""
        if checkpoint != self._record.state.checkpoint:
            return 0
        fresh = all(invocation.generation == self._record.state.generation for invocation in self._record.state.latest)
        return self._record.state.fruitless + (1 if fresh or restart.losses else 0)

    def _begin_generation(self, ranks: tuple[int, ...], checkpoint: str) -> None:
        """Write down what is going to be, order it, and invoke."""
        now = time.time()
        state = self._record.state
        checkpoint = checkpoint or newest_shipped(self._objects)
        samples = samples_of(self._collector.checkpoints / checkpoint) if checkpoint else 0.0
        before = self._task.samples_before
        if state.started_at is None:
            state = replace(state, started_at=now)
            self._watch.limit(self._task.max_seconds)
        if state.generation:
            self._collector.close_streams(state, now)
            state = restarted(state, self._spec.deployment.nodes, max(0.0, samples - before))
        state = replace(state, generation=state.generation + 1, checkpoint=checkpoint)
        for invocation in state.latest:
            if invocation.rank not in ranks:
                state = state.with_invocation(replace(invocation, phase="again", exit_code=None, reported_at=now))
        for rank in ranks:
            state = self._with_new_invocation(state, rank, now)
        self._record.state = state
        self._record.change()
        self._publish(self._instructions(samples or before))
        for invocation in state.latest:
            if invocation.rank in ranks:
                self._invoker.invoke(self._event(invocation))

    def _with_new_invocation(self, state: State, rank: int, now: float) -> State:
        number = state.invocations + 1
        for old in state.latest:
            if old.rank == rank and not old.ended:
                self._record.replaced[old.invocation_id] = old
        invocation = Invocation(rank, f"i{number}", state.generation, now, now, self._settings.duration_seconds)
        return replace(state.with_invocation(invocation), invocations=number)

    def _instructions(self, samples: float, end: str = "") -> Instructions:
        state = self._record.state
        return Instructions(
            generation=state.generation,
            members={str(invocation.rank): invocation.invocation_id for invocation in state.latest},
            checkpoint=state.checkpoint,
            samples_before=samples,
            sync_url=self._store.url,
            sync_timeout=self._settings.straggler_seconds,
            loss_seconds=self._loss_seconds(),
            end=end,
        )

    def _loss_seconds(self) -> float:
        """Between two losses, by what was expected and what this task has seen; 0: of no account, as in a probe."""
        state, expected = self._record.state, self._task.loss_seconds
        trained = time.time() - (state.running_at or time.time())
        return mean_loss_seconds(expected, state.losses, max(0.0, trained)) if expected else 0.0

    def _publish(self, instructions: Instructions) -> None:
        """Put the instructions up; tried again for a while, since nothing goes on without them."""
        give_up_at = time.monotonic() + OBJECTS_SECONDS
        while True:
            try:
                self._objects.put(INSTRUCTIONS, to_bytes(instructions))
                return
            except ObjectError:
                if time.monotonic() > give_up_at:
                    raise
                self._watch.pause(0.5)

    def _event(self, invocation: Invocation) -> Event:
        url = objects_url(self._settings, self._home, self._task.id)
        return event_for(self._spec, self._settings, invocation, url, self._secrets, self._seconds_left())

    def _create(self) -> None:
        self._lambdas.create(
            self._name, self._memory_mb, {"MLCD_TASK_ID": self._task.id, "MLCD_JOB_ID": self._task.job_id}
        )

    def _end(self, outcome: Outcome) -> None:
        """Bring everything home, clear up, and say how it went."""
        self._store.stop()
        outcome = self._bring_outputs(outcome)
        with suppress(MlcdError):
            self._lambdas.delete(self._name)
        self._files.forget_secrets()
        state = self._record.state
        ends = [invocation.billed_from + invocation.seconds(time.time()) for invocation in state.latest]
        # What is billed leaves out the waiting, and may so be over before the program began.
        began = [] if state.running_at is None else [state.running_at]
        self._record.change()
        self._record.finish(outcome, max(ends + began, default=time.time()))

    def _end_functions(self, outcome: Outcome) -> None:
        """Ask every program to end; what has not ended in time is ended with its function."""
        if self._record.all_ended:
            return
        grace = self._task.grace_seconds if outcome.state is TaskState.STOPPED else 1.0
        with suppress(ObjectError):
            self._objects.put(
                INSTRUCTIONS, to_bytes(self._instructions(0.0, end=outcome.reason or outcome.state.value))
            )
        saving = any(invocation.running_at is not None for invocation in self._record.state.latest)
        late = max(self._hears_seconds, self._settings.margin_seconds)
        give_up_at = time.monotonic() + (grace + late if saving else self._hears_seconds)
        while not self._record.all_ended and time.monotonic() < give_up_at:
            self._watch.pause(TICK_SECONDS)
            self._record.receive(self._invoker)
        now = time.time()
        if not self._record.all_ended:
            with suppress(MlcdError):
                self._lambdas.delete(self._name)
            ended = [
                invocation if invocation.ended else replace(invocation, ended_at=now)
                for invocation in self._record.state.latest
            ]
            self._record.change(latest=tuple(ended))

    def _bring_outputs(self, outcome: Outcome) -> Outcome:
        """Nothing is cleared up before it is home."""
        if not self._record.state.generation:
            return outcome
        try:
            self._record.receive(self._invoker)
            self._record.receive_rest()
            self._record.bring_checkpoint()
            self._collector.fetch_outputs(self._objects)
            for key in self._objects.keys(""):
                self._objects.delete(key)
        except (ObjectError, CloudError, OSError) as error:
            traceback.print_exc()
            why = f"its results could not be downloaded and are still in the object store: {error}"
            return Outcome(EndCause.CRASHED, why) if outcome.cause is EndCause.COMPLETED else outcome
        return outcome

    def _seconds_left(self) -> float | None:
        return self._record.state.seconds_left(self._task.max_seconds)
