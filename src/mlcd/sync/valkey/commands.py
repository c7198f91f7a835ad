"""Commands as Redis and Valkey read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import numpy as np

from mlcd.sync.store import Bytes

Argument = Union[bytes, int, str, "Bytes"]

_LARGE = 16384  # arguments from here on are sent from where they lie


class Writer:
    """Puts commands into few pieces of memory; large arrays stay where they are."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._small = bytearray()

    def add(self, arguments: Sequence[Argument]) -> None:
        """One more command."""
        small = self._small
        small += b"*%d\r\n" % len(arguments)
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                small += b"$%d\r\n" % argument.nbytes
                small = self._add_array(argument)
                small += b"\r\n"
            else:
                raw = argument if isinstance(argument, bytes) else str(argument).encode()
                small += b"$%d\r\n%b\r\n" % (len(raw), raw)

    def take(self) -> list[memoryview]:
        """All that was added since the last time."""
        self._end_small()
        parts, self._parts = self._parts, []
        return [memoryview(part) for part in parts]

    def _add_array(self, array: Bytes) -> bytearray:
        if array.nbytes < _LARGE:
            self._small += array.data
        else:
            self._end_small()
            self._parts.append(array.data)
        return self._small

    def _end_small(self) -> None:
        if self._small:
            self._parts.append(self._small)
            self._small = bytearray()
