"""Keeps errors of mlcd itself out of the training."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST = 200  # characters of an error's message
_logged: set[str] = set()


def guard(default: Any) -> Callable[[F], F]:
    """Decorate a function that the training calls: after an error inside, it returns the default."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # the border to the user's training: nothing may pass
                log_error(function.__name__, error)
                return default

        return cast(F, guarded)

    return decorate


def log_error(where: str, error: Exception) -> None:
    """Log an error in a line; with MLCD_DEBUG also its traceback."""
    log_once(f"{where}: {_in_a_line(error)}")
    if os.environ.get("MLCD_DEBUG"):
        traceback.print_exc()


def _in_a_line(error: Exception) -> str:
    """What kind of error it is and how its message begins: TensorFlow's go on for pages."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:_LONGEST]}" if lines else type(error).__name__


def log_once(message: str) -> None:
    """Log each message once; errors of stderr itself are ignored."""
    if message in _logged:
        return
    _logged.add(message)
    try:
        sys.stderr.write(f"mlcd: {message}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return
