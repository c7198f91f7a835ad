"""Nouns as JSON that every parser takes and that reads back the same: endless numbers travel as words."""

from __future__ import annotations

import json
from dataclasses import replace
from math import isfinite, isnan
from typing import Any

from starlette.responses import Response

from mlcd.core.listing import Page
from mlcd.core.serial import to_data
from mlcd.core.view import JobView


def encode(noun: Any) -> bytes:
    """A noun, a page of nouns, or plain data, as JSON."""
    return json.dumps(plain(noun), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def answer(noun: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """The noun as a response."""
    return Response(encode(noun), status, headers, media_type="application/json")


def light(view: JobView) -> JobView:
    """The view without the long list of offers that the search was made of."""
    return replace(view, record=replace(view.record, offers=()))


def plain(noun: Any) -> Any:
    """What json.dumps takes."""
    if isinstance(noun, Page):
        return {"items": [plain(item) for item in noun.items], "next": noun.next}
    if isinstance(noun, list | tuple):
        return [plain(item) for item in noun]
    if isinstance(noun, dict):
        return {key: plain(value) for key, value in noun.items()}
    if noun is None or isinstance(noun, str | int | float):
        return _finite(noun)
    return _finite(to_data(noun))


def _finite(data: Any) -> Any:
    """The data with words for what is no finite number; pydantic reads the words back as numbers."""
    if isinstance(data, float) and not isfinite(data):
        return "NaN" if isnan(data) else "Infinity" if data > 0 else "-Infinity"
    if isinstance(data, list):
        return [_finite(item) for item in data]
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    return data
