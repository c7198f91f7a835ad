"""A program that cannot import what it needs: the same on every machine, so it is paid for once."""

from __future__ import annotations

import re

from mlcd.errors import TaskFailedError
from mlcd.settings import python_setting

_ERROR = re.compile(r"^(?:\S+ )?((?:\w+\.)*\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_IMPORT_ERRORS = ("ModuleNotFoundError", "ImportError")
_MODULE = re.compile(r"No module named '([\w.]+)'")


def refuse_missing_module(log_tail: str, cloud: str) -> None:
    """Raise where a program ended because of an import; the hint names what to change on this cloud."""
    told = import_error(log_tail)
    if not told:
        return
    found = _MODULE.search(told)
    install = f"`setup: pip install {found[1].split('.')[0]}`" if found else "`setup`"
    setting = python_setting(cloud)
    another = f", or name a Python that has it with the setting `{setting}`" if setting else ""
    raise TaskFailedError(
        f"The program cannot import what it needs: {told}. No other machine was tried.",
        f"Install it with {install} in the job{another}; `mlcd resume` tries again.",
        log_tail,
    )


def import_error(log_tail: str) -> str:
    """What Python said of an import, where that is the last error in the log; else empty."""
    errors = _ERROR.findall(log_tail)
    name, told = errors[-1] if errors else ("", "")
    return told.strip() if name in _IMPORT_ERRORS else ""
