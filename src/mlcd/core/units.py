"""Durations, money and counts: read from what people write, shown as people say them."""

from __future__ import annotations

import re
from datetime import datetime

LONGEST_SECONDS = 1e10  # three centuries
_UNIT_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(w|d|h|m|s)")


def parse_duration(text: str | int | float) -> float:
    """Seconds in '6h', '1h30m', '90 s' or a plain number of seconds."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        seconds = float(text)
    else:
        compact = str(text).strip().lower()
        parts = _DURATION.findall(compact)
        if not parts or _DURATION.sub("", compact).strip():
            raise ValueError(f"'{text}' is not a duration such as '90s', '45m', '6h', '1h30m' or '2d'")
        seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    if seconds >= LONGEST_SECONDS:
        raise ValueError(f"'{text}' is too long a duration")
    if not seconds > 0:
        raise ValueError(f"'{text}' is not a duration greater than zero")
    return seconds


class NoTimeZoneError(ValueError):
    """A clock time that could be meant anywhere."""


def parse_moment(text: str) -> datetime:
    """The moment in an ISO clock time that names its zone, such as '2026-11-17T12:00+01:00'."""
    moment = datetime.fromisoformat(text.strip())
    if moment.tzinfo is None:
        raise NoTimeZoneError(f"'{text}' names no time zone; write for example '{text.strip()}+00:00'")
    return moment


def show_duration(seconds: float) -> str:
    """'1h 30m', '4m 05s' or '12.3s'."""
    if seconds < 0:
        return "-" + show_duration(-seconds)
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes:02d}m"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}h"


def show_usd(usd: float) -> str:
    """'$12.34', with more digits where the amount is small: nothing is shown as free that is not."""
    if usd == 0 or abs(usd) >= 1:
        return f"${usd:,.2f}"
    for digits in (4, 6, 8):
        if abs(usd) >= 10.0**-digits:
            return f"${usd:.{digits}f}"
    return "under $0.00000001"


def show_rate(samples_per_second: float) -> str:
    """'1,234/s', '12.3/s' or '0.0123/s'."""
    if samples_per_second >= 100:
        return f"{samples_per_second:,.0f}/s"
    return f"{samples_per_second:.3g}/s"
