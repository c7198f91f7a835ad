"""The report's charts as plain Plotly data; colours are named, and the page fills them in by its theme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from typing import Any, TypeVar

T = TypeVar("T")
Trace = dict[str, Any]
Axis = dict[str, Any]
_COLOURS = 8
_MOST_POINTS = 400
_FAR_APART = 8  # largest ÷ smallest value


@dataclass(frozen=True)
class Figure:
    """One chart; several frames are stepped through by a slider that charts of a group share."""

    title: str
    frames: tuple[tuple[Trace, ...], ...]
    x: Axis
    y: Axis
    right: Axis | None = None  # a second axis for traces that say yaxis="y2"

    def to_data(self) -> dict[str, Any]:
        """For the page's script."""
        layout = {"xaxis": self.x, "yaxis": self.y, **({"yaxis2": self.right} if self.right else {})}
        return {"title": self.title, "frames": [list(frame) for frame in self.frames], "layout": layout}


def axis(title: str, **more: Any) -> Axis:
    """An axis with its title; what is shown here is never below zero unless it says so itself."""
    return {"title": {"text": label(title)}, "rangemode": "nonnegative", **more}


def money(**more: Any) -> Axis:
    """How an axis shows dollars: $0.0005, not $500µ."""
    return {"tickprefix": "$", "exponentformat": "none", **more}


def line(name: str, x: Sequence[float], y: Sequence[float], colour: str, **more: Any) -> Trace:
    """A line through points."""
    defaults = {"width": 2, "dash": "solid", "shape": "linear"}
    style = {"color": colour, **{key: more.pop(key, value) for key, value in defaults.items()}}
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label(name),
        "x": tidy(x),
        "y": tidy(y),
        "line": style,
        **more,
    }


def dots(name: str, x: Sequence[float], y: Sequence[float], colour: str, symbol: str = "circle", **more: Any) -> Trace:
    """Points that stand alone."""
    texts = {"text": [label(one) for one in more.pop("text")]} if "text" in more else {}
    marker = {"color": colour, "symbol": symbol, "size": more.pop("size", 10)}
    if symbol.endswith("-open"):
        marker["line"] = {"width": 1.5}
    return {
        "type": "scatter",
        "mode": more.pop("mode", "markers"),
        "name": label(name),
        "x": tidy(x),
        "y": tidy(y),
        "marker": marker,
        **texts,
        **more,
    }


def band(x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str) -> tuple[Trace, Trace]:
    """The area between two lines."""
    edge = {"width": 0, "color": colour}
    common = {
        "type": "scatter",
        "mode": "lines",
        "x": tidy(x),
        "line": edge,
        "hoverinfo": "skip",
        "showlegend": False,
    }
    lower = {**common, "y": tidy(low)}
    return lower, {**common, "y": tidy(high), "fill": "tonexty", "fillcolor": f"{colour}/0.18"}


def label(text: str) -> str:
    """Text that Plotly shows as it is; it would read tags and entities otherwise."""
    return escape(text, quote=False)


def colour(number: int) -> str:
    """The name of the page's colour for the series of that number."""
    return f"var:c{number % _COLOURS + 1}"


def symbol(number: int) -> str:
    """The mark of the series of that number: another one where the colours begin again."""
    return ("circle", "square", "diamond", "triangle-up")[number // _COLOURS % 4]


def tidy(values: Iterable[float]) -> list[float | None]:
    """Numbers short enough to read; a gap where there is none."""
    return [float(f"{value:.6g}") if isfinite(value) else None for value in values]


def thinned(points: Sequence[T], most: int = _MOST_POINTS) -> list[T]:
    """Evenly fewer of them, first and last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def time_unit(longest_seconds: float) -> tuple[float, str]:
    """Seconds in the unit that suits the longest of the times, and its name."""
    if longest_seconds < 180:
        return 1.0, "s"
    return (60.0, "min") if longest_seconds < 3 * 3600 else (3600.0, "h")


def scale(values: Iterable[float], prefix: str = "") -> Axis:
    """How an axis shows these values: by ratios, with ticks that people read, where they lie far apart.

    A value that stands alone is shown from zero: around it Plotly would show one unit to each side.
    """
    known = [value for value in values if value > 0 and isfinite(value)]
    if not known or max(known) / min(known) <= _FAR_APART:
        alone = len(set(known)) < 2
        small = max(known, default=0.0) < 1.0  # 0.0005 h, not 500µ
        look = money() if prefix == "$" else {"exponentformat": "none"} if small else {}
        return {"type": "linear", "rangemode": "tozero" if alone else "nonnegative", **look}
    powers = range(floor(log10(min(known))), ceil(log10(max(known))) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{prefix}{_digits(tick)}" for tick in ticks]}


def _digits(tick: float) -> str:
    """0.00005, not 5e-05."""
    return f"{tick:.9f}".rstrip("0") if 1e-9 <= tick < 1.0 else f"{tick:,g}"
