"""Numbers out of the lines of a log: by the user's regular expression, or by what metrics commonly look like."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

Values = dict[str, float]

_LONGEST_LINE = 1000
_SLOW_SECONDS = 0.2  # for one line; after a few of these the pattern is given up
_GUARD_SECONDS = 3.0
_SLOW_LINES = 5
_LONGEST_WHOLE = 16  # digits that a float holds exactly

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_NO_NUMBER = r"[-+]?(?:nan|inf(?:inity)?)"
_NAME = (
    r"(?:(?<![A-Za-z])(?P<split>train(?:ing)?|val(?:idation)?|valid|test|eval|dev)[ ])?"
    r"(?<![\w./-])(?P<name>[A-Za-z][\w./-]*)"
)
_END = r"(?![\w.])\s?(?P<percent>%?)"
_METRIC = re.compile(rf"{_NAME}['\"]?\s*[:=]\s*(?P<value>{_NUMBER}|{_NO_NUMBER}){_END}", re.IGNORECASE)
# After a blank only with a point or an exponent: `loss 0.31` is a metric, `error 404` is none.
_FRACTION = r"[-+]?(?:\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)"
_SPACED = re.compile(rf"{_NAME}[ \t]+(?P<value>{_FRACTION}|{_NO_NUMBER}){_END}", re.IGNORECASE)
_KNOWN = re.compile(
    r"(?:^|[_./-])(loss|acc|accuracy|top[15]|err|error|f1|auc|bleu|rouge\w*|ppl|perplexity|nll|bpc"
    r"|mse|mae|rmse|r2|iou|miou|map|psnr|ssim|fid|precision|recall|score|reward|return)\d*(?:$|[_./-])",
    re.IGNORECASE,
)

# Run apart, because only a process can be ended in the middle of a search.
_GUARDED = """
import json, re, sys
pattern, lines = json.load(sys.stdin)
search = re.compile(pattern).search
json.dump([match.groupdict() if match else {} for match in map(search, lines)], sys.stdout)
"""


def common_metrics(line: str) -> Values:
    """Metrics in an ordinary log line: `loss 0.31`, `loss: 0.31`, `loss=nan`, `val_acc=0.97`, `Test accuracy: 97.1 %`."""
    found = {}
    short = line[:_LONGEST_LINE]
    for match in (*_SPACED.finditer(short), *_METRIC.finditer(short)):
        if _KNOWN.search(match["name"]):
            name = f"{match['split'].lower()}_{match['name']}" if match["split"] else match["name"]
            found[name] = float(match["value"]) / (100.0 if match["percent"] else 1.0)
    return found


class PatternReader:
    """Applies the user's pattern; one that is invalid or takes for ever is given up, quietly."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._compiled = _compile(pattern)
        self._guarded = self._compiled is not None and may_take_forever(pattern)
        self._slow_lines = 0

    def read(self, lines: Sequence[str]) -> list[Values]:
        """The numbers in the named groups, for each line."""
        if self._compiled is None or not lines:
            return [{} for _ in lines]
        short = [line[:_LONGEST_LINE] for line in lines]
        groups = self._guarded_groups(short) if self._guarded else [self._groups(line) for line in short]
        return [_numbers(found) for found in groups]

    def _groups(self, line: str) -> dict[str, Any]:
        if self._compiled is None:
            return {}
        began = time.perf_counter()
        match = self._compiled.search(line)
        self._slow_lines += time.perf_counter() - began > _SLOW_SECONDS
        if self._slow_lines >= _SLOW_LINES:
            self._compiled = None
        return match.groupdict() if match else {}

    def _guarded_groups(self, lines: list[str]) -> list[dict[str, Any]]:
        try:
            answer = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _GUARDED],
                input=json.dumps([self._pattern, lines]),
                capture_output=True,
                text=True,
                timeout=_GUARD_SECONDS,
                check=True,
            )
            return list(json.loads(answer.stdout))
        except (subprocess.SubprocessError, OSError, ValueError):
            self._compiled = None
            return [{} for _ in lines]


def may_take_forever(pattern: str) -> bool:
    """Whether a repetition holds another one, as in `(a+)+`: the time of such a search may double with each letter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from re import _parser  # type: ignore[attr-defined]  # the only parser of patterns that there is

        return _nests(_parser.parse(pattern), inside=False)


def _nests(part: Any, inside: bool) -> bool:
    """Look through the parsed tree: tuples and lists of operators and their arguments."""
    if isinstance(part, tuple) and len(part) == 2 and str(part[0]) in ("MAX_REPEAT", "MIN_REPEAT"):
        _, most, body = part[1]
        endless = int(most) > 16
        return (inside and endless) or _nests(body, inside or endless)
    return _is_tree(part) and any(_nests(one, inside) for one in part)


def _is_tree(part: Any) -> bool:
    return isinstance(part, tuple | list) or type(part).__name__ == "SubPattern"


def _compile(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if pattern else None
    except (re.error, RecursionError, OverflowError):
        return None


def _numbers(groups: dict[str, Any]) -> Values:
    values = {name: _number(text) for name, text in groups.items() if text is not None}
    return {name: value for name, value in values.items() if value is not None}


def _number(text: str) -> float | None:
    """The number in '0.31', '1,024' or '97 %'; a whole number as it is written stays an int."""
    bare = text.strip().replace(",", "")
    if bare.isdecimal() and len(bare) < _LONGEST_WHOLE:
        return int(bare)
    try:
        return float(bare.rstrip("% ")) / (100.0 if bare.endswith("%") else 1.0)
    except ValueError:
        return None


Reader = Callable[[Sequence[str]], list[Values]]


def reader_for(pattern: str) -> Reader:
    """How to read lines: by the user's pattern where there is one, else by what metrics commonly look like."""
    if pattern:
        return PatternReader(pattern).read
    return lambda lines: [common_metrics(line) for line in lines]
