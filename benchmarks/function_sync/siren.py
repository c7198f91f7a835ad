"""Siren's way: every worker puts its whole gradient into the object store and gets everybody else's from there."""

from __future__ import annotations

import time

import numpy as np

from mlcd_functions.objects.base import ObjectStore
from mlcd_functions.objects.errors import ObjectNotFound


class Siren:
    """One worker of Siren; the sum is taken by every worker for itself, in the order of ranks."""

    def __init__(self, objects: ObjectStore, rank: int, world_size: int) -> None:
        self._objects = objects
        self._rank, self._world_size = rank, world_size
        self._iteration = 0
        self.steps = {"UL-grad": 0.0, "DL-grad": 0.0}

    def all_reduce(self, gradient: np.ndarray) -> None:
        self._iteration += 1
        began_s = time.perf_counter()
        self._objects.put(self._key(self._iteration, self._rank), gradient.view(np.uint8).data)
        uploaded_s = time.perf_counter()
        mine = gradient.copy() if self._rank else gradient
        for rank in range(self._world_size):
            part = mine if rank == self._rank else np.frombuffer(self._await(rank), gradient.dtype)
            if rank == 0:
                gradient[:] = part
            else:
                gradient += part
        self.steps["UL-grad"] += uploaded_s - began_s
        self.steps["DL-grad"] += time.perf_counter() - uploaded_s
        self._objects.delete(self._key(self._iteration - 1, self._rank))  # all have read it, or they would not be here

    def _await(self, rank: int) -> bytes:
        while True:
            try:
                return self._objects.get(self._key(self._iteration, rank))
            except ObjectNotFound:
                time.sleep(0.01)

    @staticmethod
    def _key(iteration: int, rank: int) -> str:
        return f"gradients/{iteration}/{rank}"
