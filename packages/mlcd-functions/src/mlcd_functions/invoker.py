"""Invokes functions, each from a thread of its own that waits for its end, and gathers the answers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from mlcd.errors import MlcdError
from mlcd_functions.lambdas import Answer, Lambdas, is_unknown
from mlcd_functions.messages import Event, to_bytes

START_SECONDS = 60.0  # to wait for room where the account allows no more functions at once


class Invoker:
    """The functions of one task."""

    def __init__(self, lambdas: Lambdas, name: str, create: Callable[[], None]) -> None:
        self._lambdas = lambdas
        self._name = name
        self._create = create
        self._creating = threading.Lock()
        self._answers: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()

    def invoke(self, event: Event) -> None:
        """Have a function act for a rank; its answer comes later."""
        name = f"invoke-{event.invocation_id}"
        threading.Thread(target=self._invoke, args=(event,), name=name, daemon=True).start()

    def answers(self) -> list[tuple[str, Answer]]:
        """What has come since the last time: invocation and answer."""
        found = []
        while not self._answers.empty():
            found.append(self._answers.get())
        return found

    def _invoke(self, event: Event) -> None:
        try:
            answer = self._try(event)
        except MlcdError as error:
            answer = Answer({}, error.message)
        self._answers.put((event.invocation_id, answer))

    def _try(self, event: Event) -> Answer:
        """Invoke; a service that was restarted does not know the function any more."""
        payload = to_bytes(event)
        try:
            return self._lambdas.invoke(self._name, payload, START_SECONDS)
        except MlcdError as error:
            if not is_unknown(error):
                raise
        with self._creating:
            self._create()
        return self._lambdas.invoke(self._name, payload, START_SECONDS)
